//! Cells of provider keys, as the script takes and answers them.

use ::redis::Cmd;
use sluicegate_protocol::pool::{Cell, Change, KEPT_MS, LONGEST_MS};

use super::scripts::Scripts;
use crate::ledger::{
    MAX_CELLS,
    cells::{Unreadable, field, number, read, text},
};

/// The server's time, then fields and values in turn.
pub(super) type Answer = (u64, Vec<Vec<u8>>);

/// Nothing in it is of use for longer.
const HASH_KEPT_MS: u64 = LONGEST_MS + 2 * KEPT_MS;

/// Calls the script for some changes.
pub(super) fn command(prefix: &str, scripts: &Scripts, changes: &[Change]) -> Cmd {
    let mut command = ::redis::cmd("EVALSHA");
    command.arg(scripts.cells.get_hash()).arg(1).arg(format!("{prefix}p:{{pool}}:cells"));
    command.arg(KEPT_MS).arg(MAX_CELLS).arg(HASH_KEPT_MS);
    for change in changes {
        match change {
            Change::Merge(cell) => {
                command.arg("m").arg(field(&cell.key)).arg(number(cell.state));
                command.arg(u8::from(cell.cleared)).arg(cell.left_ms.min(LONGEST_MS));
                command
                    .arg(cell.ended_ms.min(LONGEST_MS))
                    .arg(cell.age_ms.min(LONGEST_MS))
                    .arg(cell.strikes)
                    .arg(cell.generation);
                command.arg(text(&cell.reason, &cell.by));
            }
            Change::Clear(clear) => {
                command.arg("c").arg(field(&clear.key)).arg(0).arg(1).arg(0).arg(0).arg(0).arg(0);
                command.arg(clear.generation).arg(text("", ""));
            }
        }
    }
    command
}

/// Reads the script's answer. What cannot be read is left out.
pub(super) fn told((now_ms, pairs): Answer, unreadable: &Unreadable) -> Vec<Cell> {
    let (pairs, _) = pairs.as_chunks::<2>();
    let readable = pairs.iter().filter_map(|[field, value]| {
        let (field, value) = (String::from_utf8_lossy(field), String::from_utf8_lossy(value));
        let cell = read(&field, &value);
        if cell.is_none() {
            unreadable.found(&field);
        }
        cell
    });
    readable.map(|(key, record)| record.told(key, now_ms)).collect()
}
