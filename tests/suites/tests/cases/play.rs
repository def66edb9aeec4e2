//! Plays a case against the gateway.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sluicegate_testkit::client::{Reply, exchange};
use sluicegate_testkit::record::{AccessRecord, record_of};
use sluicegate_testkit::upstream::Call;
use tokio::task::JoinSet;

use crate::checks;
use crate::findings::Findings;
use crate::judge;
use crate::script::{Script, key_of};
use crate::standing;
use crate::table::{Case, Cell, Exchange};
use crate::world::World;

/// The longest an exchange may take.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(30);
/// How soon after the reply the access record must be there.
const RECORD_LIMIT: Duration = Duration::from_secs(3);
/// How long the end of an upstream connection is waited for.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);
/// How often a request is sent until a certain one of several equal keys has been chosen.
const TRIES: usize = 16;

/// One exchange as it went.
#[derive(Debug)]
pub(crate) struct Played {
    /// The body of the request before any content coding.
    pub(crate) asked: Vec<u8>,
    pub(crate) reply: Reply,
    /// The upstream calls it led to.
    pub(crate) calls: Vec<Call>,
    /// `None` if nobody asked for it.
    pub(crate) record: Option<AccessRecord>,
}

/// A cell with all it went through.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) played: Vec<Played>,
}

/// Plays every cell of a case; gives what is wrong.
pub(crate) async fn case(world: &Arc<World>, case: &Case) -> Vec<String> {
    let mut findings = Findings::default();
    let mut runs = Vec::new();
    for cell in &case.cells {
        let mut run = Run { cell, played: Vec::new() };
        let mut script = Arc::new(Script::Always(Vec::new()));
        for (number, exchange) in cell.exchanges.iter().enumerate() {
            findings.about(label(cell, number));
            if let Some(next) = &exchange.upstream {
                script = next.clone();
            }
            tokio::time::sleep(Duration::from_millis(exchange.after_ms)).await;
            let first_call = world.upstream(cell).count();
            let before = memory_before(world, exchange, &mut findings);
            let all = play(world, cell, exchange, &script, &mut findings).await;
            let mine = |call: &Call| call.number >= first_call && call.cell() == cell.name;
            let calls = world.upstream(cell).calls(mine).len();
            judge::together(exchange, &all, calls, &mut findings);
            for played in all {
                judge::exchange(cell, exchange, &script, &played, &mut findings);
                run.played.push(played);
            }
            standing::judge_keys(world, cell, &exchange.expect, &mut findings).await;
            standing::judge_breakers(world, cell, &exchange.expect, &mut findings).await;
            standing::judge(world, cell, &exchange.expect, &mut findings).await;
            if let Some(before) = before {
                memory_after(world, exchange, before, &mut findings);
            }
        }
        runs.push(run);
    }
    findings.about(String::new());
    for name in &case.checks {
        match checks::find(name) {
            Some(check) => check(world, &runs, &mut findings),
            None => findings.add(format!("there is no check {name}")),
        }
    }
    findings.list
}

/// Does an exchange as often as it asks for; gives those that are to be judged.
async fn play(
    world: &Arc<World>,
    cell: &Cell,
    exchange: &Exchange,
    script: &Arc<Script>,
    findings: &mut Findings,
) -> Vec<Played> {
    world.scripts.set(&cell.name, script.clone());
    let mut played = Vec::new();
    if exchange.parallel {
        played = in_parallel(world, cell, exchange, findings).await;
    } else if let Some(key) = &exchange.until_called {
        for _ in 0..TRIES {
            world.scripts.set(&cell.name, script.clone());
            played = once(world, cell, exchange, findings).await.into_iter().collect();
            if played.iter().flat_map(|p| &p.calls).any(|call| key_of(call) == key) {
                return played;
            }
        }
        findings.add(format!("key {key} was not called in {TRIES} requests"));
    } else {
        for time in 0..exchange.repeat.max(1) {
            if time > 0 {
                tokio::time::sleep(Duration::from_millis(exchange.pause_ms)).await;
            }
            played.extend(once(world, cell, exchange, findings).await);
        }
    }
    played
}

