//! Whether two conditions can hold at the same time: what begins and ends at once would flap.
//!
//! Conditions become alternatives of comparisons between a reading and a number. Of each
//! alternative it is seen whether some value of every reading fits. Where readings are compared with
//! each other, or are different views of the same metric, nothing is claimed.

use super::{Comparison, Expression, Number, Reading, Test};

/// More alternatives are not looked at.
const MAX_ALTERNATIVES: usize = 256;

/// Whether two conditions can hold together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Together {
    Never,
    /// With these values.
    With(String),
    Unclear,
}

/// One comparison of an alternative.
#[derive(Debug, Clone)]
enum Atom<'a> {
    Known(&'a Reading, Comparison, f64),
    Constant(bool),
    Unclear,
}

type Alternative<'a> = Vec<Atom<'a>>;

/// Can both hold at the same time?
pub fn together(one: &Expression, other: &Expression) -> Together {
    let both = alternatives(&one.test, false)
        .zip(alternatives(&other.test, false))
        .and_then(|(one, other)| product(&one, &other));
    judged(both)
}

/// Can it hold at all? True where that is unclear.
pub fn possible(one: &Expression) -> bool {
    judged(alternatives(&one.test, false)) != Together::Never
}

fn judged(alternatives: Option<Vec<Alternative<'_>>>) -> Together {
    let Some(alternatives) = alternatives else { return Together::Unclear };
    let mut found = Together::Never;
    for alternative in &alternatives {
        match fitting(alternative) {
            Together::Never => {}
            Together::Unclear => found = Together::Unclear,
            with @ Together::With(_) => return with,
        }
    }
    found
}

/// The alternatives of a condition, or of its negation; `None`: too many.
fn alternatives(test: &Test, negated: bool) -> Option<Vec<Alternative<'_>>> {
    match (test, negated) {
        (Test::Not(inner), _) => alternatives(inner, !negated),
        (Test::Any(parts), false) | (Test::All(parts), true) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(alternatives(part, negated)?);
            }
            (all.len() <= MAX_ALTERNATIVES).then_some(all)
        }
        (Test::All(parts), false) | (Test::Any(parts), true) => {
            let mut all = vec![Vec::new()];
            for part in parts {
                all = product(&all, &alternatives(part, negated)?)?;
            }
            Some(all)
        }
        (Test::Compare(left, comparison, right), _) => {
            let comparison = if negated { comparison.negated() } else { *comparison };
            Some(vec![vec![atom(left, comparison, right)]])
        }
    }
}

