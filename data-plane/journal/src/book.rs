//! What the records of one source come to. Writing and replaying keep the same book.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{
    frame::FrameBuf,
    record::{self, Cursor, LeaseTotals, Progress, Stored, kind},
    retention::Retention,
};

/// Open attempts, leases, acknowledgements and the next number.
#[derive(Debug)]
pub(crate) struct Book {
    /// By number of the request and of the attempt.
    pub(crate) open: HashMap<(u64, u32), Open>,
    pub(crate) leases: HashMap<u64, LeaseTotals>,
    pub(crate) retention: Retention,
    /// Number that the next event gets.
    pub(crate) next_seq: u64,
}

/// An attempt without an end.
#[derive(Debug)]
pub(crate) struct Open {
    /// As it was written.
    pub(crate) started: Box<[u8]>,
    pub(crate) progress: Option<Progress>,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            leases: HashMap::new(),
            retention: Retention::default(),
            next_seq: 1,
        }
    }
}

impl Book {
    /// Enters one record.
    pub(crate) fn enter(&mut self, stored: &Stored<'_>) {
        match *stored {
            // What follows in its frame is all that is known: what came before may be lost.
            Stored::Header(ref header) => {
                self.open.clear();
                self.leases.clear();
                self.retention = Retention::default();
                self.next_seq = self.next_seq.max(header.first_seq);
            }
            Stored::Started { request, attempt, payload } => {
                let open = Open { started: payload.into(), progress: None };
                self.open.insert((request, attempt), open);
            }
            Stored::Progress { request, attempt, progress } => {
                if let Some(open) = self.open.get_mut(&(request, attempt)) {
                    open.progress = Some(progress);
                }
            }
            Stored::Event { seq, request, attempt, .. } => {
                self.open.remove(&(request, attempt));
                self.next_seq = self.next_seq.max(seq.saturating_add(1));
            }
            Stored::Dropped { request, attempt } => {
                self.open.remove(&(request, attempt));
            }
            Stored::LeaseTotals { meter, lease, window, charged, granted } => {
                let totals = self.leases.entry(lease).or_default();
                if totals.meter != meter {
                    totals.meter = Bytes::copy_from_slice(meter);
                }
                totals.lease = lease;
                totals.window = window;
                totals.charged = totals.charged.max(charged);
                totals.granted = granted;
            }
            Stored::LeaseClosed { lease } => {
                self.leases.remove(&lease);
            }
            Stored::Cursor(ref cursor) => {
                self.acknowledge(cursor);
            }
        }
    }

    /// A store has counted up to there. `true`: that is news.
    pub(crate) fn acknowledge(&mut self, cursor: &Cursor) -> bool {
        // What was counted has been written, even if the disk does not know it any more.
        self.next_seq = self.next_seq.max(cursor.through.saturating_add(1));
        self.retention.acknowledge(cursor)
    }

    /// Number of the last event; 0: none yet.
    pub(crate) fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// Writes records that make the same book of an empty one.
    pub(crate) fn checkpoint(&self, frame: &mut FrameBuf) {
        for cursor in self.retention.cursors() {
            frame.push(|out| record::encode_cursor(out, &cursor));
        }
        for totals in self.leases.values() {
            frame.push(|out| record::encode_totals(out, totals));
        }
        for (&(request, attempt), open) in &self.open {
            frame.push(|out| {
                out.extend_from_slice(&open.started);
                kind::STARTED
            });
            if let Some(progress) = open.progress {
                frame.push(|out| record::encode_progress(out, request, attempt, progress));
            }
        }
    }
}
