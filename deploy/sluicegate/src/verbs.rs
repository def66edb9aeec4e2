//! What each verb does, a file each.

pub(crate) mod apply;
pub(crate) mod breaker;
pub(crate) mod completions;
pub(crate) mod deferred;
pub(crate) mod degrade;
pub(crate) mod delete;
pub(crate) mod demo_upstream;
pub(crate) mod describe;
pub(crate) mod diff;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod key_pool;
pub(crate) mod limit;
pub(crate) mod nodes;
pub(crate) mod probe;
pub(crate) mod resources;
pub(crate) mod rollback;
pub(crate) mod schema;
pub(crate) mod usage;
pub(crate) mod validate;
pub(crate) mod watch;

use crate::{cli::Verb, failure::Failure, roles};

/// Does what the command line says.
///
/// # Errors
/// Why it could not, with the exit code.
pub(crate) async fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Run(args) => Ok(Box::pin(roles::run(*args)).await?),
        Verb::ControlPlane(args) => Ok(Box::pin(roles::control_plane(*args)).await?),
        Verb::DataPlane(args) => Ok(Box::pin(roles::data_plane(*args)).await?),
        Verb::Init(args) => init::run(&args),
        Verb::Validate(args) => validate::run(&args),
        Verb::Schema => schema::run(),
        Verb::Apply(args) => Box::pin(apply::run(args)).await,
        Verb::Diff(args) => Box::pin(diff::run(args)).await,
        Verb::Get(args) => Box::pin(get::run(args)).await,
        Verb::Describe(args) => Box::pin(describe::run(args)).await,
        Verb::Delete(args) => Box::pin(delete::run(args)).await,
        Verb::Watch(args) => Box::pin(watch::run(args)).await,
        Verb::History(args) => Box::pin(history::run(args)).await,
        Verb::Rollback(args) => Box::pin(rollback::run(args)).await,
        Verb::Probe(args) => Box::pin(probe::run(args)).await,
        Verb::Nodes(args) => Box::pin(nodes::run(args)).await,
        Verb::Key(verb) => Box::pin(key::run(verb)).await,
        Verb::Breaker(verb) => Box::pin(breaker::run(verb)).await,
        Verb::KeyPool(verb) => Box::pin(key_pool::run(verb)).await,
        Verb::Degrade(verb) => Box::pin(degrade::run(verb)).await,
        Verb::Limit(verb) => Box::pin(limit::run(verb)).await,
        Verb::Deferred(verb) => Box::pin(deferred::run(verb)).await,
        Verb::Usage(args) => Box::pin(usage::run(args)).await,
        Verb::DemoUpstream(args) => Box::pin(demo_upstream::run(args)).await,
        Verb::Completions(args) => completions::run(args),
    }
}
