//! `rollback`: undoing changes.

use clap::Args;
use sluicegate_proto::admin::v1::RollbackRequest;

use crate::{
    change::{Telling, WaitArgs},
    client::{Client, ClientOptions},
    failure::Failure,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate history                        find the revision
  sluicegate rollback 41 --dry-run          what would change
  sluicegate rollback 41 --wait 1.0

The undoing is a new change with a revision of its own; it can be undone too.")]
pub(crate) struct RollbackArgs {
    /// The revision to return to
    revision: u64,
    /// Say what would change, change nothing
    #[arg(long)]
    dry_run: bool,
    /// Shown in the history
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When the revision is not kept any more, or the control plane cannot be asked.
pub(crate) async fn run(args: RollbackArgs) -> Result<(), Failure> {
    let request = RollbackRequest {
        to_revision: args.revision,
        dry_run: args.dry_run,
        comment: args.comment.unwrap_or_default(),
        wait: args.wait.to_proto(),
    };
    let mut client = Client::connect(&args.client).await?;
    let reply = client
        .call(request, args.wait.extra(), async |admin, request| admin.rollback(request).await)
        .await?;
    Telling { output: args.client.output, dry_run: args.dry_run, wait: args.wait, named: None }
        .tell(&reply)
}
