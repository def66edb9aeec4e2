//! Targets over the wire, on the embedded store and ledger.

use sluicegate_proto::{
    admin::v1 as admin,
    health::v1::{self as pb, directive::Order},
};
use tonic::{Code, Streaming};

use crate::fixture::{ADMIN, Health, NODE, Served, apply, model, provider, soon};

async fn watch(health: &mut Health, node: &str) -> Streaming<pb::FleetState> {
    let request = pb::WatchRequest { node_id: node.into() };
    soon(health.watch(request)).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<pb::FleetState>) -> pb::FleetState {
    soon(stream.message()).await.unwrap().unwrap()
}

fn report(node: &str, state: pb::State) -> pb::ReportRequest {
    let window = pb::Window {
        target: Some(pb::Target { provider: "p".into(), model: "m".into() }),
        seq: 1,
        state: state.into(),
        own: true,
        ..pb::Window::default()
    };
    pb::ReportRequest { node_id: node.into(), windows: vec![window], ..Default::default() }
}

#[tokio::test]
async fn b1_the_whole_state_comes_first_and_changes_at_once() {
    let mut served = Served::new().await;
    let mut admin = served.admin().await;
    apply(&mut admin, vec![provider("p", "http://127.0.0.1:9/v1"), model("m", "p")]).await;
    let mut health = served.health(Some(NODE)).await;
    let mut first = watch(&mut health, "n").await;
    let mut state = next(&mut first).await;
    assert!(state.whole && state.directives.is_empty(), "{state:?}");
    // As soon as somebody decides, the fleet is there.
    while state.nodes == 0 {
        state = next(&mut first).await;
    }
    served.counts("sluicegate_breaker_state{provider=\"p\",model=\"m\"} 0").await;

    soon(health.report(report("n", pb::State::Open))).await.unwrap();
    let directive = loop {
        if let Some(directive) = next(&mut first).await.directives.pop() {
            break directive;
        }
    };
    assert!(matches!(directive.order, Some(Order::OpenMs(1_000..=6_000))), "{directive:?}");
    assert!(directive.ttl_ms > 20_000);
    served.counts("sluicegate_breaker_state{provider=\"p\",model=\"m\"} 4").await;
    let mut second = watch(&mut health, "other").await;
    let whole = next(&mut second).await;
    assert!(whole.whole && whole.nodes == 2, "{whole:?}");
    assert_eq!(whole.directives[0].generation, directive.generation);

    let request = admin::BreakerStatusRequest::default();
    let shown = soon(admin.breaker_status(request)).await.unwrap().into_inner();
    let [status] = shown.targets.as_slice() else { panic!("{shown:?}") };
    assert_eq!((status.state(), status.strikes), (pb::State::Open, 1));
    assert_eq!((shown.leader.as_str(), shown.health.as_str()), ("replica-1", "ready"));

    drop(served.stop());
    let ended = async {
        loop {
            match first.message().await {
                Ok(Some(_)) => {}
                other => return other.unwrap_err(),
            }
        }
    };
    assert_eq!(soon(ended).await.code(), Code::Unavailable);
}

#[tokio::test]
async fn only_nodes_report_and_faults_name_the_field() {
    let served = Served::new().await;
    for token in [None, Some(ADMIN)] {
        let mut health = served.health(token).await;
        let status = health.report(report("n", pb::State::Closed)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    let mut health = served.health(Some(NODE)).await;
    let status = health.report(report("", pb::State::Closed)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let request = admin::BreakerStatusRequest { target: "none/m".into() };
    let status = served.admin().await.breaker_status(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
