//! `breaker status`: which targets are left alone, and what each data plane sees.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_proto::{
    admin::v1::{BreakerStatusReply, BreakerStatusRequest, ForcedState, NodeView, TargetStatus},
    health::v1::{Counts, State, Target, Window, finding::Health},
};

use crate::{
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Output, Table, clean, duration_ms, print},
};

const COLUMNS: [&str; 10] = [
    "provider", "model", "state", "since", "left", "strikes", "nodes", "reason", "forced", "health",
];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate breaker status
  sluicegate breaker status openai/gpt-4o -o json
  sluicegate breaker status 'openai/*'

NODES says how many data planes have the target open by what they saw themselves, of those with
traffic. The fleet's state is the one that all of them obey. HEALTH is what health probes have come to,
where there are any, and the data plane that sends them.")]
pub(crate) struct StatusArgs {
    /// Only this target, provider/model or provider/*
    target: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When there is no such provider, or the control plane cannot be asked.
pub(super) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let request = BreakerStatusRequest { target: args.target.unwrap_or_default() };
    let reply = client
        .call(request, Duration::ZERO, async |admin, request| admin.breaker_status(request).await)
        .await?;
    let output = args.client.output;
    match output.format {
        Format::Table => table(&reply, output),
        Format::Json | Format::Yaml => output.value(&value(&reply)),
    }
}

fn table(reply: &BreakerStatusReply, output: Output) -> Result<(), Failure> {
    let mut table = Table::new(&COLUMNS, output.quiet);
    reply.targets.iter().for_each(|status| table.row(row(status)));
    if table.is_empty() {
        output.note("there are no targets");
    } else {
        print(&table.render())?;
    }
    if !reply.retries_off_comment.is_empty() {
        let until = match reply.retries_off_until.as_str() {
            "" => String::new(),
            until => format!(" until {until}"),
        };
        output.note(&clean(&format!("retries are off{until}: {}", reply.retries_off_comment)));
    }
    if reply.leader.is_empty() {
        output.note("no control plane decides for the fleet: each data plane decides alone");
    }
    if reply.health != "ready" {
        output.note(&clean(&format!("the ledger is {}", reply.health)));
    }
    Ok(())
}

fn row(status: &TargetStatus) -> [String; 10] {
    let Target { provider, model } = status.target.clone().unwrap_or_default();
    let open = status.nodes.iter().filter(|view| has_open(view)).count();
    let time = |ms: u64| if ms == 0 { String::new() } else { duration_ms(ms) };
    [
        provider,
        clean(&model),
        state(status.state()).to_owned(),
        time(status.since_ms),
        time(status.left_ms),
        status.strikes.to_string(),
        format!("{open}/{}", status.nodes.len()),
        clean(&status.reason),
        status.forced.as_ref().map(forced).unwrap_or_default(),
        probed(status),
    ]
}

/// What health probes have come to; empty: there are none.
fn probed(status: &TargetStatus) -> String {
    if status.prober.is_empty() {
        return String::new();
    }
    let finding = status.finding.clone().unwrap_or_default();
    let reason = match finding.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    clean(&format!("{}{reason} ({})", health(finding.health()), status.prober))
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Unspecified | Health::Unknown => "unknown",
        Health::Well => "well",
        Health::Ill => "ill",
    }
}

fn has_open(view: &NodeView) -> bool {
    let open =
        |window: &Window| window.own && matches!(window.state(), State::Open | State::HalfOpen);
    view.window.as_ref().is_some_and(open)
}

fn forced(forced: &ForcedState) -> String {
    let what = if forced.open { "open" } else { "closed" };
    let until = match forced.expires_at.as_str() {
        "" => String::new(),
        until => format!(" until {until}"),
    };
    clean(&format!("{what}{until}: {}", forced.comment))
}

/// The form for programs.
fn value(reply: &BreakerStatusReply) -> Value {
    let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let retries_off = named(&reply.retries_off_comment)
        .map(|comment| json!({ "until": named(&reply.retries_off_until), "comment": comment }));
    let node = |view: &NodeView| {
        let window = view.window.clone().unwrap_or_default();
        json!({
            "node": view.node_id,
            "zone": named(&view.zone),
            "state": state(window.state()),
            "own": window.own,
            "split": window.split,
            "fatal": window.fatal,
            "waiting": window.waiting,
            "in_flight": window.in_flight,
            "last_5_s": window.recent.as_ref().map(counts),
            "last_minute": window.long.as_ref().map(counts),
        })
    };
    let targets = reply.targets.iter().map(|status| {
        let Target { provider, model } = status.target.clone().unwrap_or_default();
        json!({
            "provider": provider,
            "model": model,
            "state": state(status.state()),
            "reason": named(&status.reason),
            "since_ms": status.since_ms,
            "left_ms": status.left_ms,
            "strikes": status.strikes,
            "forced": status.forced.as_ref().map(|forced| json!({
                "name": forced.name,
                "state": if forced.open { "open" } else { "closed" },
                "expires_at": named(&forced.expires_at),
                "comment": forced.comment,
            })),
            "health": named(&status.prober).map(|prober| {
                let finding = status.finding.clone().unwrap_or_default();
                json!({
                    "prober": prober,
                    "is": health(finding.health()),
                    "reason": named(&finding.reason),
                })
            }),
            "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
        })
    });
    json!({
        "leader": named(&reply.leader),
        "health": reply.health,
        "retries_off": retries_off,
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn counts(counts: &Counts) -> Value {
    json!({
        "started": counts.started,
        "answered": counts.answered,
        "failed": counts.failed,
        "slow": counts.slow,
        "stalled": counts.stalled,
    })
}

fn state(state: State) -> &'static str {
    match state {
        State::Unspecified | State::Closed => "closed",
        State::Suspect => "suspect",
        State::Ramping => "ramping",
        State::HalfOpen => "half_open",
        State::Open => "open",
    }
}