fn product<'a>(one: &[Alternative<'a>], other: &[Alternative<'a>]) -> Option<Vec<Alternative<'a>>> {
    if one.len().saturating_mul(other.len()) > MAX_ALTERNATIVES {
        return None;
    }
    let pairs = one.iter().flat_map(|left| other.iter().map(move |right| (left, right)));
    Some(pairs.map(|(left, right)| left.iter().chain(right).cloned().collect()).collect())
}

fn atom<'a>(left: &'a Number, comparison: Comparison, right: &'a Number) -> Atom<'a> {
    let constant = |number: &Number| number.value(&|_| None);
    match (left, right) {
        (Number::Reading(reading), number) if constant(number).is_some() => {
            Atom::Known(reading, comparison, constant(number).unwrap_or_default())
        }
        (number, Number::Reading(reading)) if constant(number).is_some() => {
            Atom::Known(reading, comparison.turned(), constant(number).unwrap_or_default())
        }
        _ => match (constant(left), constant(right)) {
            (Some(left), Some(right)) => Atom::Constant(comparison.of(left, right)),
            _ => Atom::Unclear,
        },
    }
}

/// Is there a value for every reading?
fn fitting(alternative: &[Atom<'_>]) -> Together {
    let mut ranges: Vec<(&Reading, Range)> = Vec::new();
    let mut unclear = false;
    for atom in alternative {
        match atom {
            Atom::Constant(true) => {}
            Atom::Constant(false) => return Together::Never,
            Atom::Unclear => unclear = true,
            Atom::Known(reading, comparison, bound) => {
                match ranges.iter_mut().find(|(known, _)| known == reading) {
                    Some((_, range)) => range.narrow(*comparison, *bound),
                    None => {
                        let mut range = Range::of(reading);
                        range.narrow(*comparison, *bound);
                        ranges.push((*reading, range));
                    }
                }
            }
        }
    }
    let mut values = Vec::with_capacity(ranges.len());
    for (reading, range) in &ranges {
        match range.value() {
            Some(value) => values.push(format!("{reading} = {value}")),
            None => return Together::Never,
        }
    }
    let same_metric = ranges.iter().enumerate().any(|(index, (one, _))| {
        ranges
            .iter()
            .skip(index + 1)
            .any(|(other, _)| metric(one).is_some() && metric(one) == metric(other))
    });
    if unclear || same_metric { Together::Unclear } else { Together::With(values.join(", ")) }
}

fn metric(reading: &Reading) -> Option<&str> {
    match reading {
        Reading::Metric { selector, .. } => Some(&selector.name),
        Reading::BreakerOpen | Reading::ToolTimeouts => None,
    }
}

/// Values that a reading may have.
#[derive(Debug)]
struct Range {
    low: f64,
    low_open: bool,
    high: f64,
    high_open: bool,
    not: Vec<f64>,
    /// Only whole numbers.
    whole: bool,
}

impl Range {
    fn of(reading: &Reading) -> Self {
        let (low, high) = match reading {
            Reading::BreakerOpen => (0.0, 1.0),
            Reading::ToolTimeouts => (0.0, f64::MAX),
            Reading::Metric { .. } => (f64::MIN, f64::MAX),
        };
        let whole = *reading == Reading::ToolTimeouts;
        Self { low, low_open: false, high, high_open: false, not: Vec::new(), whole }
    }

    fn narrow(&mut self, comparison: Comparison, bound: f64) {
        match comparison {
            Comparison::More => self.raise(bound, true),
            Comparison::AtLeast => self.raise(bound, false),
            Comparison::Less => self.lower(bound, true),
            Comparison::AtMost => self.lower(bound, false),
            Comparison::Equal => {
                self.raise(bound, false);
                self.lower(bound, false);
            }
            Comparison::Unequal => self.not.push(bound),
        }
    }

    fn raise(&mut self, bound: f64, open: bool) {
        let (bound, open) = match (self.whole, open) {
            (true, true) => (bound.floor() + 1.0, false),
            (true, false) => (bound.ceil(), false),
            (false, open) => (bound, open),
        };
        if bound > self.low || (open && bound >= self.low) {
            (self.low, self.low_open) = (bound, open);
        }
    }

    fn lower(&mut self, bound: f64, open: bool) {
        let (bound, open) = match (self.whole, open) {
            (true, true) => (bound.ceil() - 1.0, false),
            (true, false) => (bound.floor(), false),
            (false, open) => (bound, open),
        };
        if bound < self.high || (open && bound <= self.high) {
            (self.high, self.high_open) = (bound, open);
        }
    }

    /// One of the values.
    fn value(&self) -> Option<f64> {
        let middle = self.low / 2.0 + self.high / 2.0;
        let candidates = [self.low, self.high, self.low + 1.0, self.high - 1.0, middle];
        let more = (1..=self.not.len() + 1).filter_map(|step| {
            let step = f64::from(u16::try_from(step).ok()?);
            if self.whole {
                Some(self.low + step)
            } else {
                Some(self.low + (self.high - self.low) / (step + 2.0))
            }
        });
        candidates.into_iter().chain(more).find(|value| self.takes(*value))
    }

    fn takes(&self, value: f64) -> bool {
        let above = if self.low_open { value > self.low } else { value >= self.low };
        let below = if self.high_open { value < self.high } else { value <= self.high };
        let whole = !self.whole || value.fract() == 0.0;
        above && below && whole && value.is_finite() && !self.not.contains(&value)
    }
}

impl Comparison {
    fn negated(self) -> Self {
        match self {
            Self::Less => Self::AtLeast,
            Self::AtMost => Self::More,
            Self::More => Self::AtMost,
            Self::AtLeast => Self::Less,
            Self::Equal => Self::Unequal,
            Self::Unequal => Self::Equal,
        }
    }

    /// With its sides exchanged.
    fn turned(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::AtMost => Self::AtLeast,
            Self::More => Self::Less,
            Self::AtLeast => Self::AtMost,
            same @ (Self::Equal | Self::Unequal) => same,
        }
    }
}
