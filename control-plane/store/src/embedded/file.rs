//! The state file on disk: made, locked, checked, set aside when damaged, reopened after errors.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
};

use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};

use super::{table, unavailable};
use crate::StoreError;

const FILE: &str = "state.redb";
/// A new file until it is complete, so that a file under its real name always is.
const NEW_FILE: &str = "state.redb.new";
const LOCK: &str = "state.lock";
/// Memory for pages of the file. All of a usual state fits.
const CACHE_BYTES: usize = 64 << 20;

/// Something people should be told when the store has been opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice(String);

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The open state file, and the directory locked against other processes.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    /// Empty while the file could not be opened again after an error.
    database: RwLock<Option<Database>>,
    _lock: File,
}

impl StateFile {
    /// Opens the state in `dir`. A damaged file is set aside, and a new one started.
    pub(super) fn open(dir: &Path) -> Result<(Self, Option<Notice>), StoreError> {
        make_dir(dir)?;
        let lock = lock(dir)?;
        let path = dir.join(FILE);
        let (database, notice) = match open_or_create(dir, &path) {
            Ok(database) => (database, None),
            Err(Unusable::Damaged(reason)) => {
                let notice = set_aside(&path, &reason)?;
                let again = open_or_create(dir, &path).map_err(|error| error.of(&path))?;
                (again, Some(notice))
            }
            Err(other) => return Err(other.of(&path)),
        };
        Ok((Self { path, database: RwLock::new(Some(database)), _lock: lock }, notice))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads at the newest durable state. Blocks.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.with(|database| read(&database.begin_read()?))
    }

    /// Hands out the one write transaction, to be committed by `write`. Blocks.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.with(|database| write(database.begin_write()?))
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let outcome = {
            let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
            database.as_ref().map(act)
        };
        match outcome {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                if matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo) {
                    self.reopen();
                }
                Err(self.error(&error))
            }
            None => {
                self.reopen();
                Err(unavailable(format!("state file {} cannot be opened", self.path.display())))
            }
        }
    }

    /// After an I/O error a database refuses everything until it is opened again. Doing that here
    /// lets the store recover by itself from a disk that was full.
    fn reopen(&self) {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Closed first: the file cannot be open twice.
        drop(database.take());
        match open_existing(&self.path) {
            Ok(opened) => *database = Some(opened),
            Err(error) => tracing::error!(error = %error.of(&self.path), "cannot reopen the store"),
        }
    }

    fn error(&self, error: &redb::Error) -> StoreError {
        match error {
            redb::Error::Corrupted(_) => Unusable::Damaged(error.to_string()).of(&self.path),
            other => unavailable(format!("state file {}: {other}", self.path.display())),
        }
    }
}

/// Why a state file cannot be used.
enum Unusable {
    /// Its contents are not what was written.
    Damaged(String),
    /// Anything else: it cannot be reached, or is not ours to touch.
    Other(String),
}

impl Unusable {
    fn of(self, path: &Path) -> StoreError {
        let (Self::Damaged(reason) | Self::Other(reason)) = self;
        file_error(path, reason)
    }
}

impl From<redb::Error> for Unusable {
    fn from(error: redb::Error) -> Self {
        let reason = error.to_string();
        match error {
            redb::Error::Corrupted(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_) => Self::Damaged(reason),
            redb::Error::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Self::Damaged(error.to_string())
            }
            _ => Self::Other(reason),
        }
    }
}

fn make_dir(dir: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| file_error(dir, format!("the state directory cannot be made: {error}")))
}

/// Holds the directory for as long as the returned file is open.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| {
            let hint = "give the user that runs sluicegate access to the state directory";
            file_error(dir, format!("cannot open {LOCK} in it: {error}; {hint}"))
        })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(file_error(
            dir,
            "another sluicegate process uses this state directory; \
             stop it, or give this one a directory of its own with --state-dir"
                .to_owned(),
        )),
        Err(TryLockError::Error(error)) => {
            Err(file_error(dir, format!("{LOCK} in it cannot be locked: {error}")))
        }
    }
}

fn open_or_create(dir: &Path, path: &Path) -> Result<Database, Unusable> {
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => create(dir, path)
            .map_err(|error| Unusable::Other(format!("cannot be made: {error}")))?,
        Err(error) => return Err(Unusable::Other(error.to_string())),
    }
    open_existing(path)
}

/// Makes a complete, empty state file under its real name, durably.
fn create(dir: &Path, path: &Path) -> Result<(), redb::Error> {
    let new = dir.join(NEW_FILE);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
    let database = Database::builder().set_cache_size(CACHE_BYTES).create(&new)?;
    let txn = database.begin_write()?;
    table::create(&txn)?;
    txn.commit()?;
    database.close()?;
    fs::rename(&new, path)?;
    File::open(dir)?.sync_all()?;
    Ok(())
}

/// Opens a state file after checking every checksum in it.
fn open_existing(path: &Path) -> Result<Database, Unusable> {
    let reachable = |error: io::Error| Unusable::Other(error.to_string());
    let mode = fs::metadata(path).map_err(reachable)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(reachable)?;
    }
    let database = Database::builder()
        .set_cache_size(CACHE_BYTES)
        .set_check_integrity_on_open(true)
        .open(path)
        .map_err(redb::Error::from)?;
    let read = database.begin_read().map_err(redb::Error::from)?;
    let format = table::format(&read)?;
    if format > table::CURRENT_FORMAT {
        return Err(Unusable::Other(format!(
            "it was written by a newer sluicegate (format {format}, this one knows {}); \
             run that version, or use another --state-dir",
            table::CURRENT_FORMAT
        )));
    }
    table::revision(&read)?;
    table::epoch(&read)?;
    Ok(database)
}

/// Moves a damaged file out of the way, under the first free number.
fn set_aside(path: &Path, reason: &str) -> Result<Notice, StoreError> {
    let name = |n: u32| PathBuf::from(format!("{}.corrupt-{n}", path.display()));
    let aside = (1..).map(name).find(|aside| !aside.exists()).unwrap_or_else(|| name(0));
    fs::rename(path, &aside).map_err(|error| {
        file_error(path, format!("it is damaged ({reason}) and cannot be moved away: {error}"))
    })?;
    Ok(Notice(format!(
        "The state file {} is damaged ({reason}). It was set aside as {} and an empty store was \
         started: apply your configuration again, or stop and restore a backup.",
        path.display(),
        aside.display()
    )))
}

fn file_error(path: &Path, reason: String) -> StoreError {
    StoreError::File { path: path.display().to_string(), reason }
}
