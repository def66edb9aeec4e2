//! A state that ends processes is not taken over for ever.
//!
//! What is about to be taken over is written down first, and struck out once the process has lived with it
//! for a while, or was told to stop. So a start finds out which state the process before it died with. After
//! some deaths a state is left alone where there is a proven one to serve; for longer each time, since whoever
//! kills processes may not be the state. Nothing that is wrong with the file keeps a data plane from starting.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sluicegate_protocol::policy::Digest;
use sluicegate_telemetry::clock;

use super::cache::write_new;

/// A process that has lived so long with a state does not die of it.
pub(super) const PROVEN: Duration = Duration::from_secs(60);
/// Deaths after which a state is left alone.
const DEATHS: u32 = 3;
/// For so long at first; twice as long with each further death.
const LEFT_ALONE: Duration = PROVEN;
const LEFT_ALONE_MOST: Duration = Duration::from_secs(3_600);
/// States whose deaths are remembered.
const REMEMBERED: usize = 8;
const FILE: &str = "starts";

/// What is known of the states that processes of this directory have run.
#[derive(Debug)]
pub(super) struct Starts {
    file: PathBuf,
    book: Mutex<Book>,
    /// The process was told to end: from now on nobody dies of anything.
    stopped: AtomicBool,
}

/// A state that is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftAlone {
    pub(super) why: String,
    /// For so long.
    pub(super) still: Duration,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Book {
    /// The process runs it, and has not lived long with it yet.
    trial: Option<Digest>,
    /// Newest last.
    deaths: Vec<Deaths>,
}

/// Of processes that had just taken a state over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Deaths {
    state: Digest,
    count: u32,
    /// Milliseconds since the Unix epoch.
    left_alone_until: u64,
}

impl Starts {
    /// What the file in the directory tells; a state on trial there has ended its process.
    pub(super) fn open(directory: &Path) -> Self {
        let file = directory.join(FILE);
        let mut book = fs::read_to_string(&file).map(|text| Book::parse(&text)).unwrap_or_default();
        let found = book.clone();
        book.bury(clock::unix_ms());
        let stopped = AtomicBool::new(false);
        let starts = Self { file, book: Mutex::new(book.clone()), stopped };
        if book != found {
            starts.write(&book);
        }
        starts
    }

    /// May the state be taken over, where there is a proven one to serve?
    ///
    /// # Errors
    /// Why it is left alone.
    pub(super) fn allows(&self, state: Digest) -> Result<(), LeftAlone> {
        let now = clock::unix_ms();
        let book = self.lock();
        let Some(deaths) = book.deaths.iter().find(|deaths| deaths.state == state) else {
            return Ok(());
        };
        // A clock that was set back must not make it for ever.
        let left = deaths.left_alone_until.saturating_sub(now);
        let most = u64::try_from(LEFT_ALONE_MOST.as_millis()).unwrap_or(u64::MAX);
        if deaths.count < DEATHS || left == 0 || left > most {
            return Ok(());
        }
        let still = Duration::from_millis(left);
        let why = format!(
            "{} processes in a row ended within {} s of taking it over; it is left alone for {} s, or until \
             another configuration comes",
            deaths.count,
            PROVEN.as_secs(),
            left.div_ceil(1_000)
        );
        Err(LeftAlone { why, still })
    }

    /// The state is about to be taken over. Returns the one that was on trial.
    pub(super) fn try_out(&self, state: Digest) -> Option<Digest> {
        let mut book = self.lock();
        if self.stopped.load(Ordering::Acquire) {
            return None;
        }
        let before = book.trial.replace(state);
        if before != Some(state) {
            self.write(&book);
        }
        before
    }

    /// The state was not taken over after all; `before` is still what runs.
    pub(super) fn give_up(&self, state: Digest, before: Option<Digest>) {
        let mut book = self.lock();
        if book.trial == Some(state) && before != Some(state) {
            book.trial = before;
            self.write(&book);
        }
    }

    /// The process has lived with the state for [`PROVEN`]. False: another has come since.
    pub(super) fn prove(&self, state: Digest) -> bool {
        let mut book = self.lock();
        if book.trial != Some(state) {
            return false;
        }
        book.trial = None;
        book.deaths.retain(|deaths| deaths.state != state);
        self.write(&book);
        true
    }

    /// The process was told to end.
    pub(super) fn stop(&self) {
        let mut book = self.lock();
        self.stopped.store(true, Ordering::Release);
        if book.trial.take().is_some() {
            self.write(&book);
        }
    }

