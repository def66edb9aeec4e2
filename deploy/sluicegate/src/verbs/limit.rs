//! `limit`: where limits stand, and other amounts for single subjects.

mod overrides;
mod status;
mod subject;

use clap::Subcommand;

pub(crate) use self::overrides::span_ms;
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum LimitVerb {
    /// Show what was used of limits, for each whom they count
    Status(status::StatusArgs),
    /// Give one subject another amount of a limit, for a while or for good
    Set(overrides::SetArgs),
    /// Take a subject's other amount away again
    Unset(overrides::UnsetArgs),
    /// List the other amounts that single subjects have
    Overrides(overrides::ListArgs),
}

/// Runs the verb.
///
/// # Errors
/// When the control plane refuses or cannot be asked.
pub(crate) async fn run(verb: LimitVerb) -> Result<(), Failure> {
    match verb {
        LimitVerb::Status(args) => status::run(args).await,
        LimitVerb::Set(args) => overrides::set(args).await,
        LimitVerb::Unset(args) => overrides::unset(args).await,
        LimitVerb::Overrides(args) => overrides::list(args).await,
    }
}
