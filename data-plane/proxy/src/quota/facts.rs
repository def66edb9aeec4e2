//! What callers and operators are told of limits.

use std::fmt::Write;

use sluicegate_model::resource::limit::Dimension;

/// Why a limit refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is used up for now.
    Exhausted,
    /// The request alone is larger than the limit ever allows.
    TooLarge,
    /// Nobody can be asked, and this data plane's share is used up for now.
    ShareUsedUp,
    /// Nobody can be asked, and the limit lets nothing through then.
    Unavailable,
}

/// A refusal's facts. Amounts are in the dimension's smallest unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitFacts {
    pub why: Why,
    pub limit: String,
    /// Whom it counts, such as `key=alice`.
    pub scope: String,
    pub dimension: Dimension,
    /// Such as `minute`, `calendar month`, `at one time`.
    pub window: String,
    pub capacity: u64,
    pub used: u64,
    pub reserved: u64,
    pub remaining: u64,
    /// What the request asked for.
    pub asked: u64,
    pub reset_ms: u64,
    pub retry_ms: u64,
    /// The tightest limits of the request, this one among them.
    pub standings: Standings,
}

impl LimitFacts {
    /// An amount as people write it: whole, or with the decimals that it has.
    pub fn shown(&self, amount: u64) -> String {
        decimal(amount, self.dimension.quanta())
    }

    /// The sentence for the caller.
    pub fn message(&self) -> String {
        let what = self.dimension.name();
        let capacity = self.shown(self.capacity);
        let window = match self.window.as_str() {
            "at one time" => "at one time".to_owned(),
            window => format!("in a {window}"),
        };
        match self.why {
            Why::Exhausted => format!(
                "limit '{}' for {} is reached: {capacity} {what} {window}, {} used and {} reserved, the request needs {}",
                self.limit,
                self.scope,
                self.shown(self.used),
                self.shown(self.reserved),
                self.shown(self.asked),
            ),
            Why::TooLarge => format!(
                "the request may need {} {what}, more than limit '{}' for {} ever allows: {capacity} {window}; ask for a shorter answer (max_tokens) or send less",
                self.shown(self.asked),
                self.limit,
                self.scope,
            ),
            Why::ShareUsedUp => format!(
                "limit '{}' for {} cannot be asked at the moment, and this data plane's share of its {capacity} {what} {window} is used up; try again",
                self.limit, self.scope,
            ),
            Why::Unavailable => format!(
                "limit '{}' for {} cannot be asked at the moment, and lets nothing through unasked; try again",
                self.limit, self.scope,
            ),
        }
    }
}

/// How close a caller is to one limit. Amounts are in whole requests or tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub limit: u64,
    pub remaining: u64,
    pub reset_ms: u64,
}

/// The tightest limits of a request, for `x-ratelimit-*`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standings {
    pub requests: Option<Standing>,
    pub tokens: Option<Standing>,
}

impl Standings {
    /// Keeps the tighter ones of both.
    pub fn join(&mut self, other: Self) {
        let own = [(Dimension::Requests, other.requests), (Dimension::Tokens, other.tokens)];
        for (dimension, standing) in own {
            standing.into_iter().for_each(|standing| self.note(dimension, standing));
        }
    }

    /// Keeps the tighter one: that with less left.
    pub fn note(&mut self, dimension: Dimension, standing: Standing) {
        let slot = match dimension {
            Dimension::Requests => &mut self.requests,
            Dimension::Tokens => &mut self.tokens,
            Dimension::Units | Dimension::Cost | Dimension::Concurrency => return,
        };
        if slot.is_none_or(|known| standing.remaining < known.remaining) {
            *slot = Some(standing);
        }
    }
}

/// A duration as OpenAI writes it in its headers: `1s`, `6m0s`, `20ms`.
pub fn reset_text(ms: u64) -> String {
    if ms < 1000 {
        return format!("{ms}ms");
    }
    let mut text = String::new();
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    // Writing into a string cannot fail.
    if hours > 0 {
        let _infallible = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _infallible = write!(text, "{minutes}m");
    }
    let seconds = ms % 60_000;
    let _infallible = write!(text, "{}s", decimal(seconds, 1000));
    text
}

/// `amount / quanta` in decimals, exactly.
pub(super) fn decimal(amount: u64, quanta: u64) -> String {
    let (whole, rest) = (amount / quanta, amount % quanta);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = usize::try_from(quanta.ilog10()).unwrap_or(0);
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_times_as_people_write_them() {
        assert_eq!(decimal(1_500_000, 1_000_000), "1.5");
        assert_eq!(decimal(7, 1_000_000_000), "0.000000007");
        assert_eq!(decimal(12, 1), "12");
        assert_eq!(reset_text(20), "20ms");
        assert_eq!(reset_text(1_000), "1s");
        assert_eq!(reset_text(1_250), "1.25s");
        assert_eq!(reset_text(360_000), "6m0s");
        assert_eq!(reset_text(3_661_000), "1h1m1s");
    }

    #[test]
    fn a7_the_tightest_limit_is_shown() {
        let standing = |remaining| Standing { limit: 10, remaining, reset_ms: 1 };
        let mut standings = Standings::default();
        for remaining in [7, 3, 5] {
            standings.note(Dimension::Requests, standing(remaining));
        }
        standings.note(Dimension::Cost, standing(0));
        assert_eq!(standings.requests, Some(standing(3)));
        assert_eq!(standings.tokens, None);
    }
}