    fn write(&self, book: &Book) {
        let beside = self.file.with_extension("new");
        let written = write_new(&beside, book.to_text().as_bytes());
        if let Err(error) = written.and_then(|()| fs::rename(&beside, &self.file)) {
            // Without it, a state that ends processes is found out by nobody; all else goes on.
            tracing::warn!(%error, file = %self.file.display(), "the starts cannot be written down");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// The process that had a state on trial is no more.
    fn bury(&mut self, now_unix_ms: u64) {
        let Some(state) = self.trial.take() else { return };
        let known = self.deaths.iter().position(|deaths| deaths.state == state);
        let before = known.map_or(0, |index| self.deaths.remove(index).count);
        let count = before.saturating_add(1);
        let doubled = LEFT_ALONE.saturating_mul(1 << count.saturating_sub(DEATHS).min(16));
        let left_alone =
            u64::try_from(doubled.min(LEFT_ALONE_MOST).as_millis()).unwrap_or(u64::MAX);
        let left_alone_until = now_unix_ms.saturating_add(left_alone);
        self.deaths.push(Deaths { state, count, left_alone_until });
        if self.deaths.len() > REMEMBERED {
            self.deaths.remove(0);
        }
    }

    fn parse(text: &str) -> Self {
        let digest = |hex: &str| Digest::from_bytes(&hex::decode(hex).ok()?);
        let mut book = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next().and_then(digest), words.next(), words.next()) {
                (Some("trial"), Some(state), None, None) => book.trial = Some(state),
                (Some("deaths"), Some(state), Some(count), Some(until)) => {
                    if let (Ok(count), Ok(left_alone_until)) = (count.parse(), until.parse()) {
                        book.deaths.push(Deaths { state, count, left_alone_until });
                    }
                }
                _ => {}
            }
        }
        book
    }

    fn to_text(&self) -> String {
        let trial =
            self.trial.iter().map(|state| format!("trial {}\n", hex::encode(state.to_bytes())));
        let deaths = self.deaths.iter().map(|deaths| {
            let Deaths { state, count, left_alone_until } = deaths;
            format!("deaths {} {count} {left_alone_until}\n", hex::encode(state.to_bytes()))
        });
        trial.chain(deaths).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u8) -> Digest {
        Digest::from_bytes(&[number; 32]).unwrap()
    }

    #[test]
    fn d5_a_state_that_ends_three_processes_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for start in 1..=3 {
            let starts = Starts::open(folder.path());
            assert_eq!(starts.allows(state(1)), Ok(()), "start {start}");
            starts.try_out(state(1));
        }
        let starts = Starts::open(folder.path());
        let LeftAlone { why, still } = starts.allows(state(1)).unwrap_err();
        assert!(still > Duration::from_secs(50) && still <= PROVEN, "{still:?}");
        assert!(why.starts_with("3 processes in a row ended within 60 s"), "{why}");
        assert_eq!(starts.allows(state(2)), Ok(()));
        // It lives with another, and remembers.
        starts.try_out(state(2));
        assert!(!starts.prove(state(1)), "that is not what it runs");
        assert!(starts.prove(state(2)));
        let starts = Starts::open(folder.path());
        assert!(starts.allows(state(1)).is_err());
        assert_eq!(starts.lock().deaths.len(), 1);
    }

    #[test]
    fn a13_who_is_told_to_stop_dies_of_nothing_and_what_is_proven_is_forgiven() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..5 {
            let starts = Starts::open(folder.path());
            starts.try_out(state(1));
            starts.stop();
        }
        assert_eq!(*Starts::open(folder.path()).lock(), Book::default());
        let stopped = Starts::open(folder.path());
        stopped.stop();
        stopped.try_out(state(1));
        assert_eq!(*Starts::open(folder.path()).lock(), Book::default());
        // Nor does anybody die of what was refused.
        let refusing = Starts::open(folder.path());
        refusing.try_out(state(1));
        let before = refusing.try_out(state(2));
        refusing.give_up(state(2), before);
        assert!(refusing.prove(state(1)));
        for _ in 0..2 {
            Starts::open(folder.path()).try_out(state(1));
        }
        let starts = Starts::open(folder.path());
        starts.try_out(state(1));
        assert!(starts.prove(state(1)));
        assert_eq!(*starts.lock(), Book::default());
    }

    #[test]
    fn waits_double_and_end() {
        let mut book = Book::default();
        let mut waits = Vec::new();
        for _ in 0..20 {
            book.trial = Some(state(1));
            book.bury(1_000);
            waits.push((book.deaths[0].left_alone_until - 1_000) / 1_000);
        }
        assert_eq!(waits[..8], [60, 60, 60, 120, 240, 480, 960, 1920]);
        assert_eq!(waits.last(), Some(&3_600));
        assert_eq!(Book::parse(&book.to_text()), book);
        for number in 2..20 {
            book.trial = Some(state(number));
            book.bury(1_000);
        }
        assert_eq!(book.deaths.len(), REMEMBERED);
        assert_eq!(Book::parse("trial x\ndeaths\ndeaths 00 1 2\n\u{0}"), Book::default());
    }
}
