//! `key-pool`: how provider keys stand, and setting it by hand.

mod set;
mod status;

use clap::Subcommand;

use crate::failure::Failure;

pub(crate) use self::status::{Statuses, statuses, value};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyPoolVerb {
    /// Show which provider keys rest, are spent or refused, and why
    Status(status::StatusArgs),
    /// Send nothing with a key for a while
    Rest(set::RestArgs),
    /// Take a key back into use: forget what is known of it, and undo 'disable'
    Enable(set::EnableArgs),
    /// Send nothing with a key until it is enabled: a change of the configuration
    Disable(set::DisableArgs),
}

/// Runs the verb.
///
/// # Errors
/// When the control plane refuses or cannot be asked.
pub(crate) async fn run(verb: KeyPoolVerb) -> Result<(), Failure> {
    match verb {
        KeyPoolVerb::Status(args) => status::run(args).await,
        KeyPoolVerb::Rest(args) => set::rest(args).await,
        KeyPoolVerb::Enable(args) => set::enable(args).await,
        KeyPoolVerb::Disable(args) => set::disable(args).await,
    }
}
