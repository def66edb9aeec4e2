//! The data plane: carries OpenAI-compatible traffic under a policy that a control plane streams
//! to it.
//!
//! A request meets the stages in this order, each taking what the one before it made:
//! [`accept`] → [`identify`] → [`admit`] → [`route`] → [`attempt`] → [`relay`] → [`settle`] →
//! [`report`]. [`pipeline`] is that order on one screen. Beside it, [`sync`] keeps the policy
//! current, [`quota`] holds leases on the limits of the fleet, [`pool`] knows how provider keys stand,
//! [`usage`] writes down and reports what was used, and [`server`] owns sockets. [`probe`] finds out
//! how an upstream really behaves. [`tasks`] is routing by what a request looks like. [`levels`] knows how far
//! degradations have gone, [`degraded`] is what they take away from a request, and [`polite`] an answer
//! in the place of a refusal.
//! [`deferred`] keeps for later what cannot be run now.

pub mod accept;
pub mod admit;
pub mod attempt;
pub mod body;
pub mod deferred;
pub mod degraded;
pub mod estimate;
pub mod group;
pub mod hold;
pub mod identify;
pub mod levels;
pub mod limited;
mod link;
pub mod media;
pub mod metrics;
pub mod models;
pub mod ops;
pub mod pipeline;
pub mod policy;
pub mod polite;
pub mod pool;
pub mod pressure;
pub mod probe;
pub mod quota;
pub mod refusal;
pub mod relay;
pub mod report;
pub mod respond;
pub mod route;
pub mod server;
pub mod settle;
pub mod sync;
pub mod target;
pub mod tasks;
pub mod trace;
pub mod upstream;
pub mod usage;
mod visible;
mod wishes;

pub use pipeline::Gateway;
pub use policy::Policy;
