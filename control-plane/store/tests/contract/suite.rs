//! Commits, reads and identity: one function per promise, the same for every store.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use sluicegate_store::{Change, Commit, Committed, Op, StoreError, WatchEvent};
use tokio::time::Instant;

use crate::fixture::*;

pub async fn create_only_if_absent<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let Committed::At(first) = commit(store, [absent("a")], [put("a", "1")]).await else {
        panic!("nothing was there")
    };
    let again = commit(store, [absent("a")], [put("a", "2")]).await;
    assert_eq!(again, Committed::Conflict(vec![("a".to_owned(), first)]));

    let entry = store.get("a").await.unwrap().unwrap();
    assert_eq!((text(&entry.value), entry.mod_revision), ("1".to_owned(), first));
    assert_eq!(store.get("b").await.unwrap(), None);
}

pub async fn compare_and_swap_tells_exact_conflicts<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let a = write(store, [put("a", "1")]).await;
    let b = write(store, [put("b", "1")]).await;
    let gone = write(store, [put("c", "1")]).await;
    write(store, [delete("c")]).await;

    let wanted = [at("a", a), at("b", a), at("c", gone), absent("d")];
    let conflict = commit(store, wanted, [put("a", "2"), put("d", "2")]).await;
    let expected = vec![("b".to_owned(), b), ("c".to_owned(), 0)];
    assert_eq!(conflict, Committed::Conflict(expected));

    let wanted = [at("a", a), at("b", b), absent("c")];
    let Committed::At(swapped) = commit(store, wanted, [put("a", "2")]).await else {
        panic!("all of that holds")
    };
    assert_eq!(swapped, gone + 2);
    assert_eq!(contents(store, "").await, pairs(&[("a", "2"), ("b", "1")]));
}

pub async fn a_commit_is_one_revision_or_nothing<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let before = write(store, [put("old", "x")]).await;
    let mut ops: Vec<Op> = (0..100).map(|n| put(&format!("many/{n:03}"), "v")).collect();
    ops.push(delete("old"));

    let refused = commit(store, [absent("old")], ops.clone()).await;
    assert_eq!(refused, Committed::Conflict(vec![("old".to_owned(), before)]));
    assert_eq!(contents(store, "").await, pairs(&[("old", "x")]));

    let revision = write(store, ops).await;
    assert_eq!(revision, before + 1);
    let listing = store.list("").await.unwrap();
    assert_eq!((listing.revision, listing.entries.len()), (revision, 100));
    assert!(listing.entries.iter().all(|entry| entry.mod_revision == revision));
}

pub async fn changing_nothing_takes_no_revision<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let revision = write(store, [put("a", "1")]).await;
    assert_eq!(write(store, []).await, revision);
    assert_eq!(write(store, [delete("absent")]).await, revision);
    assert_eq!(commit(store, [at("a", revision)], []).await, Committed::At(revision));
    let conflict = Committed::Conflict(vec![("a".to_owned(), revision)]);
    assert_eq!(commit(store, [absent("a")], []).await, conflict);
    assert_eq!(store.list("").await.unwrap().revision, revision);
    // The same value again is a write all the same.
    assert_eq!(write(store, [put("a", "1")]).await, revision + 1);
}

pub async fn lists_in_key_order_below_the_prefix<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    for key in ["b/2", "a/1", "b/10", "b", "c/1", "b0", "b/\u{e9}"] {
        write(store, [put(key, key)]).await;
    }
    let keys = |entries: Vec<(String, String)>| -> Vec<String> {
        entries.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(contents(store, "b/").await), ["b/10", "b/2", "b/\u{e9}"]);
    assert_eq!(keys(contents(store, "d").await), [""; 0]);
    let all = ["a/1", "b", "b/10", "b/2", "b/\u{e9}", "b0", "c/1"];
    assert_eq!(keys(contents(store, "").await), all);
}

/// Writers keep every pair of keys equal; a listing of many pages must never show them apart.
pub async fn a_listing_is_of_one_revision<F: Fixture>() {
    const KEYS: usize = 1_200;
    let f = F::start().await;
    let store = f.store();
    let names: Vec<String> = (0..KEYS).map(|n| format!("k/{n:04}")).collect();
    for chunk in names.chunks(100) {
        write(store, chunk.iter().map(|key| put(key, "start")).collect::<Vec<_>>()).await;
    }
    let (first, last) = (&names[0], &names[KEYS - 1]);
    let writer = async {
        for n in 0..60 {
            let value = format!("v{n}");
            write(store, [put(first, &value), put(last, &value)]).await;
        }
    };
    let reader = async {
        for _ in 0..12 {
            let listing = store.list("k/").await.unwrap();
            assert_eq!(listing.entries.len(), KEYS);
            let (first, last) = (&listing.entries[0], &listing.entries[KEYS - 1]);
            assert_eq!(first.value, last.value);
            assert!(listing.entries.iter().all(|e| e.mod_revision <= listing.revision));
        }
    };
    tokio::join!(writer, reader);
}

