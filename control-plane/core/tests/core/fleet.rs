use std::{sync::Arc, time::Duration};

use sluicegate_control_core::{Fleet, Progress, Session};
use sluicegate_proto::policy::v1::NodeIdentity;
use sluicegate_protocol::policy::{Follower, Lane, Lanes, Point, Standing};
use tokio::time::{Instant, advance};

fn point(revision: u64) -> Point {
    Point { epoch: "e".into(), revision }
}

fn follower(name: &str, at: Option<u64>) -> Follower {
    let node = NodeIdentity { node_id: name.into(), ..Default::default() };
    let config = Standing { at: at.map(point), ..Default::default() };
    Follower { node, lanes: Lanes { config, ..Default::default() }, ..Default::default() }
}

fn connect(fleet: &Arc<Fleet>, name: &str, at: u64) -> Session {
    let mut session = fleet.session("1.2.3.4:5".into());
    session.report(follower(name, Some(at)));
    session
}

#[tokio::test(start_paused = true)]
async fn lag_is_the_time_behind_the_head() {
    let fleet = Fleet::new();
    fleet.head_moved(point(5));
    let mut session = connect(&fleet, "a", 5);
    let lag = |fleet: &Fleet| fleet.list()[0].lag.as_millis();
    advance(Duration::from_secs(9)).await;
    assert_eq!(lag(&fleet), 0);
    fleet.head_moved(point(6));
    advance(Duration::from_millis(250)).await;
    fleet.head_moved(point(7));
    advance(Duration::from_millis(250)).await;
    assert_eq!(lag(&fleet), 500);
    session.report(follower("a", Some(6)));
    assert_eq!(lag(&fleet), 500, "still behind");
    session.report(follower("a", Some(7)));
    assert_eq!(lag(&fleet), 0);
}

#[tokio::test(start_paused = true)]
async fn the_disconnected_are_remembered_for_a_while() {
    let fleet = Fleet::new();
    let session = connect(&fleet, "a", 1);
    assert_eq!(fleet.connected(), 1);
    drop(session);
    assert_eq!(fleet.connected(), 0);
    assert!(!fleet.list()[0].connected);
    advance(Duration::from_secs(599)).await;
    assert_eq!(fleet.list().len(), 1);
    advance(Duration::from_secs(1)).await;
    assert!(fleet.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_newer_stream_of_one_name_counts() {
    let fleet = Fleet::new();
    let mut old = connect(&fleet, "a", 1);
    let new = connect(&fleet, "a", 2);
    old.report(follower("a", Some(1)));
    assert_eq!(fleet.list()[0].follower.lanes.config.at, Some(point(2)));
    drop(old);
    assert!(fleet.list()[0].connected, "the old stream's end is not the data plane's");
    drop(new);
    assert!(!fleet.list()[0].connected);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_share_the_time_or_refusals() {
    let fleet = Fleet::new();
    let wait = |fraction, ms| {
        let fleet = fleet.clone();
        async move {
            let began = Instant::now();
            let progress =
                fleet.wait_for(&point(9), Lane::Config, fraction, Duration::from_millis(ms)).await;
            (progress, began.elapsed())
        }
    };
    let progress = |acknowledged, connected, behind: &[&str]| Progress {
        acknowledged,
        connected,
        behind: behind.iter().map(|name| (*name).to_owned()).collect(),
    };
    // Nobody is connected: nobody to wait for.
    assert_eq!(wait(1.0, 1_000).await, (Progress::default(), Duration::ZERO));

    let _a = connect(&fleet, "a", 9);
    let mut b = connect(&fleet, "b", 8);
    let mut c = connect(&fleet, "c", 8);
    assert_eq!(wait(0.3, 1_000).await, (progress(1, 3, &["b", "c"]), Duration::ZERO));
    let (told, took) = wait(0.6, 1_000).await;
    assert_eq!((told, took.as_millis()), (progress(1, 3, &["b", "c"]), 1_000));

    let late = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        // What lies beyond the head proves nothing.
        b.report(follower("b", Some(10)));
        assert_eq!(fleet.progress(&point(9), Lane::Config).acknowledged, 1);
        fleet.head_moved(point(10));
    };
    let ((told, took), ()) = tokio::join!(wait(0.6, 1_000), late);
    assert_eq!((told, took.as_millis()), (progress(2, 3, &["c"]), 300));

    let refusal = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut refusing = follower("c", Some(8));
        refusing.lanes.config.refused = Some(point(9));
        c.report(refusing);
    };
    let ((told, took), ()) = tokio::join!(wait(1.0, 1_000), refusal);
    assert_eq!((told, took.as_millis()), (progress(2, 3, &["c"]), 100));
}
