use std::time::Duration;

use prost::Message;
use sluicegate_proto::{
    admin::v1 as pb,
    policy::v1 as wire,
    resource::v1::{ApiKey, Resource, resource::Spec, secret_source::Source},
};
use sluicegate_protocol::policy::{Change, Key, LaneState, Lanes, Point, Verdict};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::{
    fixture::{ADMIN, Admin, Served, apply, credential, provider, put, reference, soon, tenant},
    node::{Node, accept, refuse},
};

const URL: &str = "http://127.0.0.1:9/v1";

async fn planes(admin: &mut Admin) -> Vec<pb::DataPlane> {
    admin.fleet_status(pb::FleetStatusRequest {}).await.unwrap().into_inner().data_planes
}

/// The data planes once `done` holds for the first.
async fn plane(admin: &mut Admin, done: impl Fn(&pb::DataPlane) -> bool) -> pb::DataPlane {
    soon(async {
        loop {
            if let Some(plane) = planes(admin).await.into_iter().next().filter(|p| done(p)) {
                return plane;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test]
async fn full_then_deltas_also_across_streams() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let first = apply(&mut admin, vec![provider("p", URL), credential("p/k", "sk-one")]).await;
    let mut node = Node::connect(&served, "dp-1", Lanes::default()).await.unwrap();
    node.reach(first.at.unwrap().revision).await;
    assert_eq!(node.applied.len(), 1);
    assert_eq!(node.applied[0].from, None);
    let body = &node.state().entries[&Key { kind: "credential".into(), name: "p/k".into() }];
    let Some(Spec::Credential(spec)) = Resource::decode(body.bytes.clone()).unwrap().spec else {
        panic!()
    };
    assert_eq!(spec.secret.unwrap().source, Some(Source::Value("sk-one".into())));

    let second = apply(&mut admin, vec![tenant("t")]).await.at.unwrap().revision;
    node.reach(second).await;
    let delta = node.applied.last().unwrap();
    assert!(delta.from.is_some() && delta.upserts.len() == 1, "{delta:?}");
    let shown = plane(&mut admin, |plane| {
        plane.acknowledged.as_ref().is_some_and(|at| at.revision == second)
    })
    .await;
    assert_eq!(shown.node.unwrap().node_id, "dp-1");
    assert!(shown.connected && shown.lag_ms == 0 && shown.peer.starts_with("127.0.0.1:"));

    let state = node.disconnect();
    let gone = plane(&mut admin, |plane| !plane.connected).await;
    assert_eq!(gone.acknowledged.unwrap().revision, second);
    let refs = vec![reference("tenant", "t")];
    let deleted = admin.delete(pb::DeleteRequest { refs, ..Default::default() }).await.unwrap();
    let third = deleted.into_inner().at.unwrap().revision;
    let mut node = Node::connect(&served, "dp-1", state).await.unwrap();
    node.reach(third).await;
    assert_eq!(node.applied.len(), 1);
    let delta = &node.applied[0];
    assert!(delta.from.is_some() && delta.upserts.is_empty() && delta.removes.len() == 1);
}

#[tokio::test]
async fn a_refusal_shows_and_the_next_revision_is_tried() {
    let served = Served::hasty().await;
    let mut admin = served.admin().await;
    let first = apply(&mut admin, vec![provider("p", URL)]).await.at.unwrap().revision;
    let mut node = Node::connect(&served, "dp-1", Lanes::default()).await.unwrap();
    node.reach(first).await;

    let second = apply(&mut admin, vec![tenant("t")]).await.at.unwrap().revision;
    soon(node.live(refuse, |node| node.applied.len() == 2)).await.unwrap();
    let shown = plane(&mut admin, |plane| !plane.error.is_empty()).await;
    assert_eq!(shown.error, "no taste for it");
    assert_eq!(shown.acknowledged.unwrap().revision, first);
    assert!(shown.connected);
    // It is not sent again while nothing changes.
    let quiet = tokio::time::timeout(
        Duration::from_millis(500),
        node.live(accept, |node| node.applied.len() > 2),
    );
    assert!(quiet.await.is_err());

    let third = apply(&mut admin, vec![tenant("u")]).await.at.unwrap().revision;
    assert!(third > second);
    node.reach(third).await;
    let shown = plane(&mut admin, |plane| plane.error.is_empty()).await;
    assert_eq!(shown.acknowledged.unwrap().revision, third);
    assert_eq!(served.control_plane.fleet().connected(), 1);
    let (_, metrics) = served.page("/metrics").await;
    assert!(
        metrics.contains("sluicegate_control_policy_acks_total{lane=\"config\"} 2"),
        "{metrics}"
    );
    assert!(
        metrics.contains("sluicegate_control_policy_refusals_total{lane=\"config\"} 1"),
        "{metrics}"
    );
}

/// A key that is revoked is so also where every configuration is refused, and waiting for it says so.
#[tokio::test]
async fn d3_a_revocation_comes_where_the_configuration_does_not() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let named = |name: &str| pb::CreateApiKeyRequest {
        api_key: Some(ApiKey { name: name.into(), ..Default::default() }),
        wait: None,
    };
    for name in ["kept", "lost"] {
        admin.create_api_key(named(name)).await.unwrap();
    }
    let first = apply(&mut admin, vec![provider("p", URL)]).await.at.unwrap().revision;
    let mut node = Node::connect(&served, "dp-1", Lanes::default()).await.unwrap();
    node.reach(first).await;
    let names = |node: &Node| -> Vec<_> {
        node.keys().entries.keys().map(|key| key.name.clone()).collect()
    };
    soon(node.live(accept, |node| names(node) == ["kept", "lost"])).await.unwrap();

    apply(&mut admin, vec![tenant("t")]).await;
    soon(node.live(refuse, |node| node.applied.len() == 2)).await.unwrap();
    let mut revoking = admin.clone();
    let revoked = async {
        let refs = vec![reference("api_key", "lost")];
        let wait = Some(pb::WaitFor { fraction: 1.0, timeout_ms: 10_000 });
        revoking.delete(pb::DeleteRequest { refs, wait, ..Default::default() }).await
    };
    let reply = tokio::select! {
        reply = soon(revoked) => reply.unwrap().into_inner(),
        ended = node.live(refuse, |_| false) => panic!("{ended:?}"),
    };
    assert_eq!((reply.acknowledged, reply.connected), (1, 1), "{reply:?}");
    assert_eq!(names(&node), ["kept"]);
    assert_eq!(node.revision(), Some(first), "of the configuration nothing");
    let shown = plane(&mut admin, |plane| plane.keys.is_some()).await;
    assert_eq!(shown.keys.unwrap().revision, reply.at.unwrap().revision);
}

#[tokio::test]
async fn rejected_resources_show() {
    fn picky(change: &Change) -> Verdict {
        let rejected = change.upserts.iter().filter(|(key, _)| key.name == "odd");
        let rejected = rejected.map(|(key, body)| wire::Rejected {
            r#ref: Some(key.to_proto()),
            version: body.version,
            serving_version: 0,
            reason: "odd".into(),
        });
        Verdict { rejected: rejected.collect(), ..Verdict::default() }
    }
    let served = Served::new().await;
    let mut admin = served.admin().await;
    apply(&mut admin, vec![tenant("odd"), tenant("even")]).await;
    let mut node = Node::connect(&served, "dp-1", Lanes::default()).await.unwrap();
    soon(node.live(picky, |node| node.applied.len() == 1)).await.unwrap();
    let shown = plane(&mut admin, |plane| !plane.rejected.is_empty()).await;
    assert_eq!(shown.rejected[0].r#ref, Some(reference("tenant", "odd")));
    assert_eq!(shown.rejected[0].reason, "odd");
}

#[tokio::test]
async fn tokens() {
    let served = Served::new().await;
    for token in [None, Some("wrong"), Some(ADMIN)] {
        let refused = Node::connect_with(&served, "dp-1", Lanes::default(), token).await;
        assert_eq!(refused.err().unwrap().code(), Code::Unauthenticated);
    }
    assert!(planes(&mut served.admin().await).await.is_empty());
}

#[tokio::test]
async fn apply_waits_for_a_share_of_the_data_planes() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let first = apply(&mut admin, vec![provider("p", URL)]).await.at.unwrap().revision;
    let mut quick = Node::connect(&served, "quick", Lanes::default()).await.unwrap();
    quick.reach(first).await;
    let mut slow = Node::connect(&served, "slow", Lanes::default()).await.unwrap();
    slow.reach(first).await;
    plane(&mut admin, |plane| plane.acknowledged.is_some()).await;

    let change = |name: &str, fraction, timeout_ms| pb::ApplyRequest {
        changes: vec![put(tenant(name))],
        wait: Some(pb::WaitFor { fraction, timeout_ms }),
        ..Default::default()
    };
    let living = quick.live(accept, |_| false);
    tokio::pin!(living);
    let mut during = async |request| {
        tokio::select! {
            reply = admin.apply(request) => reply.unwrap().into_inner(),
            ended = &mut living => panic!("{ended:?}"),
        }
    };
    let half = soon(during(change("t", 0.5, 4_000))).await;
    assert_eq!((half.acknowledged, half.connected), (1, 2));
    assert_eq!(half.behind, ["slow"]);
    let began = tokio::time::Instant::now();
    let all = soon(during(change("u", 1.0, 300))).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!((all.acknowledged, all.connected), (1, 2));
}

#[tokio::test]
async fn streams_that_break_the_rules_end_with_a_reason() {
    let served = Served::hasty().await;
    let mut admin = served.admin().await;
    let first = apply(&mut admin, vec![provider("p", URL)]).await.at.unwrap();

    // Never answers.
    let mut node = Node::connect(&served, "mute", Lanes::default()).await.unwrap();
    let ended = soon(async {
        // The change set comes, and nothing is said about it.
        let mut messages = 0;
        loop {
            match node.next().await {
                Ok(_) => messages += 1,
                Err(status) => return (messages, status),
            }
        }
    });
    let (messages, status) = ended.await;
    assert!(messages >= 3);
    assert_eq!(status.code(), Code::DeadlineExceeded);

    // Ahead of this replica.
    let ahead = Point { epoch: first.epoch, revision: first.revision + 9 };
    let config = LaneState { at: Some(ahead), ..LaneState::default() };
    let states = Lanes { config, ..Lanes::default() };
    let mut node = Node::connect(&served, "ahead", states).await.unwrap();
    let status = soon(node.live(accept, |_| false)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains(&format!("at revision {}", first.revision)));

    // Without a name.
    let mut node = Node::connect(&served, "", Lanes::default()).await.unwrap();
    let status = soon(node.live(accept, |_| false)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "the hello names no node")
    );
}

/// A fleet that comes at once is let in at a bounded rate, and the others are told when to come back.
#[tokio::test]
async fn d2_of_a_storm_of_data_planes_some_are_told_when_to_come_back() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let first = apply(&mut admin, vec![provider("p", URL)]).await.at.unwrap().revision;
    let (mut inside, mut hints) = (Vec::new(), Vec::new());
    for number in 0..160 {
        match Node::connect(&served, &format!("dp-{number}"), Lanes::default()).await {
            Ok(node) => inside.push(node),
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                hints.push(status.get_details_retry_info().unwrap().retry_delay.unwrap());
            }
        }
    }
    println!("{} are in, {} were sent away", inside.len(), hints.len());
    assert!(inside.len() >= 100 && !hints.is_empty());
    let longest = hints.iter().max().unwrap();
    assert!(*longest <= Duration::from_secs(10), "{longest:?}");
    tokio::time::sleep(*longest).await;
    let mut late = Node::connect(&served, "late", Lanes::default()).await.unwrap();
    late.reach(first).await;
}

