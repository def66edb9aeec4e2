//! `delete`: removing resources.

use clap::Args;
use sluicegate_model::{Kind, ResourceRef};
use sluicegate_proto::admin::v1::DeleteRequest;

use crate::{
    change::{Telling, WaitArgs},
    cli::KindParser,
    client::{Client, ClientOptions},
    failure::Failure,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate delete model gpt-4o
  sluicegate delete credential openai/old openai/older --wait 1.0
  sluicegate delete provider local --dry-run

All of them are deleted at once or none is. A resource that another refers to is not deleted.")]
pub(crate) struct DeleteArgs {
    /// Kind of the resources
    #[arg(value_parser = KindParser, hide_possible_values = true)]
    kind: Kind,
    /// Their names
    #[arg(required = true)]
    name: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
    /// Version that the one resource must have now
    #[arg(long, value_name = "VERSION")]
    expect_version: Option<u64>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// What goes with any deletion.
#[derive(Debug, Default, Args)]
pub(crate) struct HowArgs {
    /// Say what would change, change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Shown in the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

/// Runs the verb.
///
/// # Errors
/// When one is not there, is in use or has another version; when the control plane cannot be asked.
pub(crate) async fn run(args: DeleteArgs) -> Result<(), Failure> {
    if args.expect_version.is_some() && args.name.len() > 1 {
        return Err(Failure::usage("--expect-version is for one resource"));
    }
    delete(args.kind, &args.name, args.expect_version, args.how, args.wait, &args.client).await
}

/// Deletes resources of one kind and tells so.
///
/// # Errors
/// As [`run`].
pub(crate) async fn delete(
    kind: Kind,
    names: &[String],
    expect_version: Option<u64>,
    how: HowArgs,
    wait: WaitArgs,
    options: &ClientOptions,
) -> Result<(), Failure> {
    let request = DeleteRequest {
        refs: names.iter().map(|name| ResourceRef::new(kind, name).to_proto()).collect(),
        expect_version,
        dry_run: how.dry_run,
        comment: how.comment.unwrap_or_default(),
        wait: wait.to_proto(),
    };
    let mut client = Client::connect(options).await?;
    let reply = client
        .call(request, wait.extra(), async |admin, request| admin.delete(request).await)
        .await?;
    Telling { output: options.output, dry_run: how.dry_run, wait, named: None }.tell(&reply)
}
