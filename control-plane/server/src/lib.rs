//! The control plane on the network: the admin API, the policy stream, and health over HTTP.

mod admin;
mod auth;
mod http;
mod metrics;
mod paging;
mod policy;
mod serve;
mod start;
mod status;
mod wire;

pub use http::serve_starting;
pub use serve::{ServeError, Tls};
pub use sluicegate_control_core::Issued;
pub use start::{Config, ControlPlane};
