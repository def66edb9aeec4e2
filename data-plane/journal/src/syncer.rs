//! The thread that brings what was written to the disk, and deletes what is no longer needed.

use std::{
    fs::File,
    io,
    sync::{Arc, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{clock::Moment, journal::Shared};

/// Files are looked through this often.
const TIDY_EVERY_MS: u64 = 1_000;

/// Runs until it is dropped; what was written is on the disk then.
#[derive(Debug)]
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let theirs = shared.clone();
        let thread =
            thread::Builder::new().name("usage-journal".to_owned()).spawn(move || run(&theirs))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the usage journal has panicked");
        }
    }
}

fn run(shared: &Shared) {
    let mut tidied = Moment::now();
    loop {
        let mut state = shared.lock();
        if !state.stop && !state.dirty {
            let patience = Duration::from_millis(TIDY_EVERY_MS);
            let woken = shared.wake.wait_timeout(state, patience);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.dirty {
            // Others write meanwhile: one trip to the disk for all of them.
            let woken = shared.wake.wait_timeout_while(state, shared.sync_every, |s| !s.stop);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let stop = state.stop;
        drop(state);
        if stop {
            shared.tidy(Moment::now());
        }
        shared.sync();
        if stop {
            return;
        }
        let now = Moment::now();
        if now.since(tidied) >= TIDY_EVERY_MS {
            tidied = now;
            shared.tidy(now);
        }
    }
}

impl Shared {
    /// Brings everything that was written to the disk. Blocks.
    pub(crate) fn sync(&self) {
        // One at a time: whoever finds nothing to do must not come back before it is done.
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut work = Vec::new();
        {
            let mut state = self.lock();
            state.dirty = false;
            for source in state.sources_mut() {
                work.extend(source.take_unsynced().map(|what| (source.incarnation, what)));
            }
        }
        if work.is_empty() {
            return;
        }
        let mut outcomes = Vec::with_capacity(work.len());
        for (incarnation, what) in work {
            let files = what.files.iter().try_for_each(|file| file.sync_data());
            let folder = if what.has_new { sync_folder(self) } else { Ok(()) };
            outcomes.push((incarnation, what, files.and(folder)));
        }
        let mut state = self.lock();
        for (incarnation, what, outcome) in outcomes {
            if let Some(source) = state.source_mut(incarnation) {
                // What the disk will not take for sure is sent all the same: the page cache has it.
                source.synced(&what, outcome.is_err());
            }
            if let Err(error) = outcome {
                self.complain(&mut state, &format!("cannot be brought to the disk: {error}"));
            }
        }
        drop(state);
        self.commits.send_modify(|commits| *commits += 1);
    }
}

fn sync_folder(shared: &Shared) -> io::Result<()> {
    File::open(&shared.folder)?.sync_all()
}
