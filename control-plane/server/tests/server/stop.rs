use std::time::Duration;

use sluicegate_proto::admin::v1 as pb;
use sluicegate_protocol::policy::Lanes;
use tokio::time::Instant;
use tonic::Code;

use crate::{
    fixture::{Served, apply, soon, tenant},
    node::{Node, accept},
};

#[tokio::test]
async fn data_planes_are_asked_to_leave_and_watches_end() {
    let mut served = Served::new().await;
    let mut admin = served.admin().await;
    let head = apply(&mut admin, vec![tenant("t")]).await.at.unwrap().revision;
    let mut polite = Node::connect(&served, "polite", Lanes::default()).await.unwrap();
    polite.reach(head).await;
    let mut stubborn = Node::connect(&served, "stubborn", Lanes::default()).await.unwrap();
    stubborn.reach(head).await;
    let mut events = admin.watch(pb::WatchRequest::default()).await.unwrap().into_inner();
    soon(events.message()).await.unwrap().unwrap();

    let began = Instant::now();
    let serving = served.stop();
    soon(polite.live(accept, |node| node.drained)).await.unwrap();
    drop(polite.disconnect());
    let status = soon(stubborn.live(accept, |_| false)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(stubborn.drained);
    assert_eq!(soon(events.message()).await.unwrap_err().code(), Code::Unavailable);
    soon(serving).await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn without_streams_it_stops_at_once() {
    let mut served = Served::new().await;
    drop(served.admin().await);
    let began = Instant::now();
    soon(served.stop()).await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
}
