//! Which of several targets that could all serve a request.
//!
//! A choice is made among candidates of one priority. What is not healthy counts less: `percent` scales the
//! weight, from 100 for a healthy target over a suspect one or one that is coming back, to 0 for one that
//! must not be chosen.

mod latency;
mod prefix;
mod weighted;

pub use latency::{FirstEvents, PeakEwma, by_latency};
pub use prefix::{HEAD_BYTES, Prefix, prefix_of};
pub use weighted::Weighted;

/// One target, as it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// What it is known by, the same for all data planes and after restarts.
    pub id: u64,
    pub weight: u32,
    /// How much of its weight counts, in percent; above 100 counts as 100.
    pub percent: u8,
    /// Tokens in flight.
    pub busy_tokens: u64,
    /// Its usual time to the first event for such a request, in milliseconds; `None`: nobody knows.
    pub first_event_ms: Option<f64>,
}

impl Candidate {
    /// What counts of its weight, in hundredths; 0: it must not be chosen.
    fn share(&self) -> u64 {
        u64::from(self.weight) * u64::from(self.percent.min(100))
    }
}

/// How targets are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Policy {
    /// In turns by weight.
    #[default]
    Weighted,
    /// The one with the fewest tokens in flight for its weight.
    LeastBusy,
    /// The quicker of two.
    Latency,
    /// The one that knows the beginning of the prompt.
    Prefix(Prefix),
}

/// What is known of a request when its target is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// Tokens of its prompt, and those that may be generated.
    pub cost: u64,
    /// What [`prefix_of`] gives for its prompt; only [`Policy::Prefix`] looks at it.
    pub prefix: u64,
    /// Anything evenly spread.
    pub random: u64,
}

/// Chooses by one policy, and remembers whose turn it is.
#[derive(Debug, Clone, Default)]
pub struct Chooser {
    policy: Policy,
    turns: Weighted,
}

impl Chooser {
    pub fn new(policy: Policy) -> Self {
        Self { policy, turns: Weighted::default() }
    }

    /// The place of one of `candidates`; `None`: none may be chosen.
    pub fn choose(&mut self, candidates: &[Candidate], pick: &Pick) -> Option<usize> {
        match self.policy {
            Policy::Weighted => self.turns.choose(candidates),
            Policy::LeastBusy => least_busy(candidates, pick.cost, pick.random),
            Policy::Latency => by_latency(candidates, pick.cost, pick.random),
            Policy::Prefix(prefix) => prefix.choose(candidates, pick.prefix),
        }
    }
}

/// The candidate with the fewest tokens in flight for its weight, with a request of `cost` more tokens;
/// among equal ones a random one. `None`: none may be chosen.
pub fn least_busy(candidates: &[Candidate], cost: u64, random: u64) -> Option<usize> {
    let busy = |of: &Candidate| u128::from(of.busy_tokens) + u128::from(cost.max(1));
    let open = || candidates.iter().enumerate().filter(|(_, of)| of.share() > 0);
    // a / x < b / y without division; the products hold: 2^65 times 2^39.
    let order = |one: &Candidate, other: &Candidate| {
        (busy(one) * u128::from(other.share())).cmp(&(busy(other) * u128::from(one.share())))
    };
    let (_, best) = open().min_by(|(_, one), (_, other)| order(one, other))?;
    let equals = || open().filter(|(_, of)| order(of, best).is_eq());
    let chosen = below(random, equals().count() as u64);
    equals().nth(usize::try_from(chosen).unwrap_or(0)).map(|(at, _)| at)
}

/// A number below `count`, evenly from a random one.
fn below(random: u64, count: u64) -> u64 {
    u64::try_from((u128::from(random) * u128::from(count)) >> 64).unwrap_or(0)
}

/// A number made random by another: chance for a second draw, or a hash of two numbers (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the finisher of SplitMix64).
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
