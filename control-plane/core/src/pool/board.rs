//! The state in memory, and since which version each cell is as it is.

use std::collections::HashMap;

use sluicegate_protocol::pool::{Cell, CellKey, Cells, Change};
use sluicegate_store::ledger::MAX_CELLS;

/// Cells with the version of their newest change.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) cells: Cells,
    changed: HashMap<CellKey, u64>,
    /// Grows with each change.
    pub(super) version: u64,
}

impl Board {
    /// Does a change; true: something is known that was not.
    pub(super) fn change(&mut self, change: &Change, now_ms: u64) -> bool {
        let news = self.cells.change(change, now_ms);
        if news {
            self.touch(super::change_key(change));
        }
        news
    }

    /// Takes over what is told again and again.
    pub(super) fn learn(&mut self, cell: &Cell, now_ms: u64) {
        if self.cells.learn(cell, now_ms) {
            self.touch(&cell.key);
        }
    }

    /// What has changed since a version, and the version that this leads to.
    pub(super) fn since(&self, version: u64, now_ms: u64) -> (Vec<Cell>, u64) {
        if version == self.version {
            return (Vec::new(), version);
        }
        let newer = |key: &CellKey| self.changed.get(key).is_some_and(|at| *at > version);
        let cells = self.cells.iter().filter(|(key, _)| newer(key));
        (cells.map(|(key, record)| record.told(key, now_ms)).collect(), self.version)
    }

    /// Drops what has been remembered long enough. Nobody need be told: all do so.
    pub(super) fn tidy(&mut self, now_ms: u64) {
        let gone = self.cells.forget(now_ms);
        let shrunk = self.cells.shrink(MAX_CELLS);
        for key in gone.iter().chain(&shrunk) {
            self.changed.remove(key);
        }
    }

    fn touch(&mut self, key: &CellKey) {
        self.version += 1;
        self.changed.insert(key.clone(), self.version);
    }
}
