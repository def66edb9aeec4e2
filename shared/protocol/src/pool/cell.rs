//! A cell as it is told: with durations, so that any clock can take it in.

use sluicegate_proto::pool::v1 as pb;

use super::LONGEST_MS;

/// Longest reason, in characters.
pub const MAX_REASON: usize = 200;
/// Longest name of a credential, of a model, and of who said it, in bytes.
const MAX_NAME: usize = 1_024;

/// Why a key is not used, the graver the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The upstream limits the rate; or an operator lets it rest.
    Resting,
    /// The upstream has no such model for the key.
    ModelMissing,
    /// The key may not use the model, or its account is locked.
    Suspended,
    /// No credit or quota is left.
    Exhausted,
    /// The upstream does not take the key.
    Refused,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Resting, Self::ModelMissing, Self::Suspended, Self::Exhausted, Self::Refused];

    /// What people and metrics call it. A missing model suspends the key, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resting => "resting",
            Self::ModelMissing | Self::Suspended => "suspended",
            Self::Exhausted => "exhausted",
            Self::Refused => "refused",
        }
    }

    /// Ends by itself: the next request need not find out first whether it has.
    pub fn just_ends(self) -> bool {
        self == Self::Resting
    }

    fn to_proto(self) -> pb::CellState {
        match self {
            Self::Resting => pb::CellState::Resting,
            Self::ModelMissing => pb::CellState::ModelMissing,
            Self::Suspended => pb::CellState::Suspended,
            Self::Exhausted => pb::CellState::Exhausted,
            Self::Refused => pb::CellState::Refused,
        }
    }
}

/// Which cell. What upstreams say and what an operator says of the same key stand beside each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    pub credential: String,
    /// Model name that is sent upstream. Empty: all of them.
    pub model: String,
    /// Set by an operator.
    pub operator: bool,
}

impl CellKey {
    /// The cell of what upstreams say of a key with one model; with an empty one, of the key.
    pub fn new(credential: impl Into<String>, model: impl Into<String>) -> Self {
        Self { credential: credential.into(), model: model.into(), operator: false }
    }

    /// Itself, if its names can be kept.
    ///
    /// # Errors
    /// It names no credential, or a name is too long or holds control characters.
    pub fn checked(self) -> Result<Self, InvalidCell> {
        if self.credential.is_empty() {
            return Err(InvalidCell::NoCredential);
        }
        let bad = |name: &str| name.len() > MAX_NAME || name.chars().any(char::is_control);
        if bad(&self.credential) || bad(&self.model) {
            return Err(InvalidCell::BadName);
        }
        Ok(self)
    }
}

/// What is known of one cell at the moment when it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub key: CellKey,
    pub state: State,
    /// Until it ends; 0: it has ended.
    pub left_ms: u64,
    /// How long ago it ended or was cleared; 0 while it lasts.
    pub ended_ms: u64,
    /// How often in a row.
    pub strikes: u32,
    /// Grows with every failure after the one before was over.
    pub generation: u64,
    /// A mark that what was known up to this generation does not hold any more.
    pub cleared: bool,
    /// How long ago it began.
    pub age_ms: u64,
    /// At most [`MAX_REASON`] characters.
    pub reason: String,
    /// Who says it: a data plane, or `operator`.
    pub by: String,
}

/// A success: what was known up to this generation does not hold any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clear {
    pub key: CellKey,
    pub generation: u64,
}

/// What happened to a cell, for whoever keeps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Merge(Cell),
    Clear(Clear),
}

/// A message that is no cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCell {
    #[error("names no credential")]
    NoCredential,
    #[error("holds a name of more than {MAX_NAME} bytes, or with control characters")]
    BadName,
    #[error("is in no known state")]
    NoState,
}