/// A state of many parts arrives whole.
#[tokio::test]
async fn a_large_state_comes_in_parts() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let mut last = 0;
    for page in 0..4 {
        let tenants = (0..2_000).map(|n| tenant(&format!("{page}-{n:04}-{}", "x".repeat(90))));
        last = apply(&mut admin, tenants.collect()).await.at.unwrap().revision;
    }
    let mut node = Node::connect(&served, "dp-1", Lanes::default()).await.unwrap();
    node.reach(last).await;
    assert_eq!(node.state().entries.len(), 8_000);
    assert_eq!(node.applied.len(), 1);
}

/// How a data plane gets along without the ledger shows in the fleet view, bounded.
#[tokio::test]
async fn the_fleet_view_tells_what_data_planes_say_of_the_ledger() {
    let served = Served::hasty().await;
    let mut node = Node::connect(&served, "dp-1", Lanes::default()).await.unwrap();
    let mut admin = served.admin().await;
    let shown = plane(&mut admin, |plane| plane.ledger.is_some());
    let plane = tokio::select! {
        plane = shown => plane,
        ended = node.live(accept, |_| false) => panic!("{ended:?}"),
    };
    let ledger = plane.ledger.unwrap();
    assert_eq!((plane.requests_in_flight, ledger.usage_waiting), (3, 5));
    assert!(ledger.mode.starts_with("last_share!") && ledger.mode.len() <= 256);
}
