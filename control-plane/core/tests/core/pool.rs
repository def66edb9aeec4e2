//! What the fleet knows of provider keys, as one replica and several keep it.

use std::{sync::Arc, time::Duration};

use sluicegate_control_core::{CoreError, Pool};
use sluicegate_proto::{
    admin::v1::{self as admin, set_pool_state_request::State as Wanted},
    pool::v1 as pb,
    resource::v1::secret_source::Source,
};
use sluicegate_protocol::pool::Cell;
use sluicegate_telemetry::task::AbortOnDrop;
use tokio::time::timeout;

use crate::{
    fixture::{Core, credential, provider},
    ledger::Scripted,
};

const SOON: Duration = Duration::from_secs(10);
const HOUR: u64 = 3_600_000;

struct World {
    core: Core,
    ledger: Arc<Scripted>,
    pool: Arc<Pool>,
    _task: AbortOnDrop<()>,
}

impl World {
    async fn new() -> Self {
        let core = Core::new().await;
        let value = |text: &str| Source::Value(text.into());
        core.put(vec![
            provider("p"),
            credential("p/a", value("sk-a")),
            credential("p/b", value("sk-b")),
        ])
        .await;
        let ledger = Scripted::at(1 << 40);
        let (pool, task) = Pool::start(core.desired.clone(), ledger.clone());
        Self { core, ledger, pool, _task: task }
    }

    async fn report(&self, cell: pb::Cell) -> bool {
        report(&self.pool, cell).await
    }

    fn status(&self, credential: &str) -> admin::CredentialStatus {
        let request =
            admin::PoolStatusRequest { credential: credential.into(), provider: String::new() };
        self.pool.status(&request).unwrap().credentials.remove(0)
    }

    async fn set(&self, credential: &str, state: Wanted) -> admin::SetPoolStateReply {
        let request =
            admin::SetPoolStateRequest { credential: credential.into(), state: Some(state) };
        self.pool.set(request).await.unwrap()
    }
}

async fn report(pool: &Pool, cell: pb::Cell) -> bool {
    let request = pb::ReportRequest { cells: vec![cell], ..pb::ReportRequest::default() };
    pool.report(request).await.unwrap().durable
}

fn cell(credential: &str, state: pb::CellState, left_ms: u64) -> pb::Cell {
    pb::Cell {
        credential: credential.into(),
        state: state.into(),
        left_ms,
        strikes: 1,
        generation: 1,
        reason: "said so".into(),
        by: "node-1".into(),
        ..pb::Cell::default()
    }
}

fn rest(for_ms: u64) -> Wanted {
    Wanted::Rest(admin::Rest { for_ms, model: String::new(), comment: "by hand".into() })
}

/// Waits until the pool's cells are so.
async fn becomes(pool: &Pool, wanted: impl Fn(&[Cell]) -> bool) {
    let mut versions = pool.subscribe();
    let waiting = async {
        while !wanted(&pool.since(0).0) {
            versions.changed().await.unwrap();
        }
    };
    assert!(timeout(SOON, waiting).await.is_ok(), "{:?}", pool.since(0).0);
}

#[tokio::test]
async fn c5_what_one_data_plane_saw_is_told_to_all_and_kept() {
    let world = World::new().await;
    let mut versions = world.pool.subscribe();
    assert!(world.report(cell("p/a", pb::CellState::Exhausted, HOUR)).await, "the ledger has it");
    assert!(versions.has_changed().unwrap());
    versions.mark_unchanged();
    let (cells, version) = world.pool.since(0);
    assert_eq!((cells.len(), cells[0].key.credential.as_str()), (1, "p/a"));
    assert_eq!(world.pool.since(version), (Vec::new(), version), "nothing is told twice");
    assert_eq!(world.ledger.script().cells.len(), 1);
    // The same again, and what is told of it by the ledger, is no change.
    world.report(cell("p/a", pb::CellState::Exhausted, HOUR - 5)).await;
    assert!(!versions.has_changed().unwrap());

    let status = world.status("p/a");
    assert_eq!((status.state.as_str(), status.reason.as_str()), ("exhausted", "said so"));
    assert!(status.left_ms > HOUR - 60_000 && status.left_ms <= HOUR);
    assert_eq!(world.status("p/b").state, "up");
    assert_eq!(world.pool.states(), [("p/a".into(), "exhausted"), ("p/b".into(), "up")]);

    let clear = pb::Clear { credential: "p/a".into(), model: String::new(), generation: 1 };
    let request = pb::ReportRequest { clears: vec![clear], ..pb::ReportRequest::default() };
    world.pool.report(request).await.unwrap();
    assert_eq!(world.status("p/a").state, "up");
    assert!(versions.has_changed().unwrap());
}