async fn once(
    world: &World,
    cell: &Cell,
    spec: &Exchange,
    findings: &mut Findings,
) -> Option<Played> {
    let request = match spec.request.build(cell).await {
        Ok(request) => request,
        Err(error) => {
            findings.add(format!("{error:#}"));
            return None;
        }
    };
    let upstream = world.upstream(cell);
    let first_call = upstream.count();
    let reply = exchange(world.gateway.traffic(), &request, &spec.client, EXCHANGE_LIMIT).await;
    let mine = |call: &Call| call.number >= first_call && call.cell() == cell.name;
    if spec.expect.timing.wants_close()
        && let Some(call) = upstream.calls(mine).last()
    {
        // Its absence is for the judge.
        upstream.wait_for_close(call.number, CLOSE_LIMIT).await.ok();
    }
    let mut record = None;
    if judge::wants_record(&spec.expect) {
        match find_record(world, cell, &reply).await {
            Ok(found) => record = Some(found),
            Err(error) => findings.add(format!("{error:#}")),
        }
    }
    let asked = spec.request.plain_body(cell);
    Some(Played { asked, reply, calls: upstream.calls(mine), record })
}

/// All at once. Which call belongs to which reply is unknown, so none is attributed.
async fn in_parallel(
    world: &Arc<World>,
    cell: &Cell,
    spec: &Exchange,
    findings: &mut Findings,
) -> Vec<Played> {
    let request = match spec.request.build(cell).await {
        Ok(request) => request,
        Err(error) => {
            findings.add(format!("{error:#}"));
            return Vec::new();
        }
    };
    let mut replies = JoinSet::new();
    for _ in 0..spec.repeat {
        let (gateway, request) = (world.gateway.traffic(), request.clone());
        replies.spawn(async move { exchange(gateway, &request, &[], EXCHANGE_LIMIT).await });
    }
    let played = |reply| Played { asked: Vec::new(), reply, calls: Vec::new(), record: None };
    replies.join_all().await.into_iter().map(played).collect()
}

/// By the request id of the reply or, if the client left before there was one, by the caller's key.
async fn find_record(world: &World, cell: &Cell, reply: &Reply) -> anyhow::Result<AccessRecord> {
    let output = world.gateway.stdout();
    if let Some(id) = reply.header("x-request-id") {
        return record_of(output, id, RECORD_LIMIT).await;
    }
    let mine = |line: &str| {
        let may_be_it = line.contains(&cell.name);
        may_be_it.then(|| AccessRecord::parse(line))?.filter(|r| r.key.as_ref() == Some(&cell.name))
    };
    let found = output.find(RECORD_LIMIT, "an access record of the caller's key", mine).await;
    found.context("the reply has no x-request-id")
}

fn memory_before(world: &World, exchange: &Exchange, findings: &mut Findings) -> Option<u64> {
    exchange.memory_growth_mb?;
    let before = world.gateway.restart_peak().and_then(|()| world.gateway.rss_bytes());
    before.map_err(|error| findings.add(format!("{error:#}"))).ok()
}

fn memory_after(world: &World, exchange: &Exchange, before: u64, findings: &mut Findings) {
    let limit = exchange.memory_growth_mb.unwrap_or_default();
    match world.gateway.peak_rss_bytes() {
        Err(error) => findings.add(format!("{error:#}")),
        Ok(peak) => {
            let grown = peak.saturating_sub(before) / 1_000_000;
            let finding = || format!("memory grew by {grown} MB, expected at most {limit}");
            findings.check(grown <= limit, finding);
        }
    }
}

fn label(cell: &Cell, exchange: usize) -> String {
    match (cell.variant.as_str(), exchange) {
        ("", 0) => String::new(),
        ("", n) => format!("then {n}"),
        (variant, 0) => variant.to_owned(),
        (variant, n) => format!("{variant}, then {n}"),
    }
}
