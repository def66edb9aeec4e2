//! A server that freezes, dies, goes back in time, is full, or wants a password.

use std::{sync::Arc, time::Duration};

use etcd_client::{Client, PermissionType};
use futures_util::StreamExt;
use sluicegate_store::{
    ChangeSet, Commit, ConfigStore, StoreError, WatchEvent, WatchStream,
    etcd::{Credentials, EtcdConfig, EtcdStore},
};
use tokio::time::{Instant, timeout};

use super::{
    Etcd, compact, connect,
    hush::Hush,
    server::{Server, copy_dir},
};
use crate::{
    fixture::*,
    renewal::relisted,
    watching::{View, apply},
};

const PREFIX: &str = "/sluicegate/";
/// The calls' deadline, and some time to notice it on a busy machine.
const CALL_ENDS_WITHIN: Duration = Duration::from_millis(3_000);
/// A ping every 6 s, unanswered for 3 s, and the allowance.
const SILENCE_IS_NOTICED_WITHIN: Duration = Duration::from_secs(12);
/// Something is written after 5 s without news, and told within 8 s.
const DEAF_IS_NOTICED_WITHIN: Duration = Duration::from_secs(15);
/// Over three pings: a server that minds them closes the connection at the third.
const IDLE: Duration = Duration::from_secs(20);

/// What a watcher knows, kept up to date by what it is told.
struct Watcher {
    events: WatchStream,
    view: View,
}

impl Watcher {
    async fn start(store: &EtcdStore) -> Self {
        let listing = store.list("w/").await.unwrap();
        let events = watch(store, "w/", listing.revision + 1).await;
        let view = listing.entries.iter().map(|e| (e.key.clone(), text(&e.value))).collect();
        Self { events, view }
    }

    /// Takes in the next event and returns it.
    async fn step(&mut self) -> WatchEvent {
        let event = next(&mut self.events).await;
        match &event {
            WatchEvent::Changes(set) => apply(&mut self.view, set),
            WatchEvent::Relisted { listing, .. } => {
                let entries = listing.entries.iter();
                self.view = entries.map(|e| (e.key.clone(), text(&e.value))).collect();
            }
            WatchEvent::Interrupted(_) | WatchEvent::Resumed => {}
        }
        event
    }

    async fn until(&mut self, wanted: impl Fn(&WatchEvent) -> bool) -> WatchEvent {
        loop {
            let event = self.step().await;
            if wanted(&event) {
                return event;
            }
        }
    }

    /// Follows until `key` is told, and then knows exactly what the store holds.
    async fn knows_all_up_to(&mut self, key: &str, store: &EtcdStore) {
        while !self.view.contains_key(key) {
            self.step().await;
        }
        let known: Vec<_> = self.view.clone().into_iter().collect();
        assert_eq!(known, contents(store, "w/").await);
    }
}

fn interrupted(event: &WatchEvent) -> bool {
    matches!(event, WatchEvent::Interrupted(_))
}

fn recovered(event: &WatchEvent) -> bool {
    matches!(event, WatchEvent::Resumed | WatchEvent::Relisted { .. })
}

