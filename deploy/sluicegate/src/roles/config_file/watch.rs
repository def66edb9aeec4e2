//! Learning when a file is worth a look: when whoever wrote it is done, and not before.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use notify::{
    Event, EventKind, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode, ModifyKind},
};
use tokio::sync::mpsc;

/// Watches the folder of one file, since editors replace files instead of writing into them.
pub(super) struct Watch {
    file: PathBuf,
    folder: PathBuf,
    /// Stops when dropped.
    _watcher: notify::RecommendedWatcher,
    /// Which folder it is: another one may come to stand at the same path.
    identity: (u64, u64),
    signs: Arc<Signs>,
    due: mpsc::Sender<()>,
}

/// What events told that no look at the file tells.
#[derive(Debug, Default)]
struct Signs {
    /// Somebody has written into the file and not closed it.
    writing: AtomicBool,
    /// The file was made and nothing happened to it since.
    made: AtomicBool,
    /// The watched folder is not at its path any more.
    lost: AtomicBool,
}

impl Watch {
    /// Begins to watch; `due` gets a word at every event after which the file may be another.
    ///
    /// # Errors
    /// When the folder is not there or the system has no watch left.
    pub(super) fn begin(file: &Path, due: mpsc::Sender<()>) -> notify::Result<Self> {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let signs = Arc::new(Signs::default());
        let mut watcher = notify::recommended_watcher({
            let (due, signs) = (due.clone(), signs.clone());
            let (file, folder) = (file.to_owned(), std::path::absolute(folder)?);
            move |event: notify::Result<Event>| {
                let wake = match event {
                    Ok(event) => heed(&event, &file, &folder, &signs),
                    // Events may have been lost.
                    Err(_) => true,
                };
                if wake && due.try_send(()).is_err() {
                    // A full channel means that a look at the file is due anyway.
                    tracing::trace!("a look is due already");
                }
            }
        })?;
        // Before the watch: a folder that is replaced in between is noticed later.
        let identity = identity(&fs::metadata(folder)?);
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        let (file, folder) = (file.to_owned(), folder.to_owned());
        Ok(Self { file, folder, _watcher: watcher, identity, signs, due })
    }

    /// Has somebody written into the file without having closed it?
    pub(super) fn is_being_written(&self) -> bool {
        self.signs.writing.load(Ordering::Acquire)
    }

    /// What events do not tell: watches the folder that stands at the path now, when it is not the
    /// one that stood there, and finds a file that was put there whole, by a link that is a plain
    /// file since. Tells whether the file is worth a look.
    ///
    /// # Errors
    /// When no folder is there, or it cannot be watched.
    pub(super) fn renew(&mut self) -> notify::Result<bool> {
        let found = identity(&fs::metadata(&self.folder)?);
        // A new folder may have the number of the old one.
        if found != self.identity || self.signs.lost.load(Ordering::Acquire) {
            *self = Self::begin(&self.file, self.due.clone())?;
            return Ok(true);
        }
        let whole = || fs::metadata(&self.file).is_ok_and(|file| file.len() > 0);
        Ok(self.signs.made.load(Ordering::Acquire)
            && whole()
            && self.signs.made.swap(false, Ordering::AcqRel))
    }
}

fn identity(folder: &Metadata) -> (u64, u64) {
    (folder.dev(), folder.ino())
}

/// Is the file worth a look after this event? Keeps account of whether it is being written.
fn heed(event: &Event, file: &Path, folder: &Path, signs: &Signs) -> bool {
    let set = |writing: bool, made: bool| {
        signs.writing.store(writing, Ordering::Release);
        signs.made.store(made, Ordering::Release);
    };
    if event.need_rescan() {
        set(false, false);
        return true;
    }
    let named = event.paths.iter().any(|path| path.file_name() == file.file_name());
    // What a link leads to may be another after anything that happens beside it.
    let ours = named || fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink());
    match event.kind {
        EventKind::Modify(ModifyKind::Data(_)) => {
            if named {
                set(true, false);
            }
            false
        }
        EventKind::Modify(ModifyKind::Name(_)) | EventKind::Remove(_)
            if event.paths.first().is_some_and(|path| path == folder) =>
        {
            signs.lost.store(true, Ordering::Release);
            set(false, false);
            true
        }
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Remove(_) => {
            if named {
                set(false, false);
            }
            ours
        }
        EventKind::Create(_) if named => {
            let whole = !will_be_closed(file);
            set(false, !whole);
            whole
        }
        EventKind::Create(_) => ours,
        _ => false,
    }
}

/// A file that was just made by opening it: it is closed once it is written. Links are whole at
/// once, and nobody closes folders.
fn will_be_closed(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok_and(|found| found.is_file() && found.nlink() == 1)
}

/// What tells one content of the file from another.
///
/// # Errors
/// Why there is none: it is gone, no file, or cannot be read.
pub(super) fn fingerprint(path: &Path) -> io::Result<blake3::Hash> {
    fs::read(path).map(|bytes| blake3::hash(&bytes))
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, RemoveKind, RenameMode};

    use super::*;

    #[test]
    fn only_finished_work_is_heeded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.yaml");
        fs::write(&file, "x").unwrap();
        let signs = Signs::default();
        let look = |kind: EventKind, name: &str| {
            let event = Event::new(kind).add_path(folder.path().join(name));
            let heeded = heed(&event, &file, folder.path(), &signs);
            (heeded, signs.writing.load(Ordering::Acquire))
        };
        let data = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let read = EventKind::Access(AccessKind::Close(AccessMode::Read));
        let created = EventKind::Create(CreateKind::File);
        let moved = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let removed = EventKind::Remove(RemoveKind::File);

        assert_eq!(look(data, "f.yaml"), (false, true));
        assert_eq!(look(closed, "other"), (false, true));
        assert_eq!(look(closed, "f.yaml"), (true, false));
        assert_eq!(look(read, "f.yaml"), (false, false));
        assert_eq!(look(created, "f.yaml"), (false, false), "its writer closes it");
        assert!(signs.made.load(Ordering::Acquire), "or it was a link");
        assert_eq!(look(data, "f.yaml"), (false, true));
        assert!(!signs.made.load(Ordering::Acquire), "it was not");
        assert_eq!(look(moved, "f.yaml"), (true, false));
        assert_eq!(look(moved, "other"), (false, false));
        assert_eq!(look(removed, "f.yaml"), (true, false));
        assert!(!signs.lost.load(Ordering::Acquire));
        assert_eq!(look(removed, ""), (true, false));
        assert!(signs.lost.load(Ordering::Acquire), "the folder itself");

        fs::hard_link(&file, folder.path().join("g.yaml")).unwrap();
        assert_eq!(look(created, "f.yaml"), (true, false), "a link is whole");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(folder.path().join("g.yaml"), &file).unwrap();
        assert_eq!(look(moved, "..data"), (true, false), "what the link leads to");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(look(created, "f.yaml"), (true, false));
    }
}
