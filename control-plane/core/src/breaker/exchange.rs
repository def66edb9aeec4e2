//! Replicas tell each other what their data planes see, in notes of the ledger.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use prost::Message;
use sluicegate_proto::health::v1 as pb;
use sluicegate_protocol::breaker::Report;
use sluicegate_store::{
    StoreError,
    ledger::{MAX_NOTE_BYTES, Note},
};
use tokio::time::{MissedTickBehavior, interval};

use super::{Breakers, Inner};

/// How often they do.
const EXCHANGE: Duration = Duration::from_secs(1);
/// One that has nothing to tell and does not lead asks once in so many times.
const IDLE: u64 = 5;
/// How long a note is told. Milliseconds.
const NOTE_MS: u64 = 3_000;
/// Names of these notes begin so.
pub(super) const NOTE: &str = "breaker/";

/// A note of another replica.
struct Told<'a> {
    name: &'a str,
    number: u64,
    reports: Vec<Report>,
}

impl Breakers {
    /// Tells other replicas what data planes see here, and reads what they see there, for ever.
    pub(super) async fn exchange_all(&self) {
        let mut ticks = interval(EXCHANGE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut read = HashMap::new();
        for turn in 0_u64.. {
            ticks.tick().await;
            let (note, leads) = {
                let mut inner = self.lock();
                let note = inner.board.note(MAX_NOTE_BYTES, self.now_ms());
                (note, inner.lead.is_some())
            };
            if note.is_none() && !leads && !turn.is_multiple_of(IDLE) {
                continue;
            }
            let note = note.map(|value| Note {
                name: self.note.clone(),
                value: value.into(),
                ttl_ms: NOTE_MS,
            });
            let notes = match self.ledger.notes(note.as_ref()).await {
                Ok(notes) => notes,
                Err(error) => {
                    unwell(&error);
                    continue;
                }
            };
            read.retain(|name: &String, _| notes.iter().any(|(told, _)| told == name));
            for told in self.told(&notes) {
                // One that was read before may be of a replica that is gone.
                let before = read.insert(told.name.to_owned(), told.number).unwrap_or(0);
                if told.number > before {
                    self.learn(&told.reports);
                }
            }
        }
    }

    /// What the data planes of other replicas see, as the ledger has it now.
    pub(super) async fn others(&self) -> Vec<Report> {
        match self.ledger.notes(None).await {
            Ok(notes) => self.told(&notes).flat_map(|told| told.reports).collect(),
            Err(error) => {
                unwell(&error);
                Vec::new()
            }
        }
    }

    fn learn(&self, reports: &[Report]) {
        let now_ms = self.now_ms();
        let version = {
            let mut inner = self.lock();
            let Inner { board, lead, .. } = &mut *inner;
            for report in reports {
                board.block(&report.blocked, now_ms);
                if let Some(lead) = lead {
                    lead.report(report, now_ms);
                }
            }
            board.version
        };
        self.announce(version);
    }

    /// The notes of other replicas.
    fn told<'a>(&self, notes: &'a [(String, Bytes)]) -> impl Iterator<Item = Told<'a>> {
        let others = notes.iter().filter(|(name, _)| name.starts_with(NOTE) && *name != self.note);
        others.filter_map(|(name, value)| {
            let seen = pb::Seen::decode(value.clone()).ok()?;
            let reports = seen.reports.into_iter().filter_map(|wire| Report::try_from(wire).ok());
            Some(Told { name, number: seen.number, reports: reports.collect() })
        })
    }
}

fn unwell(error: &StoreError) {
    match error {
        // Its health says so already, once.
        StoreError::Unavailable { .. } => {
            tracing::debug!(%error, "other replicas hear nothing of targets");
        }
        _ => tracing::warn!(%error, "other replicas hear nothing of targets"),
    }
}
