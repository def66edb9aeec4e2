//! Circuit breakers: one node's, the fleet's, and both together.

mod checks;
mod events;
mod fleet;
mod force;
mod local;
mod node;
mod orders;
mod world;
