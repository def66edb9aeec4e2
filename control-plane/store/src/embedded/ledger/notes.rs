//! Notes in memory: a process that ends has nobody left to tell.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

use crate::ledger::{MAX_NOTES, Note};

/// Each note with its end.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<BTreeMap<String, (u64, Bytes)>>);

impl Notes {
    /// Puts one, if one is given, and tells all.
    pub(super) fn exchange(&self, put: Option<&Note>, now_ms: u64) -> Vec<(String, Bytes)> {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.retain(|_, (end_ms, _)| *end_ms > now_ms);
        if let Some(Note { name, value, ttl_ms }) = put {
            notes.insert(name.clone(), (now_ms.saturating_add(*ttl_ms), value.clone()));
        }
        while notes.len() > MAX_NOTES {
            let first = notes.iter().min_by_key(|(name, (end_ms, _))| (*end_ms, name.as_str()));
            let Some(first) = first.map(|(name, _)| name.clone()) else { break };
            notes.remove(&first);
        }
        notes.iter().map(|(name, (_, value))| (name.clone(), value.clone())).collect()
    }
}
