//! Conditions over readings: `max(vllm:gpu_cache_usage_perc) > 0.85 && breaker_open > 0`.
//!
//! Operators are those of C; metrics are selected as in PromQL, by name and labels, within an
//! aggregate that makes one number of many. A reading that is missing is unknown, and so is what
//! depends on it alone: `unknown || true` is true (Kleene's strong logic). The length of a text and
//! the depth of its brackets are bounded, and with them what it costs.

mod lexer;
mod overlap;
mod parser;

use std::fmt;

pub use overlap::{Together, possible, together};

/// Longest text, in bytes.
pub const MAX_TEXT: usize = 1_024;

/// A condition, read and found to make sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: String,
    test: Test,
}

/// Something that is true, false or unknown.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    /// Each of them.
    All(Vec<Test>),
    /// Any of them.
    Any(Vec<Test>),
    Not(Box<Test>),
    Compare(Number, Comparison, Number),
}

/// Something that is a number or unknown.
#[derive(Debug, Clone, PartialEq)]
enum Number {
    Constant(f64),
    Reading(Reading),
    Negative(Box<Number>),
    Arithmetic(Box<Number>, Operator, Box<Number>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

/// What is read of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reading {
    /// Share of targets that are left alone, from 0 to 1.
    BreakerOpen,
    /// Tool calls that timed out of late.
    ToolTimeouts,
    /// Of what servers say of themselves.
    Metric { aggregate: Aggregate, selector: MetricSelector },
}

/// How one number is made of many samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    Max,
    Min,
    Sum,
    Avg,
    /// How many there are; of none it is unknown, as all of them are.
    Count,
}

/// Which samples.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetricSelector {
    pub name: String,
    pub labels: Vec<LabelMatch>,
}

/// What a label must be, or must not be. A label that is absent is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelMatch {
    pub label: String,
    pub equal: bool,
    pub value: String,
}

/// Why a text is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {what}")]
pub struct BadExpression {
    /// From 1.
    pub at: usize,
    pub what: String,
    pub hint: String,
}

impl Expression {
    /// Reads a condition.
    ///
    /// # Errors
    /// Where it goes wrong and what would do.
    pub fn parse(text: &str) -> Result<Self, BadExpression> {
        Ok(Self { text: text.to_owned(), test: parser::parse(text)? })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Does it hold, as far as that is known? `read` gives what is known of a reading; what is not
    /// finite is not known.
    pub fn holds(&self, read: &dyn Fn(&Reading) -> Option<f64>) -> Option<bool> {
        self.test.holds(read)
    }

    /// Everything that it reads, once for each place.
    pub fn readings(&self) -> Vec<&Reading> {
        let mut found = Vec::new();
        self.test.visit(&mut |reading| found.push(reading));
        found
    }

    /// Does it read what servers say of themselves?
    pub fn reads_metrics(&self) -> bool {
        self.readings().iter().any(|reading| matches!(reading, Reading::Metric { .. }))
    }
}

impl Test {
    fn holds(&self, read: &dyn Fn(&Reading) -> Option<f64>) -> Option<bool> {
        match self {
            Self::All(parts) => decided(parts, false, read),
            Self::Any(parts) => decided(parts, true, read),
            Self::Not(inner) => inner.holds(read).map(|holds| !holds),
            Self::Compare(left, comparison, right) => {
                Some(comparison.of(left.value(read)?, right.value(read)?))
            }
        }
    }

    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Reading)) {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.visit(each)),
            Self::Not(inner) => inner.visit(each),
            Self::Compare(left, _, right) => {
                left.visit(each);
                right.visit(each);
            }
        }
    }
}

/// One part that is `deciding` decides; else one that is unknown leaves it unknown.
fn decided(parts: &[Test], deciding: bool, read: &dyn Fn(&Reading) -> Option<f64>) -> Option<bool> {
    let mut unknown = false;
    for part in parts {
        match part.holds(read) {
            Some(holds) if holds == deciding => return Some(deciding),
            Some(_) => {}
            None => unknown = true,
        }
    }
    (!unknown).then_some(!deciding)
}

impl Number {
    fn value(&self, read: &dyn Fn(&Reading) -> Option<f64>) -> Option<f64> {
        let value = match self {
            Self::Constant(value) => *value,
            Self::Reading(reading) => read(reading)?,
            Self::Negative(inner) => -inner.value(read)?,
            Self::Arithmetic(left, operator, right) => {
                let (left, right) = (left.value(read)?, right.value(read)?);
                match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over => left / right,
                }
            }
        };
        value.is_finite().then_some(value)
    }

    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Reading)) {
        match self {
            Self::Constant(_) => {}
            Self::Reading(reading) => each(reading),
            Self::Negative(inner) => inner.visit(each),
            Self::Arithmetic(left, _, right) => {
                left.visit(each);
                right.visit(each);
            }
        }
    }
}

impl Comparison {
    #[expect(clippy::float_cmp, reason = "equal is what the writer asks for")]
    fn of(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::More => left > right,
            Self::AtLeast => left >= right,
            Self::Equal => left == right,
            Self::Unequal => left != right,
        }
    }
}

impl Aggregate {
    const ALL: [Self; 5] = [Self::Max, Self::Min, Self::Sum, Self::Avg, Self::Count];

    /// As conditions name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Min => "min",
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Count => "count",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|aggregate| aggregate.name() == name)
    }

    /// One number of many; `None` of none.
    pub fn of(self, samples: impl IntoIterator<Item = f64>) -> Option<f64> {
        let mut samples = samples.into_iter();
        let first = samples.next()?;
        let (mut count, mut sum, mut max, mut min) = (1.0, first, first, first);
        for sample in samples {
            count += 1.0;
            sum += sample;
            max = f64::max(max, sample);
            min = f64::min(min, sample);
        }
        Some(match self {
            Self::Max => max,
            Self::Min => min,
            Self::Sum => sum,
            Self::Avg => sum / count,
            Self::Count => count,
        })
    }
}

impl MetricSelector {
    /// Is a sample with these labels meant?
    pub fn takes<'a>(&self, name: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let fits = |one: &LabelMatch| {
            (label(&one.label).unwrap_or_default() == one.value.as_str()) == one.equal
        };
        self.name == name && self.labels.iter().all(fits)
    }
}

impl fmt::Display for MetricSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (index, one) in self.labels.iter().enumerate() {
            let (before, sign) =
                (if index == 0 { "{" } else { "," }, if one.equal { "" } else { "!" });
            write!(f, "{before}{}{sign}={:?}", one.label, one.value)?;
        }
        f.write_str(if self.labels.is_empty() { "" } else { "}" })
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BreakerOpen => f.write_str("breaker_open"),
            Self::ToolTimeouts => f.write_str("tool_timeouts"),
            Self::Metric { aggregate, selector } => write!(f, "{}({selector})", aggregate.name()),
        }
    }
}

#[cfg(test)]
mod tests;
