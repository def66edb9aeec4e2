//! The last good policy on disk.
//!
//! For each lane one sealed file of raw resource bytes, as received: what a newer build understands
//! survives. The seal is the integrity check, too. The file before it is kept as a second generation.
//! Nothing that is wrong with either ever keeps a data plane from starting.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use prost::Message;
use sluicegate_model::seal::SealKey;
use sluicegate_proto::policy::v1 as pb;
use sluicegate_protocol::policy::{Body, Change, Digest, Key, Lane, LaneState, Lanes, Point};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::sync::watch;

use super::starts::{LeftAlone, Starts};

/// First bytes of the file: what it is and which form it has.
const MAGIC: &[u8] = b"sluicegate policy 1\n";
const KEY_FILE: &str = "cache.key";

/// The cache in one directory. Saving never blocks: the newest state waits for a writer.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    key: SealKey,
    lanes: Lanes<Saved>,
    starts: Starts,
    /// The configuration that a process has lived with for a while, as it is kept apart.
    proven: Mutex<Option<Digest>>,
}

/// What is saved of one lane.
#[derive(Debug)]
struct Saved {
    newest: watch::Sender<Option<LaneState>>,
    persisted: Arc<AtomicU64>,
    _writer: AbortOnDrop<()>,
}

/// Where a lane's generations are.
#[derive(Debug, Clone)]
struct Files {
    current: PathBuf,
    previous: PathBuf,
    /// One that a process has lived with for a while.
    proven: PathBuf,
}

impl Files {
    fn of(directory: &Path, lane: Lane) -> Self {
        let name = match lane {
            Lane::Config => "policy",
            Lane::Keys => "keys",
        };
        let at = |ending| directory.join(format!("{name}.{ending}"));
        Self { current: at("lkg"), previous: at("lkg.1"), proven: at("lkg.proven") }
    }
}

impl Cache {
    /// Opens the directory, making it and its key if they are missing. Must be called within a
    /// runtime.
    ///
    /// # Errors
    /// The directory or key cannot be made or read. The data plane can go on without a cache.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let key = load_or_make_key(&directory.join(KEY_FILE))?;
        let lanes = Lanes::of(|lane| {
            let (newest, states) = watch::channel(None);
            let persisted = Arc::new(AtomicU64::new(0));
            let files = Files::of(directory, lane);
            let writer = write_states(files, lane, key.clone(), states, persisted.clone());
            let writer = AbortOnDrop(task::spawn("policy-cache", writer));
            Saved { newest, persisted, _writer: writer }
        });
        let starts = Starts::open(directory);
        Ok(Self { directory: directory.to_owned(), key, lanes, starts, proven: Mutex::default() })
    }

    /// Is there a saved policy in this directory, readable or not?
    pub fn is_there(directory: &Path) -> bool {
        let Files { current, previous, proven } = Files::of(directory, Lane::Config);
        [current, previous, proven].iter().any(|file| file.exists())
    }

    /// Where it is.
    pub fn location(&self) -> String {
        Files::of(&self.directory, Lane::Config).current.display().to_string()
    }

    /// Revision of the configuration that a start would find.
    pub fn persisted(&self) -> u64 {
        self.lanes.config.persisted.load(Ordering::Relaxed)
    }

    /// What ends processes.
    pub(super) fn starts(&self) -> &Starts {
        &self.starts
    }

    /// Is it what is kept apart as proven?
    pub(super) fn is_proven(&self, state: Digest) -> bool {
        *self.proven.lock().unwrap_or_else(PoisonError::into_inner) == Some(state)
    }

    fn note_proven(&self, state: Digest) {
        *self.proven.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    /// The configuration with this digest is proven: it is kept apart, where it is saved.
    ///
    /// # Errors
    /// As of any file.
    pub(super) fn keep_proven(&self, state: Digest) -> io::Result<()> {
        let Files { current, previous, proven } = Files::of(&self.directory, Lane::Config);
        let beside = proven.with_extension("proven.new");
        for file in [current, previous] {
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // First the link, then the look at it: another state may come to the file's name meanwhile.
            match fs::hard_link(file, &beside) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                linked => linked?,
            }
            let held = read(Lane::Config, &self.key, &fs::read(&beside)?);
            if held.is_some_and(|change| change.digest == state) {
                fs::rename(beside, proven)?;
                self.note_proven(state);
                return Ok(());
            }
            fs::remove_file(&beside)?;
        }
        Ok(())
    }

    /// Queues a state to be written; one that has not been written yet is replaced.
    pub fn save(&self, lane: Lane, state: &LaneState) {
        self.lanes.get(lane).newest.send_replace(Some(state.clone()));
    }

    /// The newest readable generation as a full change set, and what the operator should know.
    /// Files that cannot be used are set aside. A configuration that has ended processes is passed over for
    /// the proven one, if there is one.
    pub fn load(&self, lane: Lane) -> (Option<Change>, Vec<String>) {
        let mut notices = Vec::new();
        let Files { current, previous, proven } = Files::of(&self.directory, lane);
        let proven_state = fs::read(&proven).ok().and_then(|bytes| read(lane, &self.key, &bytes));
        if let Some(change) = &proven_state {
            self.note_proven(change.digest);
        }
        for path in [current, previous, proven] {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    notices.push(format!("cannot read {}: {error}", path.display()));
                    continue;
                }
            };
            match read(lane, &self.key, &bytes) {
                Some(mut change) => {
                    if let Some(proven) = proven_state
                        && let Err(LeftAlone { why, .. }) = self.starts.allows(change.digest)
                    {
                        let revision = change.to.revision;
                        notices.push(format!("the saved policy of revision {revision}: {why}"));
                        change = proven;
                    }
                    self.lanes.get(lane).persisted.store(change.to.revision, Ordering::Relaxed);
                    return (Some(change), notices);
                }
                None => notices.push(set_aside(&path)),
            }
        }
        (None, notices)
    }
}

