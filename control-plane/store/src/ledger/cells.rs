//! How cells of provider keys are written down, the same in every ledger.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use sluicegate_protocol::pool::{CellKey, Record, State};

/// Between the parts of a field. No name has it: names have no control characters.
pub(crate) const SEPARATOR: char = '\u{1f}';
/// Values that cannot be read are told once, and so many of them at most.
const MOST_TOLD: usize = 100;

/// The states in the order of their numbers.
const STATES: [State; 5] = State::ALL;

/// Which cell, as a text.
pub(crate) fn field(key: &CellKey) -> String {
    let who = if key.operator { "o" } else { "u" };
    format!("{who}{SEPARATOR}{}{SEPARATOR}{}", key.credential, key.model)
}

/// The number of a state.
pub(crate) fn number(state: State) -> usize {
    STATES.iter().position(|known| *known == state).unwrap_or_default()
}

/// What is written after the numbers: a reason and who says it. Neither has control characters.
pub(crate) fn text(reason: &str, by: &str) -> String {
    format!("{reason}\n{by}")
}

/// A record as `state:cleared:end:since:strikes:generation:reason`, and on a line of its own who says
/// it.
pub(crate) fn value(record: &Record) -> String {
    let Record { state, end_ms, since_ms, strikes, generation, cleared, reason, by } = record;
    let (state, cleared, text) = (number(*state), u8::from(*cleared), text(reason, by));
    format!("{state}:{cleared}:{end_ms}:{since_ms}:{strikes}:{generation}:{text}")
}

/// Reads what [`field`] and [`value`] wrote; `None` for anything else.
pub(crate) fn read(field: &str, value: &str) -> Option<(CellKey, Record)> {
    let mut names = field.splitn(3, SEPARATOR);
    let operator = match names.next()? {
        "o" => true,
        "u" => false,
        _ => return None,
    };
    let key = CellKey { operator, ..CellKey::new(names.next()?, names.next()?) };
    let mut parts = value.splitn(7, ':');
    let mut part = || parts.next();
    let record = Record {
        state: *STATES.get(part()?.parse::<usize>().ok()?)?,
        cleared: part()? == "1",
        end_ms: part()?.parse().ok()?,
        since_ms: part()?.parse().ok()?,
        strikes: part()?.parse().ok()?,
        generation: part()?.parse().ok()?,
        reason: String::new(),
        by: String::new(),
    };
    let (reason, by) = part()?.split_once('\n')?;
    let record = Record { reason: reason.to_owned(), by: by.to_owned(), ..record };
    Some((key.checked().ok()?, record))
}

/// Which values could not be read: each is told once.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(Mutex<HashSet<String>>);

impl Unreadable {
    /// There is one.
    pub(crate) fn found(&self, field: &str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD && told.insert(field.to_owned()) {
            let cell: String = field.chars().filter(|c| !c.is_control()).take(200).collect();
            tracing::warn!(cell, "the state of a provider key cannot be read and is left out");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_nothing_else() {
        for (operator, model, cleared) in [(false, "", true), (true, "m:1/x", false)] {
            let key = CellKey { operator, ..CellKey::new("p/k", model) };
            let record = Record {
                state: State::Refused,
                end_ms: 1_790_000_000_000,
                since_ms: 3,
                strikes: 4,
                generation: 5,
                cleared,
                reason: "no: such key".into(),
                by: "node".into(),
            };
            let (field, value) = (field(&key), value(&record));
            assert_eq!(read(&field, &value), Some((key, record)));
            for length in 0..value.len() - 4 {
                assert_eq!(read(&field, value.get(..length).unwrap()), None, "{length}");
            }
            assert_eq!(read("x", &value), None);
        }
    }
}
