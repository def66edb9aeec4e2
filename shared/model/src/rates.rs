//! What tokens weigh and what they cost.

use sluicegate_proto::resource::v1 as pb;

use crate::usage::Usage;

/// A number for each class of tokens, in thousandths of the smallest unit that sums are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenRates {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub reasoning: u64,
}

impl TokenRates {
    /// Units: sums are in millionths of a unit. `weight` multiplies all of them.
    #[must_use]
    pub fn units(spec: Option<&pb::UnitWeights>, weight: f64) -> Self {
        Self::new(spec, 1.0, weight * 1e9)
    }

    /// Prices in nano-dollars a token: sums are in nano-dollars.
    #[must_use]
    pub fn prices(spec: Option<&pb::UnitWeights>) -> Self {
        Self::new(spec, 0.0, 1e3)
    }

    fn new(spec: Option<&pb::UnitWeights>, default: f64, scale: f64) -> Self {
        let spec = spec.copied().unwrap_or_default();
        let input = spec.input.unwrap_or(default);
        let output = spec.output.unwrap_or(default);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rules bound the numbers from below and casts saturate above"
        )]
        let scaled = |number: f64| (number * scale).round() as u64;
        Self {
            input: scaled(input),
            output: scaled(output),
            cached: scaled(spec.cached.unwrap_or(input)),
            reasoning: scaled(spec.reasoning.unwrap_or(output)),
        }
    }

    /// Does every token count for nothing?
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// What an answer comes to, rounded up; at most `u64::MAX`.
    pub fn total(self, usage: Usage) -> u64 {
        let cached = usage.cached.min(usage.input);
        let reasoning = usage.reasoning.min(usage.output);
        let classes = [
            (usage.input - cached, self.input),
            (cached, self.cached),
            (usage.output - reasoning, self.output),
            (reasoning, self.reasoning),
        ];
        let thousandths: u128 =
            classes.iter().map(|(tokens, rate)| u128::from(*tokens) * u128::from(*rate)).sum();
        u64::try_from(thousandths.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// The most that so many tokens can come to, whatever their classes.
    pub fn most(self, input: u64, output: u64) -> u64 {
        let dearest = Self {
            input: self.input.max(self.cached),
            output: self.output.max(self.reasoning),
            ..Self::default()
        };
        dearest.total(Usage { input, output, ..Usage::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_cost_by_class() {
        let spec = pb::UnitWeights {
            input: Some(2500.0),
            output: Some(10_000.0),
            cached: Some(1250.0),
            reasoning: None,
        };
        let prices = TokenRates::prices(Some(&spec));
        let usage = Usage { input: 1000, output: 100, cached: 400, reasoning: 50 };
        assert_eq!(prices.total(usage), 600 * 2500 + 400 * 1250 + 100 * 10_000);
        assert_eq!(prices.most(1000, 100), 1000 * 2500 + 100 * 10_000);
        assert_eq!(TokenRates::prices(None).total(usage), 0);
    }

    #[test]
    fn b3_units_by_weight() {
        let spec =
            pb::UnitWeights { input: Some(0.001), output: Some(0.003), ..Default::default() };
        let units = TokenRates::units(Some(&spec), 2.0);
        let usage = Usage { input: 1_000_000, output: 1, ..Usage::default() };
        assert_eq!(units.total(usage), 2_000_000_000 + 6_000);
        let huge = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(units.total(huge), u64::MAX, "saturates");
    }

    #[test]
    fn more_cached_than_input_is_all_of_it() {
        let rates = TokenRates { input: 1000, cached: 1, output: 1000, reasoning: 1 };
        let usage = Usage { input: 5, output: 5, cached: 9, reasoning: 9 };
        assert_eq!(rates.total(usage), 1);
    }
}