#[tokio::test]
async fn c5_another_replica_and_the_next_start_know_it() {
    let world = World::new().await;
    let (other, _task) = Pool::start(world.core.desired.clone(), world.ledger.clone());
    world.report(cell("p/a", pb::CellState::Refused, HOUR)).await;
    becomes(&other, |cells| cells.len() == 1).await;
    let (next, _task) = Pool::start(world.core.desired.clone(), world.ledger.clone());
    becomes(&next, |cells| cells.iter().any(|cell| cell.left_ms > HOUR - 60_000)).await;
}

#[tokio::test]
async fn c5_a_ledger_that_is_away_holds_up_nothing_and_is_told_when_it_is_back() {
    let world = World::new().await;
    world.ledger.script().away = true;
    assert!(!world.report(cell("p/a", pb::CellState::Resting, HOUR)).await);
    assert!(!world.set("p/b", rest(HOUR)).await.durable);
    assert_eq!(world.status("p/a").state, "resting");
    assert!(world.ledger.script().cells.is_empty());
    world.ledger.script().away = false;
    let (other, _task) = Pool::start(world.core.desired.clone(), world.ledger.clone());
    becomes(&other, |cells| cells.len() == 2).await;
    // One that was emptied is filled again.
    world.ledger.script().cells = Default::default();
    let (third, _task) = Pool::start(world.core.desired.clone(), world.ledger.clone());
    becomes(&third, |cells| cells.len() == 2).await;
}

#[tokio::test]
async fn c5_operators_let_a_key_rest_and_take_it_back() {
    let world = World::new().await;
    world.report(cell("p/a", pb::CellState::Refused, 1_000)).await;
    let reply = world.set("p/a", rest(HOUR)).await;
    let status = reply.status.unwrap();
    assert!(reply.durable);
    assert_eq!((status.state.as_str(), status.reason.as_str()), ("resting", "by hand"));
    assert_eq!(status.cells.len(), 2);
    // Sooner than before: the newest word holds.
    let status = world.set("p/a", rest(60_000)).await.status.unwrap();
    assert!(status.left_ms <= 60_000);
    let reply = world.set("p/a", Wanted::Enable(admin::Enable {})).await;
    assert_eq!((reply.cleared, reply.status.unwrap().state.as_str()), (2, "up"));
    assert_eq!(world.set("p/a", Wanted::Enable(admin::Enable {})).await.cleared, 0);
}

#[tokio::test]
async fn c5_a_key_that_was_replaced_begins_anew() {
    let world = World::new().await;
    world.report(cell("p/a", pb::CellState::Refused, HOUR)).await;
    world.report(cell("p/b", pb::CellState::Refused, HOUR)).await;
    world.set("p/a", rest(HOUR)).await;
    world.core.put(vec![credential("p/a", Source::Value("sk-new".into()))]).await;
    let lasting = |cells: &[Cell]| -> Vec<(String, bool)> {
        let lasting = cells.iter().filter(|cell| cell.left_ms > 0);
        lasting.map(|cell| (cell.key.credential.clone(), cell.key.operator)).collect()
    };
    // What the operator said and what is known of the other key stays.
    becomes(&world.pool, |cells| {
        let mut lasting = lasting(cells);
        lasting.sort();
        lasting == [("p/a".into(), true), ("p/b".into(), false)]
    })
    .await;
}

#[tokio::test]
async fn faults_name_the_field_and_the_name_that_was_meant() {
    let world = World::new().await;
    let request = |credential: &str, state| admin::SetPoolStateRequest {
        credential: credential.into(),
        state,
    };
    let error = world.pool.set(request("p/A", Some(rest(1)))).await.unwrap_err();
    assert!(matches!(&error, CoreError::NotFound { near: Some(near), .. } if near == "p/a"));
    for (state, field) in
        [(None, "state"), (Some(rest(0)), "rest.for_ms"), (Some(rest(u64::MAX)), "rest.for_ms")]
    {
        let error = world.pool.set(request("p/a", state)).await.unwrap_err();
        let CoreError::Invalid(faults) = error else { panic!("{error}") };
        assert_eq!(faults.0[0].location(), field);
    }
    let asked = admin::PoolStatusRequest { provider: "q".into(), ..Default::default() };
    assert!(matches!(world.pool.status(&asked), Err(CoreError::NotFound { .. })));

    let mut wrong = cell("p/a", pb::CellState::Resting, 1);
    wrong.state = 77;
    let request = pb::ReportRequest {
        cells: vec![cell("p/a", pb::CellState::Resting, HOUR), wrong],
        ..pb::ReportRequest::default()
    };
    let error = world.pool.report(request).await.unwrap_err();
    let CoreError::Invalid(faults) = error else { panic!("{error}") };
    assert_eq!(faults.0[0].location(), "cells[1]");
    assert_eq!(world.pool.since(0).0, [], "nothing was done");
    // What operators say does not come from data planes.
    let operator = pb::Cell { operator: true, ..cell("p/a", pb::CellState::Resting, HOUR) };
    world.report(operator).await;
    assert_eq!(world.status("p/a").state, "up");
}