impl Cell {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::Cell {
        pb::Cell {
            credential: self.key.credential.clone(),
            model: self.key.model.clone(),
            operator: self.key.operator,
            state: self.state.to_proto().into(),
            left_ms: self.left_ms,
            ended_ms: self.ended_ms,
            strikes: self.strikes,
            generation: self.generation,
            cleared: self.cleared,
            age_ms: self.age_ms,
            reason: self.reason.clone(),
            by: self.by.clone(),
        }
    }
}

impl TryFrom<pb::Cell> for Cell {
    type Error = InvalidCell;

    /// Reads the wire form. Waits are capped at [`LONGEST_MS`] and texts made fit.
    fn try_from(wire: pb::Cell) -> Result<Self, InvalidCell> {
        let state = match wire.state() {
            pb::CellState::Resting => State::Resting,
            pb::CellState::ModelMissing => State::ModelMissing,
            pb::CellState::Suspended => State::Suspended,
            pb::CellState::Exhausted => State::Exhausted,
            pb::CellState::Refused => State::Refused,
            pb::CellState::Unspecified if wire.cleared => State::Resting,
            pb::CellState::Unspecified => return Err(InvalidCell::NoState),
        };
        let key =
            CellKey { credential: wire.credential, model: wire.model, operator: wire.operator };
        Ok(Self {
            key: key.checked()?,
            state,
            left_ms: wire.left_ms.min(LONGEST_MS),
            ended_ms: wire.ended_ms,
            strikes: wire.strikes,
            generation: wire.generation,
            cleared: wire.cleared,
            age_ms: wire.age_ms,
            reason: short(&wire.reason),
            by: short(&wire.by),
        })
    }
}

impl Clear {
    /// The wire form. What an operator has set is never cleared by a success.
    #[must_use]
    pub fn to_proto(&self) -> pb::Clear {
        pb::Clear {
            credential: self.key.credential.clone(),
            model: self.key.model.clone(),
            generation: self.generation,
        }
    }
}

impl TryFrom<pb::Clear> for Clear {
    type Error = InvalidCell;

    fn try_from(wire: pb::Clear) -> Result<Self, InvalidCell> {
        let key = CellKey::new(wire.credential, wire.model).checked()?;
        Ok(Self { key, generation: wire.generation })
    }
}

/// A text on one line, with at most [`MAX_REASON`] characters.
pub fn short(text: &str) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line: String = line.take(MAX_REASON + 1).collect();
    if line.chars().count() <= MAX_REASON {
        return line;
    }
    line.chars().take(MAX_REASON - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_comes_back() {
        for state in State::ALL {
            let cell = Cell {
                key: CellKey { operator: true, ..CellKey::new("p/k", "m") },
                state,
                left_ms: 5,
                ended_ms: 0,
                strikes: 2,
                generation: 3,
                cleared: false,
                age_ms: 7,
                reason: "why".into(),
                by: "n".into(),
            };
            assert_eq!(Cell::try_from(cell.to_proto()), Ok(cell));
        }
    }

    #[test]
    fn what_is_no_cell_is_refused_and_texts_are_made_fit() {
        let sound = pb::Cell { credential: "k".into(), state: 1, ..pb::Cell::default() };
        let nameless = pb::Cell { credential: String::new(), ..sound.clone() };
        assert_eq!(Cell::try_from(nameless), Err(InvalidCell::NoCredential));
        let stateless = pb::Cell { state: 99, ..sound.clone() };
        assert_eq!(Cell::try_from(stateless), Err(InvalidCell::NoState));
        let long = pb::Cell { model: "m".repeat(MAX_NAME + 1), ..sound.clone() };
        assert_eq!(Cell::try_from(long), Err(InvalidCell::BadName));
        let wordy = pb::Cell { reason: "é\n".repeat(500), left_ms: u64::MAX, ..sound };
        let cell = Cell::try_from(wordy).unwrap();
        assert_eq!((cell.reason.chars().count(), cell.left_ms), (MAX_REASON, LONGEST_MS));
        assert!(cell.reason.starts_with("é é ") && cell.reason.ends_with('…'));
    }
}
