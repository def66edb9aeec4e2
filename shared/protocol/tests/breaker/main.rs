//! Circuit breakers of one node.

mod events;
mod local;
mod node;
mod orders;
