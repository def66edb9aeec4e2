//! What a request may do with a key, and what its end says of the key.

use super::{Cell, CellKey, Cells, Clear, Down, LONGEST_MS, Record, Standing, State, Waits, short};

/// A trial that nobody ends is over by itself. Milliseconds.
const TRIAL_MS: u64 = 60_000;

/// Leave to send one request with a key, and what was known of the key then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    pub credential: String,
    /// Model name that is sent upstream.
    pub model: String,
    /// Nobody else tries the key meanwhile.
    pub trial: bool,
    /// Generations of the key's own cell and of its cell with the model; 0: there was none.
    seen: [u64; 2],
}

/// What an upstream has said of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub state: State,
    /// How long it wants to be left alone, if it says so. Milliseconds.
    pub told_ms: Option<u64>,
    /// Redacted.
    pub reason: String,
    /// Who saw it.
    pub by: String,
}

/// What became of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// For the rest of the fleet.
    pub cell: Cell,
    /// The key was up before.
    pub began: bool,
}

impl Cells {
    /// Asks to use a key. What was exhausted, refused or suspended and has ended lets one request
    /// through at a time, until one goes well.
    ///
    /// # Errors
    /// Why the key may not be used.
    pub fn enter(&mut self, credential: &str, model: &str, now_ms: u64) -> Result<Permit, Down> {
        let trial = match self.standing(credential, model, now_ms) {
            Standing::Down(down) => return Err(down),
            Standing::Trial => true,
            Standing::Up => false,
        };
        if trial {
            for slot in self.slots.get_mut(credential).into_iter().flatten() {
                if slot.covers(model) && slot.wants_trial(now_ms) {
                    slot.trial_until_ms = now_ms + TRIAL_MS;
                }
            }
        }
        Ok(Permit { trial, ..self.permit(credential, model) })
    }

    /// Leave to use a key however it stands.
    pub fn permit(&self, credential: &str, model: &str) -> Permit {
        let mut seen = [0, 0];
        for slot in self.slots.get(credential).into_iter().flatten() {
            match &mut seen {
                [key, _] if !slot.operator && slot.model.is_empty() => {
                    *key = slot.record.generation
                }
                [_, pair] if !slot.operator && slot.model == model => {
                    *pair = slot.record.generation
                }
                _ => {}
            }
        }
        let (credential, model) = (credential.to_owned(), model.to_owned());
        Permit { credential, model, trial: false, seen }
    }

    /// The request has neither gone well nor shown anything of the key.
    pub fn released(&mut self, permit: &Permit) {
        if permit.trial {
            for slot in self.slots.get_mut(&permit.credential).into_iter().flatten() {
                if slot.covers(&permit.model) {
                    slot.trial_until_ms = 0;
                }
            }
        }
    }

    /// The request went well: what was known of the key when it began does not hold any more. Gives
    /// what is to be told to the fleet.
    pub fn succeeded(&mut self, permit: &Permit, now_ms: u64) -> Vec<Clear> {
        self.released(permit);
        let [key, pair] = permit.seen;
        let slots = self.slots.get(&permit.credential).into_iter().flatten();
        let known = slots.filter(|slot| !slot.operator && slot.covers(&permit.model));
        let clears: Vec<_> = known
            .map(|slot| Clear {
                key: CellKey::new(&permit.credential, &slot.model),
                generation: if slot.model.is_empty() { key } else { pair },
            })
            .collect();
        clears.into_iter().filter(|clear| self.clear(clear, now_ms)).collect()
    }

    /// An upstream has said something of a cell. Failures within one rest are one strike: they were
    /// sent before it was known. `None`: it was known.
    pub fn failed(
        &mut self,
        key: &CellKey,
        failure: &Failure,
        waits: &Waits,
        now_ms: u64,
    ) -> Option<Failed> {
        let known = self.get(key);
        let began = known.is_none_or(|known| !known.holds(now_ms));
        let (generation, strikes) = match known {
            None => (1, 1),
            Some(known) if !began => (known.generation, known.strikes),
            Some(known) => {
                let again = !known.cleared && known.state == failure.state;
                let strikes = if again { known.strikes.saturating_add(1) } else { 1 };
                (known.generation.saturating_add(1), strikes)
            }
        };
        let wait_ms = failure.told_ms.unwrap_or_else(|| waits.after(failure.state, strikes));
        let record = Record {
            state: failure.state,
            end_ms: now_ms.saturating_add(wait_ms.min(LONGEST_MS)),
            since_ms: now_ms,
            strikes,
            generation,
            cleared: false,
            reason: short(&failure.reason),
            by: short(&failure.by),
        };
        let cell = record.told(key.clone(), now_ms);
        self.merge(&cell, now_ms).then(|| {
            let cell = self.get(key).map_or(cell, |known| known.told(key.clone(), now_ms));
            Failed { cell, began }
        })
    }
}
