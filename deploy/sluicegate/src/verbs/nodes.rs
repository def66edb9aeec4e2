//! `nodes`: the data planes and what they run.

use std::{io::IsTerminal, time::Duration};

use clap::Args;
use serde_json::{Value, json};
use sluicegate_proto::{
    admin::v1::{DataPlane, FleetStatusReply, FleetStatusRequest},
    policy::v1::{LedgerStatus, Point, Rejected},
};

use crate::{
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Output, Table, clean, count, duration_ms, print},
};

const COLUMNS: [&str; 11] = [
    "node",
    "address",
    "build",
    "revision",
    "keys",
    "lag",
    "rejected",
    "in_flight",
    "uptime",
    "ledger",
    "state",
];

/// Age from which usage that waits is worth telling, in milliseconds.
const LATE_MS: u64 = 10_000;

/// Puts the cursor home and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate nodes
  sluicegate nodes --watch
  sluicegate nodes -o json | jq '.nodes[] | select(.lag_ms > 5000) | .node'

Columns: the revision that the data plane runs, the one whose callers' keys it knows (it moves with keys
alone, whatever becomes of a configuration), for how long it has been behind, how many resources it refused, requests in flight, how it holds limits and what usage waits to be counted.")]
pub(crate) struct NodesArgs {
    /// Show it again and again, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// Time between two looks, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000, requires = "watch",
          value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    interval_ms: u64,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When the control plane cannot be asked.
pub(crate) async fn run(args: NodesArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let output = args.client.output;
    show(&status(&mut client).await?, output, args.watch)?;
    if !args.watch {
        return Ok(());
    }
    loop {
        tokio::time::sleep(Duration::from_millis(args.interval_ms)).await;
        match status(&mut client).await {
            Ok(reply) => show(&reply, output, true)?,
            Err(failure) => output.note(&failure.message),
        }
    }
}

async fn status(client: &mut Client) -> Result<FleetStatusReply, Failure> {
    let request = FleetStatusRequest {};
    client
        .call(request, Duration::ZERO, async |admin, request| admin.fleet_status(request).await)
        .await
}

fn show(reply: &FleetStatusReply, output: Output, again: bool) -> Result<(), Failure> {
    match output.format {
        Format::Table => {
            let clear = again && std::io::stdout().is_terminal();
            let lead = if clear { CLEAR } else { "" };
            let end = if again && !clear { "\n" } else { "" };
            print(&format!("{lead}{}{end}", text(reply, output.quiet)))
        }
        Format::Json | Format::Yaml if again => output.next_value(&value(reply)),
        Format::Json | Format::Yaml => output.value(&value(reply)),
    }
}

fn text(reply: &FleetStatusReply, quiet: bool) -> String {
    let mut table = Table::new(&COLUMNS, quiet);
    for plane in &reply.data_planes {
        table.row(row(plane, reply.head.as_ref()));
    }
    let mut text = if table.is_empty() { String::new() } else { table.render() };
    if quiet {
        return text;
    }
    for plane in &reply.data_planes {
        let name = node(plane).0;
        if !plane.error.is_empty() {
            text.push_str(&format!("\n{name} refused a change set: {}", plane.error));
        }
        for refused in &plane.rejected {
            text.push_str(&format!("\n{name} refused {}", told(refused)));
        }
    }
    let text_end = format!(
        "{}, head revision {}, says {}{}\n",
        count(reply.data_planes.len(), "data plane"),
        reply.head.as_ref().map_or(0, |head| head.revision),
        if reply.replica_id.is_empty() { "the control plane" } else { &reply.replica_id },
        if reply.store_unavailable { "; its store does not answer at the moment" } else { "" },
    );
    let lines: Vec<_> = text.lines().map(clean).collect();
    let separator = if lines.is_empty() { "" } else { "\n\n" };
    format!("{}{separator}{}", lines.join("\n"), text_end)
}

/// Name, address and build.
fn node(plane: &DataPlane) -> (String, String, String) {
    let node = plane.node.clone().unwrap_or_default();
    let address = if node.address.is_empty() { plane.peer.clone() } else { node.address };
    (node.node_id, address, node.build)
}

fn row(plane: &DataPlane, head: Option<&Point>) -> [String; 11] {
    let (name, address, build) = node(plane);
    [
        name,
        address,
        build,
        match &plane.acknowledged {
            None => String::new(),
            Some(at) if is_foreign(at, head) => format!("{} of another store", at.revision),
            Some(at) => at.revision.to_string(),
        },
        plane.keys.as_ref().map(|at| at.revision.to_string()).unwrap_or_default(),
        if plane.lag_ms == 0 { String::new() } else { duration_ms(plane.lag_ms) },
        plane.rejected.len().to_string(),
        plane.requests_in_flight.to_string(),
        duration_ms(plane.uptime_ms),
        plane.ledger.as_ref().map(ledger).unwrap_or_default(),
        if plane.connected { "connected" } else { "away" }.to_owned(),
    ]
}

/// How a data plane gets along with limits and usage, in a few words.
fn ledger(ledger: &LedgerStatus) -> String {
    let mut said = vec![ledger.mode.clone()];
    if ledger.mode != "ok" {
        said.push(format!("for {}", duration_ms(ledger.degraded_ms)));
    }
    if ledger.usage_waiting > 0 && (ledger.mode != "ok" || ledger.oldest_ms > LATE_MS) {
        let oldest = duration_ms(ledger.oldest_ms);
        said.push(format!("{} uncounted, oldest {oldest}", ledger.usage_waiting));
    }
    if ledger.dropped > 0 {
        said.push(format!("{} lost", ledger.dropped));
    }
    said.join(", ")
}

/// Revisions compare only within one epoch.
fn is_foreign(at: &Point, head: Option<&Point>) -> bool {
    head.is_some_and(|head| head.epoch != at.epoch)
}

fn told(refused: &Rejected) -> String {
    let reference = refused.r#ref.clone().unwrap_or_default();
    let serves = match refused.serving_version {
        0 => "nothing instead".to_owned(),
        version => format!("version {version} instead"),
    };
    format!(
        "{}/{} version {}, serves {serves}: {}",
        reference.kind, reference.name, refused.version, refused.reason
    )
}

fn value(reply: &FleetStatusReply) -> Value {
    let nodes = reply.data_planes.iter().map(|plane| {
        let (name, address, build) = node(plane);
        let rejected = plane.rejected.iter().map(|refused| {
            let reference = refused.r#ref.clone().unwrap_or_default();
            json!({
                "kind": reference.kind,
                "name": reference.name,
                "version": refused.version,
                "serving_version": refused.serving_version,
                "reason": refused.reason,
            })
        });
        let at = plane.acknowledged.as_ref();
        json!({
            "node": name,
            "address": address,
            "build": build,
            "connected": plane.connected,
            "acknowledged_revision": at.map(|at| at.revision),
            "same_epoch": at.map(|at| !is_foreign(at, reply.head.as_ref())),
            "keys_revision": plane.keys.as_ref().map(|at| at.revision),
            "persisted_revision": plane.persisted_revision,
            "lag_ms": plane.lag_ms,
            "rejected": rejected.collect::<Vec<_>>(),
            "error": plane.error,
            "requests_in_flight": plane.requests_in_flight,
            "uptime_ms": plane.uptime_ms,
            "peer": plane.peer,
            "ledger": plane.ledger.as_ref().map(|ledger| json!({
                "mode": ledger.mode,
                "degraded_ms": ledger.degraded_ms,
                "usage_waiting": ledger.usage_waiting,
                "oldest_ms": ledger.oldest_ms,
                "journal_bytes": ledger.journal_bytes,
                "dropped": ledger.dropped,
            })),
        })
    });
    json!({
        "head_revision": reply.head.as_ref().map(|head| head.revision),
        "replica_id": reply.replica_id,
        "store_unavailable": reply.store_unavailable,
        "nodes": nodes.collect::<Vec<_>>(),
    })
}
