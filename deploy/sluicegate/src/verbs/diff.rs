//! `diff`: what applying files would change.

use clap::Args;
use serde_json::json;
use sluicegate_model::document::References;

use super::apply::{self, FileArgs};
use crate::{
    change::{revision, to_json, unified},
    client::{Client, ClientOptions},
    failure::Failure,
    files::Files,
    output::{Format, colours, print},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate diff -f sluicegate.yaml
  sluicegate diff -f sluicegate.yaml --prune || echo 'the file and the control plane differ'

Exit codes:
  0  no difference
  1  differences
  2  the command line or the file is wrong
  3  the control plane cannot be reached or does not let you in
  4  the control plane refused for another reason")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// Differences, which have been printed; or why there is no answer, which is never exit code 1.
pub(crate) async fn run(args: DiffArgs) -> Result<(), Failure> {
    if differs(args).await.map_err(Failure::above_one)? { Err(Failure::not_so("")) } else { Ok(()) }
}

async fn differs(args: DiffArgs) -> Result<bool, Failure> {
    let files = Files::load(&args.files.file, References::Open)?;
    let mut request = apply::request(&files, args.files.prune.as_ref());
    request.dry_run = true;
    let mut client = Client::connect(&args.client).await?;
    let reply = client
        .apply(request, std::time::Duration::ZERO)
        .await
        .map_err(|status| apply::refusal(&client, &files, &status))?;
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let colours = colours();
            let texts: Vec<_> =
                reply.differences.iter().map(|difference| unified(difference, colours)).collect();
            print(&texts.concat())?;
            if texts.is_empty() {
                output.note(&format!("no difference to revision {}", revision(&reply)));
            }
        }
        Format::Json | Format::Yaml => {
            let differences: Vec<_> = reply.differences.iter().map(to_json).collect();
            output.value(&json!({ "revision": revision(&reply), "differences": differences }))?;
        }
    }
    Ok(!reply.differences.is_empty())
}
