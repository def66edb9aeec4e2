//! Wire formats of model providers: bytes in, events out. Pure functions, no sockets.
//!
//! A format is one folder: `request`, `response`, `stream`, `errors`. [`registry`] is the one place
//! that lists them. Callers speak OpenAI's form; where a format is another, [`chat`] and
//! [`embedding`] stand in the middle. [`errors`] is how all of them say what went wrong.

pub mod anthropic_messages;
pub mod auth;
pub mod azure_openai;
pub mod bedrock_converse;
pub mod call;
pub mod chat;
pub mod dashscope_native;
pub mod dialect;
pub mod embedding;
pub mod ernie_v1;
pub mod errors;
pub mod eventstream;
pub mod extension;
pub mod fault;
pub mod fill;
pub mod frame;
pub mod gemini_generate;
pub mod json;
pub mod openai_chat;
mod path;
pub mod prompt;
pub mod redact;
pub mod registry;
pub mod sigv4;
pub mod splice;
pub mod sse;
pub mod strip;
mod wait;
pub mod words;

pub use auth::{AuthError, AuthScheme, AwsKey, Exchange, Proof};
pub use call::{Call, Endpoint, InvalidCall};
pub use dialect::{
    Answer, Destination, Dialect, Place, Sent, StreamEvent, StreamReader, Unfit, UpstreamCall,
};
pub use fault::{Fault, Level};
pub use frame::Framing;
pub use sluicegate_model::Profile;
pub use wait::Until;
