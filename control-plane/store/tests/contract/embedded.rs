//! The contract on the embedded store, and what it owes for its file.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use proptest::prelude::*;
use sluicegate_store::{
    Change, ConfigStore, StoreError,
    embedded::{EmbeddedConfig, EmbeddedStore},
};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{fixture::*, model, renewal, suite, watching};

/// A history that is soon forgotten.
const SHORT: u64 = 8;

struct Embedded {
    dir: TempDir,
    config: EmbeddedConfig,
    store: Option<EmbeddedStore>,
}

impl Embedded {
    fn with(config: EmbeddedConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (store, notices) = EmbeddedStore::open_with(dir.path(), config).unwrap();
        assert_eq!(notices, []);
        Self { dir, config, store: Some(store) }
    }
}

#[async_trait]
impl Fixture for Embedded {
    async fn start() -> Self {
        Self::with(EmbeddedConfig::default())
    }

    async fn start_forgetful() -> Self {
        Self::with(EmbeddedConfig { history: SHORT, ..EmbeddedConfig::default() })
    }

    fn store(&self) -> &dyn ConfigStore {
        self.store.as_ref().unwrap()
    }

    async fn reopen(&mut self) {
        drop(self.store.take());
        let (store, notices) = EmbeddedStore::open_with(self.dir.path(), self.config).unwrap();
        assert_eq!(notices, []);
        self.store = Some(store);
    }

    async fn forget(&self) {
        for n in 0..=SHORT {
            write(self.store(), [put("filler", &n.to_string())]).await;
        }
    }
}

macro_rules! contract {
    ($($module:ident :: $promise:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $module::$promise::<Embedded>().await;
            }
        )+
    };
}

crate::for_every_promise!(contract);

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_model(steps in model::steps(80)) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { model::agrees(&mut Embedded::start().await, &steps).await });
    }
}

#[tokio::test]
async fn a_watcher_that_falls_behind_is_sent_a_listing() {
    let f = Embedded::start_forgetful().await;
    let start = write(f.store(), [put("w/a", "1"), put("w/b", "1")]).await;
    let mut behind = watch(f.store(), "w/", start + 1).await;
    let first = write(f.store(), [put("w/a", "2")]).await;
    assert_eq!(next_changes(&mut behind).await.revision, first);
    write(f.store(), [delete("w/b")]).await;
    f.forget().await;
    let sluicegate_store::WatchEvent::Relisted { listing, .. } = next(&mut behind).await else {
        panic!("the delete is no longer in the log")
    };
    assert_eq!(listing.entries.len(), 1);
}

#[tokio::test]
async fn a_ttl_is_counted_anew_after_a_restart() {
    const TTL: Duration = Duration::from_millis(600);
    let mut f = Embedded::start().await;
    write(f.store(), [put_for("t", "x", TTL)]).await;
    tokio::time::sleep(TTL / 2).await;
    f.reopen().await;
    let reopened = Instant::now();
    let revision = f.store().list("").await.unwrap().revision;
    let mut events = watch(f.store(), "", revision + 1).await;
    let set = next_changes(&mut events).await;
    assert_eq!(set.changes, [Change::Delete { key: "t".to_owned() }]);
    assert!(reopened.elapsed() > TTL / 2, "gone after {:?}", reopened.elapsed());
}

#[tokio::test]
async fn a_second_process_is_told_that_the_directory_is_taken() {
    let f = Embedded::start().await;
    let error = EmbeddedStore::open(f.dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::File { .. }));
    let text = error.to_string();
    assert!(text.contains("another sluicegate") && text.contains("--state-dir"), "{text}");
    // It has done no harm.
    write(f.store(), [put("a", "1")]).await;
}

#[tokio::test]
async fn an_unusable_directory_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = EmbeddedStore::open(&file).unwrap_err();
    assert!(matches!(error, StoreError::File { .. }), "{error}");
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
}

#[tokio::test]
async fn nobody_else_can_read_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("deep/state");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    drop(EmbeddedStore::open(&state).unwrap());
    let file = state.join("state.redb");
    assert_eq!((mode(&state), mode(&file)), (0o700, 0o600));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    drop(EmbeddedStore::open(&state).unwrap());
    assert_eq!(mode(&file), 0o600);
}

/// A state with some history, closed.
async fn closed_state() -> (TempDir, PathBuf) {
    let f = Embedded::start().await;
    for n in 0..50 {
        write(f.store(), [put(&format!("k/{n}"), &"v".repeat(100)), put("n", &n.to_string())])
            .await;
    }
    let Embedded { dir, .. } = f;
    let file = dir.path().join("state.redb");
    (dir, file)
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_said_so() {
    check(|file| fs::write(file, b"").unwrap()).await;
    check(|file| fs::write(file, b"no database at all").unwrap()).await;
    check(|file| {
        let length = fs::metadata(file).unwrap().len();
        fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length / 2).unwrap();
    })
    .await;
    check(|file| {
        let mut bytes = fs::read(file).unwrap();
        let length = bytes.len();
        bytes[4096..length].fill(0xa5);
        fs::write(file, bytes).unwrap();
    })
    .await;

    async fn check(damage: impl Fn(&Path)) {
        let (dir, file) = closed_state().await;
        for n in 1..=2 {
            damage(&file);
            let damaged = fs::read(&file).unwrap();
            let (store, notices) = EmbeddedStore::open(dir.path()).unwrap();
            let aside = dir.path().join(format!("state.redb.corrupt-{n}"));
            assert_eq!(fs::read(&aside).unwrap(), damaged, "kept as it was");
            let [notice] = &notices[..] else { panic!("one notice: {notices:?}") };
            assert!(notice.to_string().contains(&aside.display().to_string()), "{notice}");
            assert_eq!(contents(&store, "").await, []);
            write(&store, [put("a", "1")]).await;
        }
    }
}

#[tokio::test]
async fn a_leftover_of_an_unfinished_start_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("state.redb.new"), b"half").unwrap();
    let (store, notices) = EmbeddedStore::open(dir.path()).unwrap();
    assert_eq!(notices, []);
    write(&store, [put("a", "1")]).await;
}

/// One flipped byte anywhere: either it was in no page that matters, and everything is as it was,
/// or it is noticed.
#[tokio::test]
async fn no_flipped_byte_goes_unnoticed() {
    let (dir, file) = closed_state().await;
    let intact = fs::read(&file).unwrap();
    let expected = {
        let (store, _) = EmbeddedStore::open(dir.path()).unwrap();
        contents(&store, "").await
    };
    let pristine =
        if fs::read(&file).unwrap() == intact { intact } else { fs::read(&file).unwrap() };
    let mut noticed = 0;
    let positions: Vec<usize> =
        (0..320).chain((320..pristine.len()).step_by(pristine.len() / 150)).collect();
    for &position in &positions {
        let mut bytes = pristine.clone();
        bytes[position] ^= 0x5a;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("state.redb"), &bytes).unwrap();
        match EmbeddedStore::open(dir.path()) {
            Ok((store, notices)) if notices.is_empty() => {
                assert_eq!(contents(&store, "").await, expected, "byte {position}");
            }
            Ok((store, _)) => {
                noticed += 1;
                assert_eq!(contents(&store, "").await, [], "byte {position}");
            }
            Err(error) => {
                noticed += 1;
                assert!(matches!(error, StoreError::File { .. }), "byte {position}: {error}");
            }
        }
    }
    assert!(noticed > 10, "{noticed} of {} were noticed", positions.len());
}
