//! Limits, and the numbers that say how far they are.

use std::{path::PathBuf, time::Duration};

/// Most bytes on disk unless the options say otherwise: 1 GiB.
pub const DEFAULT_LIMIT_BYTES: u64 = 1 << 30;
/// How long appended records may wait for the disk.
const SYNC_EVERY: Duration = Duration::from_millis(20);
/// Segments are ended when they have grown by this much: 8 MiB.
const SEGMENT_BYTES: u64 = 8 << 20;

/// How a journal is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its own folder; made if it is not there.
    pub folder: PathBuf,
    /// Node that writes.
    pub node_id: String,
    /// Random for each start of the process: the source of what is written from now on.
    pub incarnation: u64,
    /// Bytes on disk at which [`Pressure::Full`] is reached.
    pub limit_bytes: u64,
    /// Bytes after which a new segment is begun.
    pub segment_bytes: u64,
    /// Longest wait of an appended record for the disk.
    pub sync_every: Duration,
}

impl Options {
    /// The usual limits.
    pub fn new(folder: impl Into<PathBuf>, node_id: impl Into<String>, incarnation: u64) -> Self {
        Self {
            folder: folder.into(),
            node_id: node_id.into(),
            incarnation,
            limit_bytes: DEFAULT_LIMIT_BYTES,
            segment_bytes: SEGMENT_BYTES,
            sync_every: SYNC_EVERY,
        }
    }
}

/// How full the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// There is room.
    Fine,
    /// At least four fifths of the limit.
    High,
    /// At the limit: no new work should be begun. What runs can still be settled, up to a tenth
    /// over it.
    Full,
}

impl Pressure {
    /// Of this many bytes under this limit.
    pub(crate) fn of(bytes: u64, limit: u64) -> Self {
        if bytes >= limit {
            Self::Full
        } else if bytes >= limit / 5 * 4 {
            Self::High
        } else {
            Self::Fine
        }
    }
}

/// Bytes at which appends fail.
pub(crate) fn hard_limit(limit: u64) -> u64 {
    limit.saturating_add(limit / 10)
}

/// Bytes above which acknowledged events are no longer kept for a store that may fall back.
pub(crate) fn retention_limit(limit: u64) -> u64 {
    limit / 4 * 3
}

/// The journal in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Bytes on disk.
    pub bytes: u64,
    /// Events that are not acknowledged, of all sources.
    pub waiting: u64,
    /// Age of the oldest of them, about. Milliseconds.
    pub oldest_waiting_ms: u64,
    /// Attempts that are running.
    pub open: u64,
    /// Events that could not be written, or could not be read again. They are counted nowhere.
    pub dropped: u64,
    /// Sources on disk, the living one included.
    pub sources: u64,
}
