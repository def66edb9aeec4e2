//! Provider keys over the wire, on the embedded ledger.

use sluicegate_proto::{
    admin::v1::{self as admin, set_pool_state_request::State as Wanted},
    pool::v1 as pb,
};
use tonic::{Code, Streaming};

use crate::fixture::{ADMIN, NODE, Pool, Served, apply, credential, provider, soon};

async fn watch(pool: &mut Pool) -> Streaming<pb::PoolState> {
    let request = pb::WatchRequest { node_id: "n".into() };
    soon(pool.watch(request)).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<pb::PoolState>) -> pb::PoolState {
    soon(stream.message()).await.unwrap().unwrap()
}

fn refused(credential: &str) -> pb::Cell {
    pb::Cell {
        credential: credential.into(),
        state: pb::CellState::Refused.into(),
        left_ms: 600_000,
        strikes: 1,
        generation: 1,
        reason: "invalid key".into(),
        by: "n".into(),
        ..pb::Cell::default()
    }
}

#[tokio::test]
async fn c5_the_whole_state_comes_first_and_changes_at_once() {
    let mut served = Served::new().await;
    let mut admin = served.admin().await;
    apply(&mut admin, vec![provider("p", "http://127.0.0.1:9/v1"), credential("p/a", "sk-a")])
        .await;
    let mut pool = served.pool(Some(NODE)).await;
    let mut first = watch(&mut pool).await;
    let empty = next(&mut first).await;
    assert!(empty.whole && empty.cells.is_empty());

    let cells = vec![refused("p/a")];
    let report = pb::ReportRequest { node_id: "n".into(), cells, clears: Vec::new() };
    assert!(soon(pool.report(report)).await.unwrap().into_inner().durable);
    let change = next(&mut first).await;
    assert!(!change.whole);
    assert_eq!(change.cells[0].credential, "p/a");
    assert!(change.cells[0].left_ms > 500_000);
    let mut second = watch(&mut pool).await;
    let whole = next(&mut second).await;
    assert!(whole.whole && whole.cells.len() == 1);
    served.counts("sluicegate_credential_state{credential=\"p/a\",state=\"refused\"} 1").await;

    let request = admin::PoolStatusRequest::default();
    let shown = soon(admin.pool_status(request)).await.unwrap().into_inner();
    let [status] = shown.credentials.as_slice() else { panic!("{shown:?}") };
    assert_eq!((status.state.as_str(), status.reason.as_str()), ("refused", "invalid key"));
    assert_eq!(shown.health, "ready");
    let request = admin::SetPoolStateRequest {
        credential: "p/a".into(),
        state: Some(Wanted::Enable(admin::Enable {})),
    };
    assert_eq!(soon(admin.set_pool_state(request)).await.unwrap().into_inner().cleared, 1);
    for stream in [&mut first, &mut second] {
        assert!(next(stream).await.cells[0].cleared);
    }
    served.counts("sluicegate_credential_state{credential=\"p/a\",state=\"up\"} 1").await;

    drop(served.stop());
    let status = soon(first.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn only_nodes_report_and_faults_name_the_field() {
    let served = Served::new().await;
    for token in [None, Some(ADMIN)] {
        let mut pool = served.pool(token).await;
        let status = pool.report(pb::ReportRequest::default()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    let mut pool = served.pool(Some(NODE)).await;
    let cells = vec![pb::Cell::default()];
    let request = pb::ReportRequest { cells, ..pb::ReportRequest::default() };
    let status = pool.report(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let request = admin::SetPoolStateRequest { credential: "none".into(), state: None };
    let status = served.admin().await.set_pool_state(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
