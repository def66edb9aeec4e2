//! Notes, as the script takes and answers them.

use ::redis::Cmd;
use bytes::Bytes;

use super::scripts::Scripts;
use crate::ledger::{MAX_NOTES, Note};

/// Names and values in turn.
pub(super) type Answer = Vec<Vec<u8>>;

/// Calls the script.
pub(super) fn command(prefix: &str, scripts: &Scripts, put: Option<&Note>) -> Cmd {
    let mut command = ::redis::cmd("EVALSHA");
    command.arg(scripts.notes.get_hash()).arg(1).arg(format!("{prefix}n:{{notes}}"));
    command.arg(MAX_NOTES);
    if let Some(Note { name, value, ttl_ms }) = put {
        command.arg(name).arg(*ttl_ms).arg(&value[..]);
    }
    command
}

/// Reads the script's answer.
pub(super) fn told(answer: Answer) -> Vec<(String, Bytes)> {
    let mut parts = answer.into_iter();
    let mut notes = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        notes.push((String::from_utf8_lossy(&name).into_owned(), value.into()));
    }
    notes
}
