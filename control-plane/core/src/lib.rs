//! What the control plane decides: the desired state, how it may change, what data planes are told
//! and which of them run it; what the fleet may use under its limits, and what it has used. No
//! transport.

pub mod apply;
pub mod auth;
pub mod breaker;
pub mod deferred;
pub mod degrade;
pub mod desired;
pub mod election;
mod error;
pub mod expiry;
pub mod fleet;
pub mod history;
mod idempotency;
mod keys;
pub mod ledger_clock;
pub mod pool;
pub mod probe;
pub mod publish;
pub mod quota;
mod remembered;
mod ring;
mod seal_check;
pub mod secrets;
mod setback;
pub mod state;
pub mod usage;

pub use apply::{Applier, Change, Desire, Difference, Outcome, Request};
pub use auth::{Auth, Issued, Role, Tokens};
pub use breaker::Breakers;
pub use deferred::Deferred;
pub use degrade::Degrade;
pub use desired::{Changes, Desired};
pub use election::Election;
pub use error::{CoreError, Moved};
pub use fleet::{DataPlane, Fleet, Progress, Session};
pub use history::History;
pub use ledger_clock::LedgerClock;
pub use pool::Pool;
pub use publish::Publication;
pub use quota::{Limits, Quota};
pub use remembered::Remembered;
pub use seal_check::check as check_seal_key;
pub use setback::Setback;
pub use state::{ChangeEvent, State, Stored};
pub use usage::{Taken, Usage};
