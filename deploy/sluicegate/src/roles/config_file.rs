//! `run --config FILE`: the file is applied at start and at each valid save.
//!
//! What the file stops naming is deleted, but only if the file named it before: resources that were
//! made in other ways (`key create`, `apply`) are not the file's to delete.

mod watch;

use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use sluicegate_model::document::References;
use sluicegate_proto::admin::v1::ApplyReply;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use self::watch::{Watch, fingerprint};
use super::owned::Owned;
use crate::{change::Counts, client::Client, failure::Failure, files::Files, output, verbs::apply};

/// Editors write in several steps; this long nothing must have happened.
const QUIET: Duration = Duration::from_millis(100);
/// Writers may follow each other all the time.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often to look whether the watched folder is still the one at the path.
const RENEWAL: Duration = Duration::from_secs(2);

/// One configuration file and what it has declared so far.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// What it declared so far.
    owned: Owned,
    /// The content that was looked at last, whether it was accepted or not.
    seen: Option<blake3::Hash>,
}

impl ConfigFile {
    /// The file at `path`; its memory is in `state_dir`.
    pub(super) fn new(path: &Path, state_dir: &Path) -> Self {
        Self { path: path.to_owned(), owned: Owned::load(state_dir), seen: None }
    }

    /// Makes the configuration what the file says.
    ///
    /// # Errors
    /// Every fault, with line and column; nothing was changed then.
    pub(super) async fn apply(&mut self, client: &mut Client) -> Result<ApplyReply, Failure> {
        // Before it is read: a save that comes between is seen as another content later.
        self.seen = fingerprint(&self.path).ok();
        let files = Files::load(std::slice::from_ref(&self.path), References::Open)?;
        let named: BTreeSet<_> =
            files.declared().map(|declared| declared.reference.clone()).collect();
        if named.is_empty() && self.owned.len() > 0 {
            // Far more often an accident than a wish.
            return Err(Failure::not_so(format!(
                "{} declares nothing; to take away the {} that it declared, delete them with \
                 'sluicegate delete'",
                self.path.display(),
                output::count(self.owned.len(), "resource")
            )));
        }
        let mut request = apply::request(&files, None);
        request.comment = format!("from {}", self.path.display());
        request.changes.extend(self.owned.dropped(&named));
        if request.changes.is_empty() {
            return Ok(ApplyReply::default());
        }
        let reply = client
            .apply(request, Duration::ZERO)
            .await
            .map_err(|status| apply::refusal(client, &files, &status))?;
        self.owned.remember(named);
        Ok(reply)
    }

    /// Applies the file at every change of it, until `stop`.
    pub(super) async fn follow(mut self, mut client: Client, stop: CancellationToken) {
        let (sender, mut events) = mpsc::channel(1);
        let mut watch: Option<Watch> = None;
        let mut trouble = Trouble::default();
        let mut renewal = tokio::time::interval(RENEWAL);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = tokio::select! {
                // The first tick comes at once: it begins the watch.
                _ = renewal.tick() => match &mut watch {
                    // A folder that is gone takes its file along: the look tells it.
                    Some(watch) => watch.renew().unwrap_or(true),
                    None => self.begin(&mut watch, &sender, &mut trouble),
                },
                _ = events.recv() => {
                    settled(&mut events).await;
                    true
                }
                () = stop.cancelled() => return,
            };
            if due && watch.as_ref().is_some_and(|watch| !watch.is_being_written()) {
                self.look(&mut client, &mut trouble).await;
            }
        }
    }

    /// Begins to watch. The first look, due then, is for a save that came before.
    fn begin(
        &self,
        watch: &mut Option<Watch>,
        due: &mpsc::Sender<()>,
        trouble: &mut Trouble,
    ) -> bool {
        match (Watch::begin(&self.path, due.clone()), fs::metadata(&self.path)) {
            (Ok(begun), _) => *watch = Some(begun),
            // Its folder may have gone before the watch stood.
            (Err(_), Err(error)) => trouble.tell(&self.path, &error),
            (Err(error), Ok(_)) => trouble.tell(&self.path, &io::Error::other(error)),
        }
        watch.is_some()
    }

    /// Applies the file if it is another than at the last look.
    async fn look(&mut self, client: &mut Client, trouble: &mut Trouble) {
        let now = match fingerprint(&self.path) {
            Ok(now) => now,
            Err(error) => return trouble.tell(&self.path, &error),
        };
        trouble.is_over(&self.path);
        if self.seen == Some(now) {
            return;
        }
        match self.apply(client).await {
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

/// Why the file could not be read at the last look; each reason is told once.
#[derive(Debug, Default)]
struct Trouble(Option<ErrorKind>);

impl Trouble {
    fn tell(&mut self, path: &Path, error: &io::Error) {
        if self.0.replace(error.kind()) == Some(error.kind()) {
            return;
        }
        let file = path.display();
        match error.kind() {
            ErrorKind::NotFound => {
                tracing::warn!(%file, "the configuration file is gone; the last good configuration stays, the file is applied when it is back");
            }
            ErrorKind::IsADirectory => {
                tracing::warn!(%file, "a folder stands in place of the configuration file; the last good configuration stays");
            }
            ErrorKind::Other => {
                tracing::error!(%file, %error, "the configuration file cannot be watched, which is tried again; until then, apply it with 'sluicegate apply'");
            }
            _ => {
                tracing::warn!(%file, %error, "the configuration file cannot be read; the last good configuration stays");
            }
        }
    }

    fn is_over(&mut self, path: &Path) {
        if self.0.take().is_some() {
            tracing::info!(file = %path.display(), "the configuration file is followed again");
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