pub async fn concurrent_increments_lose_nothing<F: Fixture>() {
    const TASKS: u64 = 8;
    const TIMES: u64 = 20;
    let f = F::start().await;
    let store = f.store();
    let increment = |_| async {
        for _ in 0..TIMES {
            loop {
                let entry = store.get("n").await.unwrap();
                let (revision, n): (u64, u64) =
                    entry.map_or((0, 0), |e| (e.mod_revision, text(&e.value).parse().unwrap()));
                let swap = [put("n", &(n + 1).to_string())];
                if let Committed::At(_) = commit(store, [at("n", revision)], swap).await {
                    break;
                }
            }
        }
    };
    join_all((0..TASKS).map(increment)).await;
    let entry = store.get("n").await.unwrap().unwrap();
    assert_eq!(text(&entry.value), (TASKS * TIMES).to_string());
}

pub async fn entries_with_a_ttl_vanish_as_a_delete<F: Fixture>() {
    const TTL: Duration = Duration::from_millis(1_500);
    let f = F::start().await;
    let store = f.store();
    let started = Instant::now();
    let written = write(
        store,
        [
            put_for("t/short", "x", TTL),
            put_for("t/kept", "x", TTL),
            put("t/forever", "x"),
            put_for("t/long", "x", Duration::from_secs(3_600)),
        ],
    )
    .await;
    // Written again without a time to live, it stays.
    let kept = write(store, [put("t/kept", "y")]).await;
    let mut events = watch(store, "t/", kept + 1).await;

    let set = next_changes(&mut events).await;
    assert!(started.elapsed() >= TTL, "gone after {:?}", started.elapsed());
    assert!(set.revision > kept && kept > written);
    assert_eq!(set.changes, [Change::Delete { key: "t/short".to_owned() }]);
    let left = pairs(&[("t/forever", "x"), ("t/kept", "y"), ("t/long", "x")]);
    assert_eq!(contents(store, "t/").await, left);
}

pub async fn what_is_too_large_is_refused_unsent<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let value = Bytes::from(vec![b'x'; 40 << 20]);
    let op = Op::Put { key: "big".to_owned(), value, ttl: None };
    let started = Instant::now();
    let error = store.commit(Commit { ops: vec![op], ..Commit::default() }).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(1));

    let ops = (0..10_001).map(|n| put(&n.to_string(), "")).collect();
    let error = store.commit(Commit { ops, ..Commit::default() }).await.unwrap_err();
    assert!(matches!(error, StoreError::TooMany { .. }), "{error}");

    let twice = Commit { ops: vec![put("a", "1"), delete("a")], ..Commit::default() };
    let error = store.commit(twice).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert_eq!(contents(store, "").await, []);

    // The largest value that any store must take.
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    write(store, [Op::Put { key: "big".to_owned(), value: value.clone(), ttl: None }]).await;
    assert_eq!(store.get("big").await.unwrap().unwrap().value, value);
}

pub async fn state_and_epoch_outlive_the_process<F: Fixture>() {
    let mut f = F::start().await;
    let epoch = f.store().epoch().await.unwrap();
    let first = write(f.store(), [put("a", "1"), put("b", "1")]).await;
    let second = write(f.store(), [delete("b")]).await;
    f.reopen().await;
    let store = f.store();
    assert_eq!(store.epoch().await.unwrap(), epoch);
    assert_eq!(contents(store, "").await, pairs(&[("a", "1")]));
    assert_eq!(store.list("").await.unwrap().revision, second);
    assert_eq!(commit(store, [at("a", first)], [put("a", "2")]).await, Committed::At(second + 1));

    let mut events = watch(store, "", first).await;
    let revisions: Vec<u64> =
        changes_through(&mut events, second + 1).await.iter().map(|set| set.revision).collect();
    assert_eq!(revisions, [first, second, second + 1]);
}

pub async fn another_epoch_is_another_history<F: Fixture>() {
    let f = F::start().await;
    let other = F::start().await;
    let store = f.store();
    let revision = write(store, [put("a", "1")]).await;
    let (ours, theirs) = (store.epoch().await.unwrap(), other.store().epoch().await.unwrap());
    assert_ne!(ours, theirs);

    let mut events = store.watch("", theirs, revision + 1).await.unwrap();
    let WatchEvent::Relisted { epoch, listing } = next(&mut events).await else {
        panic!("a position in another history means nothing here")
    };
    assert_eq!((epoch, listing.revision), (ours, revision));
    let next_revision = write(store, [put("a", "2")]).await;
    assert_eq!(next_changes(&mut events).await.revision, next_revision);
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
