//! Levels from readings over time.

use sluicegate_model::{
    expression::{Expression, Reading},
    resource::{
        Degradation,
        degradation::{Conditions, Level},
    },
};

/// What is known of readings at one moment.
type Read<'a> = &'a dyn Fn(&Reading) -> Option<f64>;

/// The state of one degradation.
#[derive(Debug, Clone)]
pub struct Machine {
    latches: Vec<Latch>,
    manual: Option<Manual>,
    standing: Standing,
}

/// One level that has begun, or not.
#[derive(Debug, Clone)]
struct Latch {
    level: Level,
    conditions: Option<Conditions>,
    begun: bool,
    /// Since when what would change it has held without a break.
    turning_since_ms: Option<u64>,
}

/// A level that an operator has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manual {
    pub level: Level,
    /// When it ends.
    pub until_ms: u64,
    pub comment: String,
}

/// The level that holds, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    pub level: Level,
    pub reason: Reason,
    /// Since when; 0 before anything was observed.
    pub since_ms: u64,
}

/// Why a level holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Reason {
    /// Nothing has happened yet.
    #[default]
    Initial,
    /// Conditions have begun or ended; what they are and what was read.
    Readings { condition: String, values: Vec<(String, f64)> },
    /// An operator has set it.
    ByHand { comment: String },
    /// What an operator had set is over.
    HandEnded,
    /// The degradation itself was changed.
    Redefined,
}

/// A level gave way to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    pub from: Level,
    pub to: Level,
    pub reason: Reason,
}

impl Machine {
    /// Nothing has begun.
    pub fn new(spec: &Degradation) -> Self {
        let latches = spec.steps.iter().map(|step| Latch {
            level: step.action.level(),
            conditions: step.conditions.clone(),
            begun: false,
            turning_since_ms: None,
        });
        Self { latches: latches.collect(), manual: None, standing: Standing::default() }
    }

    /// The degradation was changed. Levels whose conditions are as they were stay as they are.
    pub fn redefine(&mut self, spec: &Degradation, now_ms: u64) -> Option<Transition> {
        let mut next = Self::new(spec);
        for latch in &mut next.latches {
            let same =
                |old: &&Latch| old.level == latch.level && old.conditions == latch.conditions;
            if let Some(old) = self.latches.iter().find(same) {
                latch.begun = old.begun;
                latch.turning_since_ms = old.turning_since_ms;
            }
        }
        self.latches = next.latches;
        self.settle(now_ms, Reason::Redefined)
    }

    /// What an operator has set, or that it is taken back.
    pub fn set_by_hand(&mut self, manual: Option<Manual>, now_ms: u64) -> Option<Transition> {
        self.manual = manual;
        self.settle(now_ms, Reason::HandEnded)
    }

    /// Takes in what is known now. A reading that is not known neither begins nor ends anything.
    pub fn observe(&mut self, now_ms: u64, read: Read<'_>) -> Option<Transition> {
        let before = self.automatic();
        let mut changed = None;
        // Mildest first: of several that change the gravest is told.
        for latch in &mut self.latches {
            if let Some(condition) = latch.observe(now_ms, read) {
                let (condition, values) = (condition.text().to_owned(), values(condition, read));
                changed = Some(Reason::Readings { condition, values });
            }
        }
        // What changed below the highest level is no reason for anything.
        let decided = changed.filter(|_| self.automatic() != before);
        let reason = decided.unwrap_or(Reason::HandEnded);
        self.settle(now_ms, reason)
    }

    /// The level that holds at this time. Without observations it changes only by what an operator set.
    pub fn standing(&mut self, now_ms: u64) -> &Standing {
        self.settle(now_ms, Reason::HandEnded);
        &self.standing
    }

    /// The highest level that conditions have begun.
    pub fn automatic(&self) -> Level {
        let begun = self.latches.iter().filter(|latch| latch.begun);
        begun.map(|latch| latch.level).max().unwrap_or_default()
    }

    /// What an operator has set outranks what `reason` is about.
    fn settle(&mut self, now_ms: u64, reason: Reason) -> Option<Transition> {
        if self.manual.as_ref().is_some_and(|manual| manual.until_ms <= now_ms) {
            self.manual = None;
        }
        let (level, reason) = match &self.manual {
            Some(manual) => (manual.level, Reason::ByHand { comment: manual.comment.clone() }),
            None => (self.automatic(), reason),
        };
        let by_hand = matches!(reason, Reason::ByHand { .. });
        let was_by_hand = matches!(self.standing.reason, Reason::ByHand { .. });
        let from = self.standing.level;
        if level == from && by_hand == was_by_hand && (!by_hand || reason == self.standing.reason) {
            return None;
        }
        self.standing = Standing { level, reason: reason.clone(), since_ms: now_ms };
        (level != from).then_some(Transition { from, to: level, reason })
    }
}

impl Latch {
    /// Tells which condition has begun or ended the level, if one has.
    fn observe(&mut self, now_ms: u64, read: Read<'_>) -> Option<&Expression> {
        let conditions = self.conditions.as_ref()?;
        let (turning, condition) = match (self.begun, &conditions.leave) {
            (false, _) => (conditions.enter.holds(read), &conditions.enter),
            (true, Some(leave)) => (leave.holds(read), leave),
            (true, None) => (conditions.enter.holds(read).map(|holds| !holds), &conditions.enter),
        };
        if turning != Some(true) {
            self.turning_since_ms = None;
            return None;
        }
        let since = *self.turning_since_ms.get_or_insert(now_ms);
        if u128::from(now_ms.saturating_sub(since)) < conditions.held_for.as_millis() {
            return None;
        }
        self.begun = !self.begun;
        self.turning_since_ms = None;
        Some(condition)
    }
}

/// What a condition reads, each once.
fn values(condition: &Expression, read: Read<'_>) -> Vec<(String, f64)> {
    let mut values: Vec<(String, f64)> = Vec::new();
    for reading in condition.readings() {
        let name = reading.to_string();
        if let Some(value) = read(reading).filter(|_| !values.iter().any(|(of, _)| *of == name)) {
            values.push((name, value));
        }
    }
    values
}

#[cfg(test)]
mod tests;
