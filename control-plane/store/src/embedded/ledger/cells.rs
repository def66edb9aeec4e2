//! Cells of provider keys in the file: durable when answered, read once when the file is opened.

use std::sync::{Mutex, PoisonError};

use redb::{Durability, ReadableTable, TableDefinition};
use sluicegate_protocol::pool::{Cell, CellKey, Cells, Change};

use super::super::file::StateFile;
use crate::{
    StoreError,
    ledger::{
        MAX_CELLS,
        cells::{Unreadable, field, read, value},
    },
};

/// Each cell, by the ledger's time.
const CELLS: TableDefinition<'_, &str, &str> = TableDefinition::new("ledger_cells");

/// The cells as they are in the file.
#[derive(Debug)]
pub(super) struct KeptCells(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    cells: Cells,
    /// Still in the file, and gone with the next write.
    gone: Vec<CellKey>,
}

impl KeptCells {
    /// Reads everything, and makes the table.
    pub(super) fn open(file: &StateFile) -> Result<Self, StoreError> {
        let kept = file.write(|mut txn| {
            txn.set_durability(Durability::Immediate)?;
            let (mut kept, unreadable) = (Kept::default(), Unreadable::default());
            for row in txn.open_table(CELLS)?.iter()? {
                let (field, value) = row?;
                match read(field.value(), value.value()) {
                    Some((key, record)) => kept.cells.put(key, record),
                    None => unreadable.found(field.value()),
                }
            }
            txn.commit()?;
            Ok(kept)
        })?;
        Ok(Self(Mutex::new(kept)))
    }

    /// Does the changes and tells every cell. What is not written has not happened.
    pub(super) fn change(
        &self,
        changes: &[Change],
        now_ms: u64,
        file: &StateFile,
    ) -> Result<Vec<Cell>, StoreError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = kept.cells.forget(now_ms);
        kept.gone.extend(over);
        if changes.is_empty() {
            return Ok(kept.cells.told(now_ms));
        }
        let mut next = kept.cells.clone();
        let mut touched: Vec<&CellKey> = Vec::new();
        for change in changes {
            if next.change(change, now_ms) {
                touched.push(match change {
                    Change::Merge(cell) => &cell.key,
                    Change::Clear(clear) => &clear.key,
                });
            }
        }
        if !touched.is_empty() {
            let shrunk = next.shrink(MAX_CELLS);
            file.write(|mut txn| {
                txn.set_durability(Durability::Immediate)?;
                {
                    let mut table = txn.open_table(CELLS)?;
                    for key in kept.gone.iter().chain(&shrunk) {
                        table.remove(field(key).as_str())?;
                    }
                    for key in touched {
                        if let Some(record) = next.get(key) {
                            table.insert(field(key).as_str(), value(record).as_str())?;
                        }
                    }
                }
                txn.commit()?;
                Ok(())
            })?;
            *kept = Kept { cells: next, gone: Vec::new() };
        }
        Ok(kept.cells.told(now_ms))
    }
}
