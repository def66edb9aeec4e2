//! Policy distribution as two state machines, one for each end of a stream.
//!
//! The promises, held by the property tests over loss, duplication, reordering and reconnects:
//! a client's state is always exactly some published state, whole; it never goes back within one
//! epoch; after a quiet time it equals the newest one that it did not refuse.

mod client;
mod digest;
mod lane;
mod publisher;
mod server;
mod state;

pub use client::{ClientAction, ClientConfig, ClientSession, Verdict};
pub use digest::Digest;
pub use lane::{Lane, Lanes};
pub use publisher::{Publisher, Pull};
pub use server::{Close, Follower, ServerAction, ServerConfig, ServerSession, Standing};
pub use state::{Body, Change, Key, LaneState, Point};

use std::time::Duration;

/// Time since an origin that the caller chose once; only differences matter.
pub type Now = Duration;

/// Schema of resource bodies that this build writes.
pub const SCHEMA: u32 = 1;
