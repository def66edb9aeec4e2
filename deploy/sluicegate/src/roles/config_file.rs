//! `run --config FILE`: the file is applied at start and at each valid save.
//!
//! What the file stops naming is deleted, but only if the file named it before: resources that were
//! made in other ways (`key create`, `apply`) are not the file's to delete.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{RecursiveMode, Watcher};
use sluicegate_model::{ResourceRef, document::References};
use sluicegate_proto::admin::v1::{ApplyReply, Change, change};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::state;
use crate::{change::Counts, client::Client, failure::Failure, files::Files, output, verbs::apply};

/// Editors write in several steps; this long nothing must have happened.
const QUIET: Duration = Duration::from_millis(100);
/// Other files of the folder may change all the time.
const PATIENCE: Duration = Duration::from_secs(1);

/// One configuration file and what it has declared so far.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// Remembers, over restarts, what the file declared.
    owned_path: PathBuf,
    owned: BTreeSet<String>,
    /// The content that was looked at last, whether it was accepted or not.
    seen: Option<blake3::Hash>,
}

impl ConfigFile {
    /// The file at `path`; its memory is in `state_dir`.
    pub(super) fn new(path: &Path, state_dir: &Path) -> Self {
        let owned_path = state_dir.join("config.applied.json");
        let owned = std::fs::read(&owned_path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        Self { path: path.to_owned(), owned_path, owned, seen: None }
    }

    /// Makes the configuration what the file says.
    ///
    /// # Errors
    /// Every fault, with line and column; nothing was changed then.
    pub(super) async fn apply(&mut self, client: &mut Client) -> Result<ApplyReply, Failure> {
        // Before it is read: a save that comes between is seen as another content later.
        self.seen = fingerprint(&self.path);
        let files = Files::load(std::slice::from_ref(&self.path), References::Open)?;
        let named: BTreeSet<String> =
            files.declared().map(|declared| declared.reference.to_string()).collect();
        let mut request = apply::request(&files, None);
        request.comment = format!("from {}", self.path.display());
        for dropped in self.owned.difference(&named) {
            let Some((kind, name)) = dropped.split_once('/') else { continue };
            let Ok(kind) = kind.parse() else { continue };
            let reference = ResourceRef::new(kind, name);
            request.changes.push(Change {
                change: Some(change::Change::Delete(reference.to_proto())),
                expect_version: None,
            });
        }
        if request.changes.is_empty() {
            return Ok(ApplyReply::default());
        }
        let reply = client
            .apply(request, Duration::ZERO)
            .await
            .map_err(|status| apply::refusal(client, &files, &status))?;
        self.remember(named);
        Ok(reply)
    }

    fn remember(&mut self, named: BTreeSet<String>) {
        if named != self.owned {
            self.owned = named;
            let text = serde_json::to_string(&self.owned).unwrap_or_default();
            if let Err(error) = state::write_private(&self.owned_path, &text) {
                tracing::warn!(%error, "what the file declares cannot be remembered");
            }
        }
    }

    /// Applies the file at every change of it, until `stop`.
    pub(super) async fn follow(mut self, mut client: Client, stop: CancellationToken) {
        let (sender, mut events) = mpsc::channel(1);
        let watcher = watch(&self.path, sender);
        let _watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "the file cannot be watched; apply it with 'sluicegate apply'");
                return;
            }
        };
        // The first look is for a save that came before the watch stood.
        let mut due = true;
        loop {
            if !due {
                tokio::select! {
                    event = events.recv() => if event.is_none() { return },
                    () = stop.cancelled() => return,
                }
                settled(&mut events).await;
            }
            due = false;
            let now = fingerprint(&self.path);
            if now == self.seen || now.is_none() {
                continue;
            }
            match self.apply(&mut client).await {
                Ok(reply) => {
                    let counts = Counts::of(&reply.differences);
                    tracing::info!(
                        file = %self.path.display(),
                        created = counts.created,
                        updated = counts.updated,
                        deleted = counts.deleted,
                        revision = reply.at.as_ref().map_or(0, |at| at.revision),
                        "configuration applied"
                    );
                }
                Err(failure) => output::complain(&format!(
                    "{} was not applied, the last good configuration stays: {failure}",
                    self.path.display()
                )),
            }
        }
    }
}

/// Waits until nothing happens any more, or the folder has been busy for too long to wait.
async fn settled(events: &mut mpsc::Receiver<()>) {
    let deadline = Instant::now() + PATIENCE;
    let mut busy = true;
    while busy && Instant::now() < deadline {
        busy = tokio::time::timeout(QUIET, events.recv()).await.is_ok_and(|event| event.is_some());
    }
}

/// Watches the folder, since editors replace files instead of writing into them.
fn watch(path: &Path, sender: mpsc::Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel means that a look at the file is due anyway.
            let _due = sender.try_send(());
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// What tells one content of the file from another; `None` while there is no file.
fn fingerprint(path: &Path) -> Option<blake3::Hash> {
    std::fs::read(path).ok().map(|bytes| blake3::hash(&bytes))
}
