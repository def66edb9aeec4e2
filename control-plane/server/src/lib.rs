//! The control plane on the network: the admin API, the policy stream, limits and usage, deferred
//! requests and who is told of them, and health over HTTP.

mod admin;
mod auth;
mod deferred;
mod degrade;
mod health;
mod http;
mod ledger;
mod metrics;
mod paging;
mod policy;
mod pool;
mod probe;
mod quota;
mod scrape;
mod serve;
mod start;
mod status;
mod usage;
mod webhook;
mod wire;

pub use http::serve_starting;
pub use probe::{Extent, Prober};
pub use serve::{ServeError, Tls};
pub use sluicegate_control_core::{Issued, probe::Subject};
pub use start::{Config, ControlPlane};
