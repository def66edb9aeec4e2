//! Watches: one function per promise, the same for every store.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt, future::join_all};
use sluicegate_store::{Change, ChangeSet, WatchEvent};
use tokio::time::timeout;

use crate::fixture::*;

/// Keys and values as a watcher knows them.
pub type View = BTreeMap<String, String>;

pub fn apply(view: &mut View, set: &ChangeSet) {
    for change in &set.changes {
        match change {
            Change::Put(entry) => {
                assert_eq!(entry.mod_revision, set.revision);
                view.insert(entry.key.clone(), text(&entry.value));
            }
            Change::Delete { key } => {
                view.remove(key);
            }
        }
    }
}

pub async fn tells_the_past_and_then_the_present<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let first = write(store, [put("w/a", "1")]).await;
    write(store, [put("elsewhere", "x")]).await;
    let second = write(store, [put("w/b", "2"), put("elsewhere", "y"), delete("w/a")]).await;

    let mut events = watch(store, "w/", first).await;
    let sets = changes_through(&mut events, second).await;
    assert_eq!(sets.iter().map(|set| set.revision).collect::<Vec<_>>(), [first, second]);
    let names: Vec<String> = sets[1].changes.iter().map(describe).collect();
    assert_eq!(names, ["w/b=2", "-w/a"]);

    let third = write(store, [put("w/c", "3")]).await;
    assert_eq!(next_changes(&mut events).await.revision, third);
    let quiet = timeout(Duration::from_millis(300), events.next()).await;
    assert!(quiet.is_err(), "nothing more happened: {quiet:?}");
}

fn describe(change: &Change) -> String {
    match change {
        Change::Put(entry) => format!("{}={}", entry.key, text(&entry.value)),
        Change::Delete { key } => format!("-{key}"),
    }
}

/// Every commit writes two keys; the watch must tell every revision, in order, with both.
pub async fn sees_every_revision_whole_and_in_order<F: Fixture>() {
    const COMMITS: usize = 500;
    const WRITERS: usize = 20;
    let f = F::start().await;
    let store = f.store();
    let start = store.list("").await.unwrap().revision;
    let mut live = watch(store, "w/", start + 1).await;

    let writer = |writer: usize| async move {
        let mut revisions = Vec::new();
        for n in 0..COMMITS / WRITERS {
            let value = format!("{writer}.{n}");
            let ops = [put(&format!("w/{}", n % 7), &value), put("w/latest", &value)];
            revisions.push(write(store, ops).await);
        }
        revisions
    };
    let (written, seen) = tokio::join!(join_all((0..WRITERS).map(writer)), async {
        let mut seen = Vec::new();
        while seen.len() < COMMITS {
            seen.push(next_changes(&mut live).await);
        }
        seen
    });
    let mut written: Vec<u64> = written.into_iter().flatten().collect();
    written.sort_unstable();
    assert_eq!(seen.iter().map(|set| set.revision).collect::<Vec<_>>(), written);
    assert_eq!(written, (start + 1..=start + COMMITS as u64).collect::<Vec<_>>());
    assert!(seen.iter().all(|set| set.changes.len() == 2), "a revision is told whole");

    let mut view = View::new();
    seen.iter().for_each(|set| apply(&mut view, set));
    assert_eq!(view.into_iter().collect::<Vec<_>>(), contents(store, "w/").await);

    let mut replay = watch(store, "w/", start + 1).await;
    assert_eq!(changes_through(&mut replay, start + COMMITS as u64).await, seen);
}

pub async fn a_large_revision_is_told_whole<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let large = "x".repeat(450_000);
    let mut ops: Vec<_> = (0..3).map(|n| put(&format!("w/large/{n}"), &large)).collect();
    ops.extend((0..50).map(|n| put(&format!("w/small/{n}"), "x")));
    let revision = write(store, ops).await;
    let mut events = watch(store, "w/", revision).await;
    assert_eq!(next_changes(&mut events).await.changes.len(), 53);
}

pub async fn goes_on_where_another_one_stopped<F: Fixture>() {
    let mut f = F::start().await;
    let first = write(f.store(), [put("w/0", "")]).await;
    for n in 1..20 {
        write(f.store(), [put(&format!("w/{n}"), "")]).await;
    }
    let mut events = watch(f.store(), "w/", first).await;
    let half = changes_through(&mut events, first + 9).await;
    drop(events);
    f.reopen().await;
    let mut events = watch(f.store(), "w/", first + 10).await;
    let rest = changes_through(&mut events, first + 19).await;
    let revisions: Vec<u64> = half.iter().chain(&rest).map(|set| set.revision).collect();
    assert_eq!(revisions, (first..first + 20).collect::<Vec<_>>());
}

/// A watcher that does not read holds nobody up and misses nothing.
pub async fn a_slow_watcher_loses_nothing<F: Fixture>() {
    const COMMITS: u64 = 200;
    let f = F::start().await;
    let store = f.store();
    let start = store.list("").await.unwrap().revision;
    let mut slow = watch(store, "w/", start + 1).await;
    let value = "x".repeat(50_000);
    for n in 0..COMMITS {
        write(store, [put(&format!("w/{}", n % 5), &value)]).await;
    }
    let sets = changes_through(&mut slow, start + COMMITS).await;
    assert_eq!(sets.len() as u64, COMMITS);
}

pub async fn lists_again_when_history_is_gone<F: Fixture>() {
    let f = F::start_forgetful().await;
    let store = f.store();
    let epoch = store.epoch().await.unwrap();
    let start = write(store, [put("w/stays", "1"), put("w/goes", "1")]).await;
    write(store, [delete("w/goes"), put("w/comes", "1")]).await;
    f.forget().await;

    let mut events = watch(store, "w/", start + 1).await;
    let WatchEvent::Relisted { epoch: told, listing } = next(&mut events).await else {
        panic!("the changes are gone")
    };
    assert_eq!(told, epoch);
    let keys: Vec<&str> = listing.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["w/comes", "w/stays"], "what is not listed is deleted");
    assert!(listing.revision > start);

    let after = write(store, [put("w/later", "1")]).await;
    assert_eq!(next_changes(&mut events).await.revision, after);
}

/// A watch from right after a listing loses nothing, however the two fall between writes.
pub async fn a_listing_and_a_watch_join_without_a_gap<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let writer = async {
        for n in 0..150 {
            write(store, [put(&format!("w/{}", n % 10), &n.to_string())]).await;
        }
        write(store, [put("w/last", "")]).await
    };
    let reader = async {
        let listing = store.list("w/").await.unwrap();
        let mut view: View =
            listing.entries.iter().map(|e| (e.key.clone(), text(&e.value))).collect();
        let mut events = watch(store, "w/", listing.revision + 1).await;
        while !view.contains_key("w/last") {
            apply(&mut view, &next_changes(&mut events).await);
        }
        view
    };
    let (_, view) = tokio::join!(writer, reader);
    assert_eq!(view.into_iter().collect::<Vec<_>>(), contents(store, "w/").await);
}