fn set_aside(path: &Path) -> String {
    let aside = path.with_extension("corrupt");
    let kept = match fs::rename(path, &aside) {
        Ok(()) => format!("it was set aside as {}", aside.display()),
        Err(error) => format!("and it cannot be set aside: {error}"),
    };
    format!("the saved policy {} is damaged or sealed with another key; {kept}", path.display())
}

fn load_or_make_key(path: &Path) -> io::Result<SealKey> {
    match fs::read_to_string(path) {
        Ok(text) => match SealKey::parse(&text) {
            Ok(key) => Ok(key),
            Err(_) => {
                // What it sealed cannot be read any more, and is set aside when it is met.
                fs::rename(path, path.with_extension("corrupt"))?;
                tracing::warn!(file = %path.display(), "the cache key is damaged; a new one was made");
                make_key(path)
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(path),
        Err(error) => Err(error),
    }
}

fn make_key(path: &Path) -> io::Result<SealKey> {
    let key = SealKey::generate().map_err(io::Error::other)?;
    write_new(path, key.to_text().as_bytes())?;
    Ok(key)
}

/// Writes a file that only its owner reads, durably.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

async fn write_states(
    files: Files,
    lane: Lane,
    key: SealKey,
    mut states: watch::Receiver<Option<LaneState>>,
    persisted: Arc<AtomicU64>,
) {
    let mut complained = false;
    while states.changed().await.is_ok() {
        let Some(state) = states.borrow_and_update().clone() else { continue };
        let revision = state.at.as_ref().map_or(0, |at| at.revision);
        let (files, key) = (files.clone(), key.clone());
        let written = tokio::task::spawn_blocking(move || write(&files, lane, &key, &state)).await;
        match written.map_err(io::Error::other).and_then(|result| result) {
            Ok(()) => {
                complained = false;
                persisted.store(revision, Ordering::Relaxed);
            }
            Err(error) if !complained => {
                complained = true;
                tracing::error!(%error, "the policy cannot be saved; a restart without a control plane would serve an older one");
            }
            Err(_) => {}
        }
        // At most five writes a second; what came meanwhile is written at once afterwards.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

fn write(files: &Files, lane: Lane, key: &SealKey, state: &LaneState) -> io::Result<()> {
    let Some(at) = &state.at else { return Ok(()) };
    let upserts = state.entries.iter().map(|(key, body)| pb::PolicyResource {
        r#ref: Some(key.to_proto()),
        version: body.version,
        schema: body.schema,
        body: body.bytes.clone(),
    });
    let whole = pb::ChangeChunk {
        lane: lane.to_proto().into(),
        to: Some(at.to_proto()),
        last: true,
        upserts: upserts.collect(),
        digest: state.digest.to_bytes().to_vec().into(),
        ..pb::ChangeChunk::default()
    };
    let sealed = key.seal(MAGIC, &whole.encode_to_vec()).map_err(io::Error::other)?;
    let Files { current, previous, .. } = files;
    let temporary = current.with_extension("lkg.new");
    write_new(&temporary, &[MAGIC, &sealed].concat())?;
    match fs::rename(current, previous) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(&temporary, current)?;
    fs::File::open(current.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// The lane's state in a file; `None` when anything about it is not as it was written.
fn read(lane: Lane, key: &SealKey, bytes: &[u8]) -> Option<Change> {
    let plain = key.open(MAGIC, bytes.strip_prefix(MAGIC)?).ok()?;
    let whole = pb::ChangeChunk::decode(plain.as_slice()).ok()?;
    if Lane::from_proto(whole.lane) != Some(lane) {
        return None;
    }
    let upserts: Option<Vec<_>> = whole
        .upserts
        .into_iter()
        .map(|resource| {
            let body =
                Body { version: resource.version, schema: resource.schema, bytes: resource.body };
            Some((Key::from(resource.r#ref?), body))
        })
        .collect();
    let change = Change {
        from: None,
        to: Point::from(whole.to?),
        upserts: upserts?,
        removes: Vec::new(),
        digest: Digest::from_bytes(&whole.digest)?,
    };
    (LaneState::default().digest_after(&change) == change.digest).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(revision: u64) -> LaneState {
        let key = Key { kind: "tenant".into(), name: "a".into() };
        let body = Body { version: revision, schema: 1, bytes: "x".into() };
        let mut digest = Digest::default();
        digest.add(&key, &body);
        let to = Point { epoch: "e".into(), revision };
        let change = Change { from: None, to, upserts: vec![(key, body)], removes: vec![], digest };
        let mut state = LaneState::default();
        state.apply(change);
        state
    }

    #[tokio::test]
    async fn d5_generations_damage_and_foreign_keys() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        assert_eq!(cache.load(Lane::Config).0, None);
        let files = Files::of(directory.path(), Lane::Config);
        write(&files, Lane::Config, &cache.key, &state(1)).unwrap();
        write(&files, Lane::Config, &cache.key, &state(2)).unwrap();
        assert_eq!(cache.load(Lane::Config).0.unwrap().to.revision, 2);
        assert_eq!(cache.load(Lane::Keys).0, None);

        let path = files.current.clone();
        let whole = fs::read(&path).unwrap();
        for damaged in
            [&whole[..whole.len() - 1], &whole[..10], b"", &[&whole[..], b"x"].concat()[..]]
        {
            fs::write(&path, damaged).unwrap();
            let (change, notices) = cache.load(Lane::Config);
            assert_eq!(change.unwrap().to.revision, 1, "the generation before");
            assert!(notices[0].contains("set aside"), "{notices:?}");
            assert!(!path.exists());
        }
        fs::remove_file(directory.path().join(KEY_FILE)).unwrap();
        drop(cache);
        let cache = Cache::open(directory.path()).unwrap();
        let (change, notices) = cache.load(Lane::Config);
        assert_eq!((change, notices.len()), (None, 1));
    }

    #[tokio::test]
    async fn d5_only_what_is_proven_is_kept_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        let files = Files::of(directory.path(), Lane::Config);
        for revision in [1, 2] {
            write(&files, Lane::Config, &cache.key, &state(revision)).unwrap();
        }
        cache.keep_proven(state(9).digest).unwrap();
        assert!(!files.proven.exists());
        for proven in [1, 2] {
            cache.keep_proven(state(proven).digest).unwrap();
            let kept = read(Lane::Config, &cache.key, &fs::read(&files.proven).unwrap());
            assert_eq!(kept.unwrap().to.revision, proven);
        }
        // It is no other name of a file that is written into.
        write(&files, Lane::Config, &cache.key, &state(3)).unwrap();
        write(&files, Lane::Config, &cache.key, &state(4)).unwrap();
        fs::remove_file(&files.current).unwrap();
        fs::remove_file(&files.previous).unwrap();
        assert_eq!(cache.load(Lane::Config).0.unwrap().to.revision, 2);
    }

    #[tokio::test]
    async fn the_newest_state_is_written_by_itself() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        (1..=50).for_each(|revision| cache.save(Lane::Keys, &state(revision)));
        for _ in 0..200 {
            if cache.lanes.keys.persisted.load(Ordering::Relaxed) == 50 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(cache.load(Lane::Keys).0.unwrap().to.revision, 50);
        // Of one lane in the other's place nothing is taken.
        let (keys, config) =
            (Files::of(directory.path(), Lane::Keys), Files::of(directory.path(), Lane::Config));
        fs::rename(keys.current, config.current).unwrap();
        assert_eq!(cache.load(Lane::Config).0, None);
    }
}
