//! The table of cells, and whether a key may be used.

use std::collections::HashMap;

use super::{Cell, CellKey, Change, Clear, KEPT_MS, LONGEST_MS, Record, State};

/// Everything that is known of keys.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    /// By credential; few each.
    pub(super) slots: HashMap<String, Vec<Slot>>,
    count: usize,
}

/// One cell, and whether a request finds out at the moment whether it still holds.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) model: String,
    pub(super) operator: bool,
    pub(super) record: Record,
    pub(super) trial_until_ms: u64,
}

impl Slot {
    /// Does it concern this model?
    pub(super) fn covers(&self, model: &str) -> bool {
        self.model.is_empty() || self.model == model
    }

    /// It has ended, and one request must find out whether that is so.
    pub(super) fn wants_trial(&self, now_ms: u64) -> bool {
        let Record { state, cleared, end_ms, .. } = self.record;
        !cleared && !self.operator && !state.just_ends() && end_ms <= now_ms
    }

    fn key(&self, credential: &str) -> CellKey {
        CellKey {
            credential: credential.to_owned(),
            model: self.model.clone(),
            operator: self.operator,
        }
    }
}

/// May a key be used with a model?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Up,
    /// One request may try it.
    Trial,
    Down(Down),
}

/// Why a key may not be used, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Down {
    /// The gravest of what stands in the way.
    pub state: State,
    /// Until the last of it ends.
    pub left_ms: u64,
    /// An operator wants it so, too.
    pub operator: bool,
    /// Nothing but the upstream's limit of the rate stands in the way.
    pub only_limited: bool,
}

impl Cells {
    /// How many there are, with those that have ended and are remembered.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Is nothing known of any key?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Is anything known of this key?
    pub fn knows(&self, credential: &str) -> bool {
        self.slots.contains_key(credential)
    }

