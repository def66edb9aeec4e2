//! Captured output, line by line.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;

use crate::deadline::within;

/// The lines of one output stream. Clones see the same lines.
#[derive(Debug, Clone)]
pub struct Lines {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    captured: Mutex<Captured>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Captured {
    lines: Vec<String>,
    invalid_utf8: bool,
    ended: bool,
}

impl Lines {
    /// Reads `source` to its end on a thread of its own, into memory and into the file at `copy`.
    pub(super) fn capture(source: impl Read + Send + 'static, copy: &Path) -> anyhow::Result<Self> {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(copy)
            .with_context(|| copy.display().to_string())?;
        let lines = Self {
            shared: Arc::new(Shared {
                captured: Mutex::default(),
                changed: watch::Sender::new(()),
            }),
        };
        let writer = lines.clone();
        thread::spawn(move || {
            let mut source = BufReader::new(source);
            let mut line = Vec::new();
            while source.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                // The copy is for people; a full disk must not stop the test.
                file.write_all(&line).ok();
                writer.push(&line);
                line.clear();
            }
            writer.change(|captured| captured.ended = true);
        });
        Ok(lines)
    }

    /// Every line so far, without line ends.
    pub fn all(&self) -> Vec<String> {
        self.read(|captured| captured.lines.clone())
    }

    /// Number of lines so far.
    pub fn count(&self) -> usize {
        self.read(|captured| captured.lines.len())
    }

    /// Whether anything was written that is not UTF-8.
    pub fn has_invalid_utf8(&self) -> bool {
        self.read(|captured| captured.invalid_utf8)
    }

    /// The last `n` lines.
    pub fn tail(&self, n: usize) -> String {
        self.read(|captured| {
            let start = captured.lines.len().saturating_sub(n);
            captured.lines[start..].join("\n")
        })
    }

    /// Waits for the first line, past and future ones alike, from which `pick` makes something.
    pub async fn find<T>(
        &self,
        limit: Duration,
        awaited: &str,
        pick: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        self.find_from(0, limit, awaited, pick).await
    }

    /// As [`Self::find`], but leaves out the first `start` lines; see [`Self::count`].
    pub async fn find_from<T>(
        &self,
        start: usize,
        limit: Duration,
        awaited: &str,
        mut pick: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let mut changed = self.shared.changed.subscribe();
        let mut seen = start;
        let search = async {
            loop {
                let (found, ended) = self.read(|captured| {
                    let new = captured.lines.get(seen..).unwrap_or_default();
                    seen += new.len();
                    (new.iter().find_map(|line| pick(line)), captured.ended)
                });
                if found.is_some() || ended || changed.changed().await.is_err() {
                    return found;
                }
            }
        };
        let found = within(limit, awaited, search).await?;
        found.with_context(|| format!("the output ended without {awaited}"))
    }

    fn push(&self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let text = String::from_utf8_lossy(line).into_owned();
        let invalid = text.as_bytes() != line;
        self.change(|captured| {
            captured.lines.push(text);
            captured.invalid_utf8 |= invalid;
        });
    }

    fn read<T>(&self, read: impl FnOnce(&Captured) -> T) -> T {
        read(&self.shared.captured.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Captured)) {
        change(&mut self.shared.captured.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.changed.send_replace(());
    }
}
