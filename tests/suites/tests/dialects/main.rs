//! The wire formats, against fake providers that are as strict as the real ones are documented to be.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

mod errors;
mod gateway;
mod odd;
mod probe;
mod spoken;
