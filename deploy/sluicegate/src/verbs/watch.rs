//! `watch`: following changes.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_model::Kind;
use sluicegate_proto::admin::v1::{WatchEvent, WatchRequest};
use tonic::{Code, Status, Streaming};

use super::resources;
use crate::{
    cli::KindParser,
    client::{Client, ClientOptions, is_stranger},
    failure::Failure,
    output::{Format, Output, clean, print},
};

/// Waits between attempts to get a lost stream back.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate watch                         the present state, then every change
  sluicegate watch model --from 41         what changed after revision 41, and goes on to change
  sluicegate watch -o json | jq -c '.puts[].name'

A lost connection is taken up again where it broke. Ends with Ctrl-C.")]
pub(crate) struct WatchArgs {
    /// Kinds to watch; without any, all
    #[arg(value_parser = KindParser, hide_possible_values = true)]
    kind: Vec<Kind>,
    /// Continue after this revision instead of sending the present state first
    #[arg(long, value_name = "REVISION")]
    from: Option<u64>,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb. It ends only when it fails or nobody reads.
///
/// # Errors
/// When the control plane refuses, or cannot be asked in the first place.
pub(crate) async fn run(args: WatchArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let output = args.client.output;
    let mut request = WatchRequest {
        kinds: args.kind.iter().map(|kind| kind.singular().to_owned()).collect(),
        after_revision: args.from.unwrap_or(0),
    };
    let mut had_one = false;
    let mut pause = FIRST_PAUSE;
    loop {
        let opened =
            client.open(request.clone(), async |admin, request| admin.watch(request).await).await;
        let lost = match opened {
            Ok(mut stream) => {
                had_one = true;
                pause = FIRST_PAUSE;
                follow(&mut stream, &mut request.after_revision, output).await?
            }
            Err(status) => status,
        };
        if !had_one || !may_come_back(&lost) {
            return Err(client.failure(&lost));
        }
        output.note(&format!("lost the control plane ({}); trying again", clean(lost.message())));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Prints events until the stream ends; says how it ended.
async fn follow(
    stream: &mut Streaming<WatchEvent>,
    after: &mut u64,
    output: Output,
) -> Result<Status, Failure> {
    loop {
        match stream.message().await {
            Ok(Some(event)) => {
                match output.format {
                    Format::Table => print(&lines(&event))?,
                    Format::Json | Format::Yaml => output.next_value(&value(&event))?,
                }
                *after = revision(&event);
            }
            Ok(None) => return Ok(Status::unavailable("it closed the stream")),
            Err(status) => return Ok(status),
        }
    }
}

/// Codes of a connection that broke, or of a control plane that restarts.
fn may_come_back(status: &Status) -> bool {
    !is_stranger(status)
        && matches!(
            status.code(),
            Code::Unavailable
                | Code::Unknown
                | Code::Internal
                | Code::Cancelled
                | Code::DeadlineExceeded
                | Code::Aborted
        )
}

fn revision(event: &WatchEvent) -> u64 {
    event.at.as_ref().map_or(0, |at| at.revision)
}

fn lines(event: &WatchEvent) -> String {
    let revision = revision(event);
    let mut text = String::new();
    let mut line = |action: &str, what: &str| {
        text.push_str(&format!("{revision:>8}  {action:<6}  {}\n", clean(what)));
    };
    if event.reset {
        line("reset", "what follows replaces everything before");
    }
    for put in &event.puts {
        if let Some((kind, name)) = resources::reference(put) {
            line("put", &format!("{kind}/{name}"));
        }
    }
    for gone in &event.deletes {
        line("delete", &format!("{}/{}", gone.kind, gone.name));
    }
    text
}

fn value(event: &WatchEvent) -> Value {
    let deletes = event.deletes.iter().map(|gone| json!({ "kind": gone.kind, "name": gone.name }));
    json!({
        "revision": revision(event),
        "reset": event.reset,
        "puts": event.puts.iter().map(resources::value).collect::<Vec<_>>(),
        "deletes": deletes.collect::<Vec<_>>(),
    })
}
