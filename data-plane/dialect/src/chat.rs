//! A chat in the middle between OpenAI's form and a format that differs from it: what was asked
//! ([`request`]), and what was answered, whole ([`reply`]) or in pieces ([`chunks`]). Formats that do
//! not differ have no use for it: their bytes pass.

pub mod chunks;
pub mod content;
pub mod finish;
pub mod images;
pub mod number;
pub mod reply;
pub mod request;
pub mod support;
pub mod tools;

pub use chunks::Chunks;
pub use content::{Media, Part};
pub use number::Number;
pub use reply::{Choice, Reply, ToolCall};
pub use request::{Chat, Message};
pub use support::Support;
