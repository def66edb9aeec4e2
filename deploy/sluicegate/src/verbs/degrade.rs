//! `degrade`: how far degradations have gone, and setting it by hand.

mod set;
mod status;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum DegradeVerb {
    /// Show how far each degradation has gone, since when, and why
    Status(status::StatusArgs),
    /// Set the level of a degradation for a while
    Set(set::SetArgs),
    /// Take back what was set by hand
    Clear(set::ClearArgs),
}

/// Runs the verb.
///
/// # Errors
/// When the control plane refuses or cannot be asked.
pub(crate) async fn run(verb: DegradeVerb) -> Result<(), Failure> {
    match verb {
        DegradeVerb::Status(args) => status::run(args).await,
        DegradeVerb::Set(args) => set::set(args).await,
        DegradeVerb::Clear(args) => set::clear(args).await,
    }
}
