//! The cases: faults that users of such gateways have met, replayed from a table.
//!
//! One test an area, all on one gateway. `SLUICEGATE_CASES=PART` plays only the cases whose id has
//! that part. What passed, failed or cannot be played yet is written to standard error.

mod checks;
mod config;
mod expect;
mod fields;
mod findings;
mod generate;
mod judge;
mod leaks;
mod lifecycle;
mod own;
mod play;
mod proxies;
mod report;
mod request;
mod script;
mod standing;
mod table;
mod wire;
mod world;

use std::collections::HashSet;
use std::sync::Arc;

use self::report::{Report, State};
use self::table::{AREAS, Case, load};
use self::world::{AT_ONCE, World};

#[test]
fn sse_framing() {
    area("sse-framing");
}

#[test]
fn stream_shape() {
    area("stream-shape");
}

#[test]
fn http_transport() {
    area("http-transport");
}

#[test]
fn json_fidelity() {
    area("json-fidelity");
}

#[test]
fn routing_auth() {
    area("routing-auth");
}

#[test]
fn errors() {
    area("errors");
}

#[test]
fn retry_failover() {
    area("retry-failover");
}

#[test]
fn key_pool_breaker() {
    area("key-pool-breaker");
}

#[test]
fn cancel_timeout() {
    area("cancel-timeout");
}

#[test]
fn usage_accounting() {
    area("usage-accounting");
}

#[test]
fn quota_limits() {
    area("quota-limits");
}

/// Needs no gateway: every row can be read, ids and cells are unique, names lead somewhere.
#[test]
fn the_table_is_sound() {
    let mut ids = Vec::new();
    let mut cells = Vec::new();
    for area in AREAS {
        for case in load(area).expect("a readable table") {
            for check in &case.checks {
                assert!(checks::find(check).is_some(), "{}: no check {check}", case.id);
            }
            for exchange in case.cells.iter().flat_map(|cell| &cell.exchanges) {
                assert_eq!(exchange.expect.kinds(), 1, "{}: one kind of reply", case.id);
            }
            ids.push(case.id);
            cells.extend(case.cells.into_iter().map(|cell| cell.name));
        }
    }
    for names in [ids, cells] {
        let distinct: HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "two cases or cells have one name");
    }
}

/// Plays all cases of an area, several at once, and fails if one of them does.
fn area(name: &'static str) {
    let wanted = std::env::var("SLUICEGATE_CASES").unwrap_or_default();
    let cases = load(name).expect("a readable table");
    let cases: Vec<_> = cases.into_iter().filter(|case| case.id.contains(&wanted)).collect();
    let mut report = Report::new(name);
    if !cases.is_empty() {
        let world = World::shared().expect("a gateway to play the cases on");
        let running = cases.into_iter().map(|case| {
            let world = world.clone();
            world.clone().runtime.spawn(async move { judged(&world, case).await })
        });
        for case in running.collect::<Vec<_>>() {
            let (case, state) = world.runtime.block_on(case).expect("a case that does not panic");
            report.add(&case, state);
        }
    }
    report.print();
    assert!(report.failed().is_empty(), "{}", report.failed().join("\n"));
}

async fn judged(world: &Arc<World>, case: Case) -> (Case, State) {
    if let Some(reason) = &case.pending {
        let reason = reason.clone();
        return (case, State::Pending(reason));
    }
    let permits = if case.alone { AT_ONCE } else { 1 };
    let _permit = world.permits.acquire_many(permits).await.expect("a semaphore without end");
    let findings = Box::pin(play::case(world, &case)).await;
    let state = if findings.is_empty() { State::Passed } else { State::Failed(findings) };
    (case, state)
}
