//! `breaker`: which targets are left alone, and what an operator wants of them.

mod force;
mod status;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum BreakerVerb {
    /// Show which targets are left alone, why, and what each data plane sees
    Status(status::StatusArgs),
    /// Send nothing to a target for a while, whatever anybody sees
    Open(force::ForceArgs),
    /// Send everything to a target for a while, whatever happens
    Close(force::ForceArgs),
    /// Take the force on a target back: the fleet decides again
    Auto(force::AutoArgs),
    /// Switch off that anything is tried again, in the whole fleet
    #[command(subcommand)]
    Retries(RetriesVerb),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RetriesVerb {
    /// Try nothing again for a while
    Off(force::RetriesArgs),
    /// Try again what fails, as models say
    On(force::OnArgs),
}

/// Runs the verb.
///
/// # Errors
/// When the control plane refuses or cannot be asked.
pub(crate) async fn run(verb: BreakerVerb) -> Result<(), Failure> {
    match verb {
        BreakerVerb::Status(args) => status::run(args).await,
        BreakerVerb::Open(args) => force::force(args, "open").await,
        BreakerVerb::Close(args) => force::force(args, "closed").await,
        BreakerVerb::Auto(args) => force::auto(args).await,
        BreakerVerb::Retries(RetriesVerb::Off(args)) => force::retries_off(args).await,
        BreakerVerb::Retries(RetriesVerb::On(args)) => force::retries_on(args).await,
    }
}
