//! Wire formats of model providers: bytes in, events out. Pure functions, no sockets, no clocks.
//!
//! A format is one folder: `request`, `response`, `stream`, `errors`. [`registry`] is the one place
//! that lists them.

pub mod call;
pub mod dialect;
pub mod fault;
pub mod json;
pub mod openai_chat;
pub mod prompt;
pub mod redact;
pub mod registry;
pub mod splice;
pub mod sse;
pub mod wait;

pub use call::{Call, Endpoint, InvalidCall};
pub use dialect::{Answer, Dialect, StreamEvent, StreamReader, UpstreamCall};
pub use fault::Fault;