    /// Every cell, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (CellKey, &Record)> {
        self.slots.iter().flat_map(|(credential, slots)| {
            slots.iter().map(move |slot| (slot.key(credential), &slot.record))
        })
    }

    /// Every cell as it is told at `now_ms`, in no order.
    pub fn told(&self, now_ms: u64) -> Vec<Cell> {
        self.iter().map(|(key, record)| record.told(key, now_ms)).collect()
    }

    /// The cells of one credential as they are told at `now_ms`.
    pub fn of(&self, credential: &str, now_ms: u64) -> Vec<Cell> {
        let slots = self.slots.get(credential).into_iter().flatten();
        slots.map(|slot| slot.record.told(slot.key(credential), now_ms)).collect()
    }

    /// One cell.
    pub fn get(&self, key: &CellKey) -> Option<&Record> {
        Some(&self.slot(key)?.record)
    }

    /// Takes a record as it is, in place of what there was.
    pub fn put(&mut self, key: CellKey, record: Record) {
        if let Some(slot) = self.slot_mut(&key) {
            slot.record = record;
            return;
        }
        let CellKey { credential, model, operator } = key;
        let slot = Slot { model, operator, record, trial_until_ms: 0 };
        self.slots.entry(credential).or_default().push(slot);
        self.count += 1;
    }

    /// Takes in what is told at `now_ms`; true: something is known that was not.
    pub fn merge(&mut self, cell: &Cell, now_ms: u64) -> bool {
        let told = Record::taken(cell, now_ms);
        let joined = self.joined(&cell.key, told);
        if self.get(&cell.key) == Some(&joined) {
            return false;
        }
        self.put(cell.key.clone(), joined);
        true
    }

    /// As [`Cells::merge`], from somebody who tells the same again and again: an end that moves because
    /// of the time that a message takes is no news.
    pub fn learn(&mut self, cell: &Cell, now_ms: u64) -> bool {
        let joined = self.joined(&cell.key, Record::taken(cell, now_ms));
        if self.get(&cell.key).is_some_and(|known| known.is_about(&joined)) {
            return false;
        }
        self.put(cell.key.clone(), joined);
        true
    }

    fn joined(&self, key: &CellKey, told: Record) -> Record {
        match self.get(key) {
            Some(known) => known.clone().join(told, key.operator),
            None => told,
        }
    }

    /// What the holder of `told` does not know, of what matters: what lasts, and what was cleared.
    pub fn lacking(&self, told: &[Cell], now_ms: u64) -> Vec<Change> {
        let mut theirs = Self::default();
        for cell in told {
            theirs.put(cell.key.clone(), Record::taken(cell, now_ms));
        }
        let missing = |(key, ours): (CellKey, &Record)| {
            let known = theirs.get(&key);
            if ours.cleared {
                let clear = Clear { key, generation: ours.generation };
                let stands = |known: &Record| !known.cleared && known.generation <= ours.generation;
                return known.is_some_and(stands).then_some(Change::Clear(clear));
            }
            let joined = match known {
                Some(known) => known.clone().join(ours.clone(), key.operator),
                None => ours.clone(),
            };
            let lasts = ours.holds(now_ms);
            let news = lasts && !known.is_some_and(|known| known.is_about(&joined));
            news.then(|| Change::Merge(ours.told(key, now_ms)))
        };
        self.iter().filter_map(missing).collect()
    }

    /// Forgets what was known up to a generation; true: there was something.
    pub fn clear(&mut self, clear: &Clear, now_ms: u64) -> bool {
        let Some(slot) = self.slot_mut(&clear.key) else { return false };
        if slot.record.cleared || slot.record.generation > clear.generation {
            return false;
        }
        slot.record = Record::mark(clear.generation, now_ms);
        slot.trial_until_ms = 0;
        true
    }

    /// Does what a change says; true: something is known that was not.
    pub fn change(&mut self, change: &Change, now_ms: u64) -> bool {
        match change {
            Change::Merge(cell) => self.merge(cell, now_ms),
            Change::Clear(clear) => self.clear(clear, now_ms),
        }
    }

    /// What forgets everything that is known of a credential now. `operators`: also what an operator
    /// has said.
    pub fn enabling(&self, credential: &str, operators: bool) -> Vec<Clear> {
        let slots = self.slots.get(credential).into_iter().flatten();
        let known = slots.filter(|slot| !slot.record.cleared && (operators || !slot.operator));
        known
            .map(|slot| Clear { key: slot.key(credential), generation: slot.record.generation })
            .collect()
    }

    /// The cell that lets a key rest because an operator wants it.
    pub fn resting(&self, credential: &str, model: &str, for_ms: u64, reason: String) -> Cell {
        let key = CellKey { operator: true, ..CellKey::new(credential, model) };
        let generation = self.get(&key).map_or(0, |known| known.generation) + 1;
        Cell {
            key,
            state: State::Resting,
            left_ms: for_ms.min(LONGEST_MS),
            strikes: 1,
            generation,
            ended_ms: 0,
            cleared: false,
            age_ms: 0,
            reason,
            by: "operator".to_owned(),
        }
    }

    /// May this key be used with this model?
    pub fn standing(&self, credential: &str, model: &str, now_ms: u64) -> Standing {
        let mut standing = Standing::Up;
        for slot in self.slots.get(credential).into_iter().flatten() {
            if !slot.covers(model) {
                continue;
            }
            let tried = slot.trial_until_ms > now_ms;
            let end_ms = match slot.wants_trial(now_ms) {
                true if tried => slot.trial_until_ms,
                true => {
                    if standing == Standing::Up {
                        standing = Standing::Trial;
                    }
                    continue;
                }
                false if slot.record.holds(now_ms) => slot.record.end_ms,
                false => continue,
            };
            let state = slot.record.state;
            let limited = state == State::Resting && !slot.operator;
            let left_ms = end_ms - now_ms;
            let down = Down { state, left_ms, operator: slot.operator, only_limited: limited };
            standing = Standing::Down(match standing {
                Standing::Down(other) => down.with(other),
                Standing::Up | Standing::Trial => down,
            });
        }
        standing
    }

    /// Drops what has been remembered long enough; gives what went.
    pub fn forget(&mut self, now_ms: u64) -> Vec<CellKey> {
        self.drop_if(|slot| {
            let kept_until_ms = slot.record.end_ms.saturating_add(KEPT_MS);
            kept_until_ms < now_ms && slot.trial_until_ms <= now_ms
        })
    }

    /// Drops those that upstreams made and that end first, until there are at most so many; gives
    /// what went.
    pub fn shrink(&mut self, most: usize) -> Vec<CellKey> {
        let over = self.count.saturating_sub(most);
        if over == 0 {
            return Vec::new();
        }
        let mut ends: Vec<_> = self
            .iter()
            .filter(|(key, _)| !key.operator)
            .map(|(key, record)| (record.end_ms, key))
            .collect();
        ends.sort_unstable();
        let gone: Vec<_> = ends.into_iter().take(over).map(|(_, key)| key).collect();
        for key in &gone {
            self.remove(key);
        }
        gone
    }

    fn remove(&mut self, key: &CellKey) {
        if let Some(slots) = self.slots.get_mut(&key.credential) {
            let before = slots.len();
            slots.retain(|slot| slot.model != key.model || slot.operator != key.operator);
            self.count -= before - slots.len();
            if slots.is_empty() {
                self.slots.remove(&key.credential);
            }
        }
    }

    fn drop_if(&mut self, over: impl Fn(&Slot) -> bool) -> Vec<CellKey> {
        let mut gone = Vec::new();
        self.slots.retain(|credential, slots| {
            slots.retain(|slot| {
                let over = over(slot);
                if over {
                    gone.push(slot.key(credential));
                }
                !over
            });
            !slots.is_empty()
        });
        self.count -= gone.len();
        gone
    }

    fn slot(&self, key: &CellKey) -> Option<&Slot> {
        let slots = self.slots.get(&key.credential)?;
        slots.iter().find(|slot| slot.model == key.model && slot.operator == key.operator)
    }

    fn slot_mut(&mut self, key: &CellKey) -> Option<&mut Slot> {
        let slots = self.slots.get_mut(&key.credential)?;
        slots.iter_mut().find(|slot| slot.model == key.model && slot.operator == key.operator)
    }
}

impl Down {
    /// Both stand in the way: the graver one, until the last of them ends.
    fn with(self, other: Self) -> Self {
        Self {
            state: self.state.max(other.state),
            left_ms: self.left_ms.max(other.left_ms),
            operator: self.operator || other.operator,
            only_limited: self.only_limited && other.only_limited,
        }
    }
}
