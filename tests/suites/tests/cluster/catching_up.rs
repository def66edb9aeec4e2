//! Data planes that missed changes, and the exact state they end on.

use std::time::Duration;

use sluicegate_suites::admin::{self, Admin};
use sluicegate_suites::config::KEY;
use sluicegate_testkit::cluster::Cluster;
use tokio::time::Instant;

use crate::world::{LIMIT, World, ask, models};

/// How long data planes are away. Longer than the control plane waits for an acknowledgement.
const AWAY: Duration = Duration::from_secs(8);

/// Changes of every sort: created, changed, deleted, deleted and made again. What a round leaves
/// behind depends on its number alone.
async fn change(admin: &mut Admin, round: usize) {
    let name = |what: &str, n: usize| format!("{what}-{n}");
    let key = |n: usize| format!("sk-caller-round-{n}");
    let mut changes = vec![
        admin::put(admin::model(&name("model", round), &name("owner", round))),
        admin::put(admin::model("changing", &name("owner", round))),
        admin::put(admin::api_key(&name("key", round), &key(round))),
    ];
    if let Some(before) = round.checked_sub(3) {
        changes.push(admin::delete("model", &name("model", before)));
        changes.push(admin::delete("api_key", &name("key", before)));
    }
    if round.is_multiple_of(4) {
        changes.push(admin::put(admin::model("coming-and-going", &name("owner", round))));
    } else if round % 4 == 2 {
        changes.push(admin::delete("model", "coming-and-going"));
    }
    admin.apply(changes).await.unwrap();
}

/// Checks that every data plane has exactly what `rounds` rounds leave behind.
async fn exact(cluster: &Cluster, rounds: usize) {
    let mut expected: Vec<_> = (rounds - 3..rounds)
        .map(|n| (format!("model-{n}"), format!("owner-{n}")))
        .chain([("changing".into(), format!("owner-{}", rounds - 1))])
        .chain(["m1", "long"].map(|name| (name.into(), "sluicegate".into())))
        .collect();
    let last = rounds - 1;
    if last % 4 < 2 {
        expected.push(("coming-and-going".into(), format!("owner-{}", last - last % 4)));
    }
    expected.sort();
    for plane in &cluster.data_planes {
        assert_eq!(models(plane, KEY).await, expected, "{}", plane.name());
        for round in 0..rounds {
            let status = ask(plane, &format!("sk-caller-round-{round}"), "m1").await.status;
            let expected = if round + 3 < rounds { 401 } else { 200 };
            assert_eq!(status, Some(expected), "{}: key of round {round}", plane.name());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_data_planes_that_were_away_catch_up_exactly() {
    let mut world = World::start(true).await;
    let begun = Instant::now();
    world.cluster.data_planes[0].freeze().unwrap();
    let link = &world.cluster.data_plane_links[1][0];
    link.refuse().await.unwrap();
    link.cut();
    let mut rounds = 0;
    // At least so many changes, over at least so long a time.
    while rounds < 30 || begun.elapsed() < AWAY {
        change(&mut world.admin, rounds).await;
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    // The one that stayed has all of it; the one that was cut off serves on with what it had.
    let here = &world.cluster.data_planes[2];
    assert!(models(here, KEY).await.len() > 3);
    let cut_off = &world.cluster.data_planes[1];
    assert_eq!(ask(cut_off, KEY, "m1").await.status, Some(200));
    assert_eq!(models(cut_off, KEY).await.len(), 2);

    world.cluster.data_planes[0].thaw().unwrap();
    world.cluster.data_plane_links[1][0].accept().await.unwrap();
    world.admin.wait_for_head(3, LIMIT).await.unwrap();
    exact(&world.cluster, rounds).await;
    world.all_run_the_head().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_cut_connections_are_made_again_and_nothing_is_lost() {
    let mut world = World::start(true).await;
    let mut rounds = 0;
    let before: Vec<_> =
        world.cluster.data_plane_links.iter().map(|links| links[0].connections()).collect();
    for _ in 0..5 {
        for links in &world.cluster.data_plane_links {
            links[0].cut();
        }
        // While they are coming back.
        for _ in 0..4 {
            change(&mut world.admin, rounds).await;
            rounds += 1;
        }
        world.admin.wait_for_head(3, LIMIT).await.unwrap();
    }
    for (links, before) in world.cluster.data_plane_links.iter().zip(before) {
        let again = links[0].connections() - before;
        assert!(again >= 5, "{again} new connections after 5 cuts");
    }
    exact(&world.cluster, rounds).await;
    world.all_run_the_head().await;
}
