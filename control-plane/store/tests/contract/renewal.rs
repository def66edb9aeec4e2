//! A history that gets a new id: one function per promise, the same for every store.

use std::time::Duration;

use sluicegate_store::{Committed, Epoch, WatchEvent, WatchStream};
use tokio::time::{Instant, timeout};

use crate::fixture::*;

/// How soon a watch tells of a new id, with some time for a busy machine.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

pub async fn the_revision_is_that_of_the_newest_write<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    assert_eq!(store.revision().await.unwrap(), store.list("").await.unwrap().revision);
    for n in 0..5 {
        let written = write(store, [put("a", &n.to_string())]).await;
        assert_eq!(store.revision().await.unwrap(), written);
    }
    let deleted = write(store, [delete("a")]).await;
    assert_eq!(store.revision().await.unwrap(), deleted);
    assert_eq!(commit(store, [at("a", 1)], []).await, Committed::Conflict(vec![("a".into(), 0)]));
    assert_eq!(store.revision().await.unwrap(), deleted, "reading takes no revision");
}

pub async fn a_renewal_is_told_and_everything_stays<F: Fixture>() {
    let f = F::start().await;
    let store = f.store();
    let seen = store.epoch().await.unwrap();
    let kept = write(store, [put("w/a", "1"), put("elsewhere", "x")]).await;
    let mut live = watch(store, "w/", kept + 1).await;
    let written = write(store, [put("w/b", "1")]).await;
    assert_eq!(next_changes(&mut live).await.revision, written);
    // Has not been polled when the history is renewed, and is up to date with nothing.
    let mut behind = watch(store, "", kept).await;

    let renewed = store.renew_epoch(&seen).await.unwrap();
    assert_ne!(renewed, seen);
    assert_eq!(store.epoch().await.unwrap(), renewed);
    let told = Instant::now();
    assert_eq!(relisted(&mut live, &renewed).await, ["w/a", "w/b"]);
    assert!(told.elapsed() < TOLD_WITHIN, "after {:?}", told.elapsed());
    assert_eq!(relisted(&mut behind, &renewed).await, ["elsewhere", "w/a", "w/b"]);

    // Commits, their revisions and the watches go on.
    let swapped = commit(store, [at("w/a", kept)], [put("w/a", "2")]).await;
    let Committed::At(swapped) = swapped else { panic!("nothing was changed: {swapped:?}") };
    assert!(swapped > written);
    for watch in [&mut live, &mut behind] {
        assert_eq!(next_changes(watch).await.revision, swapped);
    }
    let mut fresh = watch(store, "w/", swapped).await;
    assert_eq!(next_changes(&mut fresh).await.revision, swapped);
}

pub async fn a_history_is_renewed_once<F: Fixture>() {
    let mut f = F::start().await;
    let seen = f.store().epoch().await.unwrap();
    let store = f.store();
    let (a, b) = tokio::join!(store.renew_epoch(&seen), store.renew_epoch(&seen));
    let renewed = a.unwrap();
    assert_eq!(b.unwrap(), renewed, "of two who saw the same one renews");
    assert_ne!(renewed, seen);

    let start = store.revision().await.unwrap();
    let mut events = watch(store, "w/", start + 1).await;
    assert_eq!(store.renew_epoch(&seen).await.unwrap(), renewed);
    assert_eq!(store.epoch().await.unwrap(), renewed);
    assert_eq!(store.revision().await.unwrap(), start, "nothing was written");
    let next_revision = write(store, [put("w/a", "1")]).await;
    assert_eq!(next_changes(&mut events).await.revision, next_revision, "nothing to be told");
    drop(events);

    f.reopen().await;
    assert_eq!(f.store().epoch().await.unwrap(), renewed, "it is durable");
    assert_ne!(f.store().renew_epoch(&renewed).await.unwrap(), renewed);
}

/// Follows until the watch says that the history is `epoch` now; the keys it lists.
pub async fn relisted(watch: &mut WatchStream, epoch: &Epoch) -> Vec<String> {
    let listing = async {
        loop {
            match next(watch).await {
                WatchEvent::Relisted { epoch: told, listing } if told == *epoch => return listing,
                WatchEvent::Changes(_) => {}
                other => panic!("nothing else has happened: {other:?}"),
            }
        }
    };
    let listing = timeout(SOON, listing).await.expect("a watch tells of a new id");
    listing.entries.into_iter().map(|entry| entry.key).collect()
}
