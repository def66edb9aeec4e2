//! `apply`: making the configuration what files say.

use std::{collections::BTreeSet, path::PathBuf};

use clap::Args;
use sluicegate_model::{Kind, document::References};
use sluicegate_proto::admin::v1::{ApplyRequest, Change, change};
use tonic::Status;
use uuid::Uuid;

use crate::{
    change::{Telling, WaitArgs},
    client::{self, Client, ClientOptions},
    failure::Failure,
    files::Files,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate apply -f sluicegate.yaml --dry-run
  sluicegate apply -f sluicegate.yaml --wait 1.0 --comment 'second key for openai'
  sluicegate apply -f sluicegate.yaml --prune                 also delete what the file dropped
  sluicegate get model gpt-4o -o yaml | sed ... | sluicegate apply -f - --expect-version 12

All changes are made at once, at one revision, or none is. Faults that the control plane finds are
shown at their line of the file. A call that gets no answer is repeated safely until --timeout-ms.")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Check and say what would change, change nothing
    #[arg(long)]
    dry_run: bool,
    /// Shown in the history
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Version that the one resource of the file must have now; 0: it must not exist
    #[arg(long, value_name = "VERSION")]
    expect_version: Option<u64>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// The files that a change is made of.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File to apply; - is standard input. May be given several times
    #[arg(short, long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) file: Vec<PathBuf>,
    /// Also delete resources that the files do not name: of the kinds in the files, of the given
    /// kinds (--prune=model,tenant), or of every kind (--prune=all)
    #[arg(long, value_name = "KINDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "", value_parser = prune)]
    pub(crate) prune: Option<Prune>,
}

/// Whose absence from the files means deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prune {
    /// The kinds that the files name.
    Named,
    /// These.
    Kinds(BTreeSet<Kind>),
}

fn prune(text: &str) -> Result<Prune, String> {
    match text {
        "" => Ok(Prune::Named),
        "all" => Ok(Prune::Kinds(Kind::ALL.into_iter().collect())),
        kinds => kinds
            .split(',')
            .map(|kind| kind.trim().parse::<Kind>().map_err(|error| error.to_string()))
            .collect::<Result<_, _>>()
            .map(Prune::Kinds),
    }
}

impl Prune {
    /// The kinds in question. A provider's keys may stand inside it, so whoever prunes providers by
    /// name of the file prunes credentials too.
    fn kinds(&self, named: &[Kind]) -> BTreeSet<Kind> {
        match self {
            Self::Kinds(kinds) => kinds.clone(),
            Self::Named => {
                let keys = named.contains(&Kind::Provider).then_some(Kind::Credential);
                named.iter().copied().chain(keys).collect()
            }
        }
    }
}

/// A request that makes the configuration what the files say; `dry_run` and the rest are unset.
pub(crate) fn request(files: &Files, prune: Option<&Prune>) -> ApplyRequest {
    let changes = files.declared().map(|declared| Change {
        change: Some(change::Change::Put(declared.resource.clone())),
        expect_version: None,
    });
    let prune_kinds = prune.map(|prune| prune.kinds(&files.kinds())).unwrap_or_default();
    ApplyRequest {
        changes: changes.collect(),
        idempotency_key: Uuid::new_v4().to_string(),
        prune_kinds: prune_kinds.into_iter().map(|kind| kind.singular().to_owned()).collect(),
        ..ApplyRequest::default()
    }
}

/// What a refusal means: faults are shown at their place in the files.
pub(crate) fn refusal(client: &Client, files: &Files, status: &Status) -> Failure {
    let faults = client::faults(status);
    if faults.named.is_empty() { client.failure(status) } else { files.invalid(&faults) }
}

/// Runs the verb.
///
/// # Errors
/// Faults in the files, whoever finds them; a control plane that cannot be asked or refuses.
pub(crate) async fn run(args: ApplyArgs) -> Result<(), Failure> {
    let files = Files::load(&args.files.file, References::Open)?;
    let mut request = request(&files, args.files.prune.as_ref());
    let named = request.changes.len();
    if args.expect_version.is_some() {
        let [change] = request.changes.as_mut_slice() else {
            return Err(Failure::usage(format!(
                "--expect-version is for one resource, the files declare {named}"
            )));
        };
        change.expect_version = args.expect_version;
    }
    if named == 0 && request.prune_kinds.is_empty() {
        return Err(Failure::not_so("the files declare nothing"));
    }
    request.dry_run = args.dry_run;
    request.comment = args.comment.unwrap_or_default();
    request.wait = args.wait.to_proto();

    let mut client = Client::connect(&args.client).await?;
    let reply = client
        .apply(request, args.wait.extra())
        .await
        .map_err(|status| refusal(&client, &files, &status))?;
    Telling {
        output: args.client.output,
        dry_run: args.dry_run,
        wait: args.wait,
        named: Some(named),
    }
    .tell(&reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pruned() {
        check("", &[Kind::Model], &[Kind::Model]);
        check("", &[Kind::Provider, Kind::Model], &[Kind::Provider, Kind::Credential, Kind::Model]);
        check("tenants,api-key", &[Kind::Model], &[Kind::Tenant, Kind::ApiKey]);
        check("all", &[], &Kind::ALL);
        assert!(prune("models,routes").unwrap_err().contains("routes"));

        #[track_caller]
        fn check(text: &str, named: &[Kind], expected: &[Kind]) {
            let kinds = prune(text).unwrap().kinds(named);
            assert_eq!(kinds, expected.iter().copied().collect());
        }
    }
}