/// Commits until one succeeds, as people do after an outage.
async fn write_when_possible(store: &EtcdStore, key: &str) {
    let deadline = Instant::now() + SOON;
    let commit = Commit { ops: vec![put(key, "x")], ..Commit::default() };
    while let Err(error) = store.commit(commit.clone()).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(outcome: Result<T, StoreError>, since: Instant) {
    assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
    assert!(since.elapsed() < CALL_ENDS_WITHIN, "after {:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_noticed_and_nothing_is_missed() {
    let Etcd { server, store, .. } = Etcd::start().await;
    write(&store, [put("w/before", "x")]).await;
    let mut watcher = Watcher::start(&store).await;
    write(&store, [put("w/live", "x")]).await;
    watcher.knows_all_up_to("w/live", &store).await;

    server.process.freeze();
    let frozen = Instant::now();
    let noticed = async {
        let event = watcher.step().await;
        assert!(interrupted(&event), "{event:?}");
        assert!(frozen.elapsed() < SILENCE_IS_NOTICED_WITHIN, "after {:?}", frozen.elapsed());
    };
    let calls_end = async {
        assert_unavailable(store.get("w/before").await, frozen);
        let started = Instant::now();
        // This may have happened nevertheless; the watch must then tell it.
        let commit = Commit { ops: vec![put("w/doubtful", "x")], ..Commit::default() };
        assert_unavailable(store.commit(commit).await, started);
        let started = Instant::now();
        assert_unavailable(store.epoch().await, started);
    };
    tokio::join!(noticed, calls_end);

    server.process.thaw();
    let event = watcher.step().await;
    assert!(recovered(&event), "an outage is told once: {event:?}");
    write_when_possible(&store, "w/after").await;
    watcher.knows_all_up_to("w/after", &store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_comes_back_and_nothing_is_missed() {
    let Etcd { server, store, .. } = Etcd::start().await;
    let epoch = store.epoch().await.unwrap();
    let mut watcher = Watcher::start(&store).await;
    for n in 0..20 {
        write(&store, [put(&format!("w/{n}"), "x")]).await;
    }
    server.process.kill();
    let killed = Instant::now();
    assert_unavailable(store.list("").await, killed);
    watcher.until(interrupted).await;
    assert!(killed.elapsed() < SILENCE_IS_NOTICED_WITHIN);

    server.run().await;
    let event = watcher.step().await;
    assert!(matches!(event, WatchEvent::Resumed), "{event:?}");
    write_when_possible(&store, "w/after").await;
    watcher.knows_all_up_to("w/after", &store).await;
    assert_eq!(watcher.view.len(), 21, "what was acknowledged is there");
    assert_eq!(store.epoch().await.unwrap(), epoch);
}

/// Writers and a watcher live through a series of kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_repeated_kills() {
    let Etcd { server, store, .. } = Etcd::start().await;
    let mut watcher = Watcher::start(&store).await;
    let kills = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            server.process.kill();
            server.run().await;
        }
    };
    let writes = async {
        for n in 0..150 {
            write_when_possible(&store, &format!("w/{n:03}")).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        write_when_possible(&store, "w/last").await;
    };
    tokio::join!(kills, writes);
    watcher.knows_all_up_to("w/last", &store).await;
    assert_eq!(watcher.view.len(), 151);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_is_another_history() {
    let Etcd { server, store, .. } = Etcd::start().await;
    let epoch = store.epoch().await.unwrap();
    write(&store, [put("w/backed-up", "x")]).await;

    server.process.kill();
    let backup = tempfile::tempdir().unwrap();
    copy_dir(&server.data_dir(), backup.path());
    server.run().await;
    write_when_possible(&store, "w/lost").await;
    let mut watcher = Watcher::start(&store).await;
    assert_eq!(store.epoch().await.unwrap(), epoch);
    for n in 0..10 {
        write(&store, [put("w/lost", &n.to_string())]).await;
    }
    while watcher.view["w/lost"] != "9" {
        watcher.step().await;
    }

    server.process.kill();
    std::fs::remove_dir_all(server.data_dir()).unwrap();
    copy_dir(backup.path(), &server.data_dir());
    server.run().await;
    let WatchEvent::Relisted { epoch: told, .. } = watcher.until(recovered).await else {
        panic!("revisions of the two histories must not be compared")
    };
    assert_ne!(told, epoch);
    assert_eq!(store.epoch().await.unwrap(), told);
    assert_eq!(watcher.view.keys().collect::<Vec<_>>(), ["w/backed-up"]);
    write_when_possible(&store, "w/after").await;
    watcher.knows_all_up_to("w/after", &store).await;
}

/// As when every control plane is stopped for it: no watch is there to see the history go back,
/// and only those who remember more of it can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_restored_unseen_is_renewed_for_all_replicas() {
    let Etcd { server, store, .. } = Etcd::start().await;
    write(&store, [put("w/backed-up", "x")]).await;
    server.process.kill();
    let backup = tempfile::tempdir().unwrap();
    copy_dir(&server.data_dir(), backup.path());
    server.run().await;
    write_when_possible(&store, "w/lost").await;
    let (seen, remembered) = (store.epoch().await.unwrap(), store.revision().await.unwrap());
    drop(store);
    server.process.kill();
    std::fs::remove_dir_all(server.data_dir()).unwrap();
    copy_dir(backup.path(), &server.data_dir());
    server.run().await;

    let (one, other) = (connect(&server, PREFIX).await, connect(&server, PREFIX).await);
    let (mut here, mut there) = (Watcher::start(&one).await, Watcher::start(&other).await);
    assert_eq!(one.epoch().await.unwrap(), seen, "the backup says it is the same history");
    assert!(one.revision().await.unwrap() < remembered);
    let (a, b) = tokio::join!(one.renew_epoch(&seen), other.renew_epoch(&seen));
    let renewed = a.unwrap();
    assert_eq!(b.unwrap(), renewed);
    let told = Instant::now();
    for watcher in [&mut here, &mut there] {
        assert_eq!(relisted(&mut watcher.events, &renewed).await, ["w/backed-up"]);
    }
    assert!(told.elapsed() < Duration::from_secs(2), "after {:?}", told.elapsed());
    write(&one, [put("w/after", "x")]).await;
    there.knows_all_up_to("w/after", &other).await;
}

/// Pings that come too often make a server close the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_left_idle_is_not_cut_off() {
    let Etcd { server: _server, store, .. } = Etcd::start().await;
    let mut watcher = Watcher::start(&store).await;
    let told = timeout(IDLE, watcher.events.next()).await;
    assert!(told.is_err(), "nothing happened: {told:?}");
    write(&store, [put("w/a", "x")]).await;
    watcher.knows_all_up_to("w/a", &store).await;
}

/// A watch that was away while its place in history was compacted must learn of the deletions. The
/// commit that deletes is the one that history is compacted to, which is the hardest case: a watch
/// may still begin there, and is not told of the delete.
/// A watch that tells nothing of what is written, on a connection and a server that are well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_a_watch_that_falls_silent_is_noticed_and_nothing_is_missed() {
    let Etcd { server, store: direct, .. } = Etcd::start().await;
    let hush = Hush::before(server.url().replace("http://", "")).await;
    let store = EtcdStore::connect(EtcdConfig::new([hush.url()])).await.unwrap();
    write(&direct, [put("w/before", "x")]).await;
    let mut watcher = Watcher::start(&store).await;
    write(&direct, [put("w/live", "x")]).await;
    watcher.knows_all_up_to("w/live", &direct).await;
    // Quiet is not silent: for longer than the silence that is borne, nothing happens.
    let quiet = DEAF_IS_NOTICED_WITHIN + Duration::from_secs(3);
    let quiet = timeout(quiet, watcher.events.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");

    hush.hush();
    let hushed = Instant::now();
    write(&direct, [put("w/lost", "x")]).await;
    let event = timeout(DEAF_IS_NOTICED_WITHIN, watcher.events.next()).await;
    println!("noticed after {:?}", hushed.elapsed());
    let Ok(Some(WatchEvent::Relisted { listing, .. })) = event else { panic!("{event:?}") };
    assert!(listing.entries.iter().any(|entry| entry.key == "w/lost"));
    let entries = listing.entries.iter();
    watcher.view = entries.map(|entry| (entry.key.clone(), text(&entry.value))).collect();
    write(&direct, [put("w/after", "x")]).await;
    watcher.knows_all_up_to("w/after", &direct).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_during_an_outage_is_a_listing() {
    let Etcd { server, store, .. } = Etcd::start().await;
    write(&store, [put("w/goes", "x"), put("w/stays", "x")]).await;
    let mut watcher = Watcher::start(&store).await;
    write(&store, [put("w/live", "x")]).await;
    watcher.knows_all_up_to("w/live", &store).await;

    server.process.kill();
    watcher.until(interrupted).await;
    let elsewhere = server.run_elsewhere().await;
    let other = EtcdStore::connect(EtcdConfig::new([&elsewhere])).await.unwrap();
    let revision = write(&other, [delete("w/goes")]).await;
    compact(&elsewhere, revision).await;
    server.process.kill();
    server.run().await;

    let event = watcher.step().await;
    assert!(matches!(event, WatchEvent::Relisted { .. }), "nothing else is true: {event:?}");
    assert_eq!(watcher.view.keys().collect::<Vec<_>>(), ["w/live", "w/stays"]);
    write_when_possible(&store, "w/after").await;
    watcher.knows_all_up_to("w/after", &store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_can_start_before_its_server() {
    let server = Server::prepare(&[]);
    let store = connect(&server, PREFIX).await;
    let started = Instant::now();
    let outcome = store.epoch().await;
    let reason = outcome.as_ref().unwrap_err().to_string();
    assert!(reason.contains("Connection refused"), "{reason}");
    assert_unavailable(outcome, started);
    let nowhere = sluicegate_store::Epoch(bytes::Bytes::from_static(b"remembered"));
    let mut events = store.watch("w/", nowhere, 7).await.unwrap();
    assert!(interrupted(&next(&mut events).await));

    server.run().await;
    assert!(matches!(next(&mut events).await, WatchEvent::Relisted { .. }));
    write_when_possible(&store, "w/a").await;
    let ChangeSet { changes, .. } = next_changes(&mut events).await;
    assert_eq!(changes.len(), 1);
}

/// Commits must not fail for a member that is simply gone while another one serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_costs_no_call() {
    let (dead, alive) = (Server::prepare(&[]), Server::start().await);
    for endpoints in [[dead.url(), alive.url()], [alive.url(), dead.url()]] {
        let store = EtcdStore::connect(EtcdConfig::new(endpoints)).await.unwrap();
        // A commit first: it must not be made twice, and can be, since it was never sent.
        write(&store, [put("w/a", "first")]).await;
        let mut events = watch(&store, "w/", store.list("").await.unwrap().revision + 1).await;
        for n in 0..10 {
            write(&store, [put("w/a", &n.to_string())]).await;
            assert_eq!(text(&store.get("w/a").await.unwrap().unwrap().value), n.to_string());
        }
        while !matches!(next(&mut events).await, WatchEvent::Changes(_)) {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_and_says_why() {
    let server = Server::start_with(&["--quota-backend-bytes", "1"]).await;
    let store = connect(&server, PREFIX).await;
    let commit = Commit { ops: vec![put("a", "1")], ..Commit::default() };
    let error = store.commit(commit).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("space"), "{error}");
    assert_eq!(store.get("a").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_passwords() {
    let server = Arc::new(Server::start().await);
    let mut admin = Client::connect([server.url()], None).await.unwrap();
    admin.role_add("gate").await.unwrap();
    let everything_of_ours =
        etcd_client::Permission::new(PermissionType::Readwrite, PREFIX).with_prefix();
    admin.role_grant_permission("gate", everything_of_ours).await.unwrap();
    for (user, role) in [("root", "root"), ("gate", "gate")] {
        admin.user_add(user, "secret", None).await.unwrap();
        if role == "root" {
            admin.role_add("root").await.unwrap();
        }
        admin.user_grant_role(user, role).await.unwrap();
    }
    admin.auth_enable().await.unwrap();

    let as_user = |user: &str, password: &str| {
        let (user, password) = (user.to_owned(), password.to_owned());
        let credentials = Some(Credentials { user, password });
        EtcdConfig { credentials, ..EtcdConfig::new([server.url()]) }
    };
    let store = EtcdStore::connect(as_user("gate", "secret")).await.unwrap();
    let mut watcher = Watcher::start(&store).await;
    write(&store, [put("w/a", "x")]).await;
    watcher.knows_all_up_to("w/a", &store).await;

    // Tokens do not outlive the server; the store gets new ones by itself.
    server.process.kill();
    server.run().await;
    write_when_possible(&store, "w/b").await;
    watcher.knows_all_up_to("w/b", &store).await;

    let wrong = EtcdStore::connect(as_user("gate", "wrong")).await.unwrap();
    let error = wrong.list("").await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert!(!format!("{wrong:?} {error}").contains("wrong\""), "no password in messages");
}

#[tokio::test]
async fn a_wrong_configuration_is_told_at_once() {
    check(EtcdConfig::new([""; 0]), "no endpoint").await;
    check(EtcdConfig::new(["http://user:secret@a:1"]), "give them as credentials").await;
    let no_slash = EtcdConfig { prefix: "/gate".to_owned(), ..EtcdConfig::new(["http://a:1"]) };
    check(no_slash, "does not end with /").await;
    let tls =
        sluicegate_store::etcd::EtcdTls { ca: Some("/nonexistent/ca.pem".into()), identity: None };
    let no_file = EtcdConfig { tls: Some(tls), ..EtcdConfig::new(["https://a:1"]) };
    check(no_file, "/nonexistent/ca.pem").await;

    async fn check(config: EtcdConfig, part: &str) {
        let error = EtcdStore::connect(config).await.unwrap_err();
        assert!(matches!(error, StoreError::Misconfigured { .. }));
        let text = error.to_string();
        assert!(text.contains(part) && !text.contains("secret"), "{text}");
    }
}
