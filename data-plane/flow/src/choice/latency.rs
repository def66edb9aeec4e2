//! The quicker of two, by what first events took lately.

use super::{Candidate, below, mix};
use crate::size::{SIZES, size_class};

/// After so long a peak counts for 1/e. Milliseconds.
const DECAY_MS: f64 = 10_000.0;

/// An average that follows peaks at once and comes down slowly, so that a target that stalls is left at
/// its first slow answer: Finagle's peak EWMA.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PeakEwma {
    value_ms: f64,
    at_ms: u64,
    known: bool,
}

impl PeakEwma {
    /// Something took so long.
    pub fn observe(&mut self, took_ms: u64, now_ms: u64) {
        let took_ms = took_ms as f64;
        let kept = self.kept(now_ms);
        self.value_ms = if !self.known || took_ms >= self.value_ms {
            took_ms
        } else {
            self.value_ms * kept + took_ms * (1.0 - kept)
        };
        self.at_ms = self.at_ms.max(now_ms);
        self.known = true;
    }

    /// How long it takes, in milliseconds. What is long ago counts less, so that a target that was slow
    /// is tried again. `None` before the first observation.
    pub fn estimate(&self, now_ms: u64) -> Option<f64> {
        self.known.then(|| self.value_ms * self.kept(now_ms))
    }

    fn kept(&self, now_ms: u64) -> f64 {
        (-(now_ms.saturating_sub(self.at_ms) as f64) / DECAY_MS).exp()
    }
}

/// Times to the first event at one target, by size of prompt.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FirstEvents {
    sizes: [PeakEwma; SIZES],
}

impl FirstEvents {
    /// A first event took so long.
    pub fn observe(&mut self, took_ms: u64, prompt_tokens: u64, now_ms: u64) {
        if let Some(size) = self.sizes.get_mut(size_class(prompt_tokens)) {
            size.observe(took_ms, now_ms);
        }
    }

    /// What to expect of a prompt of such a size, in milliseconds: what is known of the nearest size.
    pub fn estimate(&self, prompt_tokens: u64, now_ms: u64) -> Option<f64> {
        let own = size_class(prompt_tokens);
        let known = self.sizes.iter().enumerate().filter(|(_, size)| size.known);
        let (_, nearest) = known.min_by_key(|(size, _)| size.abs_diff(own))?;
        nearest.estimate(now_ms)
    }
}

/// Of two random candidates, drawn by weight, the one where time to the first event times tokens in flight is
/// less. Two choices are almost as good as looking at all (Mitzenmacher, "The power of two choices in
/// randomized load balancing", IEEE Transactions on Parallel and Distributed Systems 12, 2001), and
/// data planes that know the same do not all run to the same target. `None`: none may be chosen.
///
/// A candidate of which nothing is known is tried while it is idle, and then waited for.
pub fn by_latency(candidates: &[Candidate], cost: u64, random: u64) -> Option<usize> {
    let one = draw(candidates, None, random)?;
    let Some(other) = draw(candidates, Some(one), mix(random)) else { return Some(one) };
    let load = |at: usize| candidates.get(at).map_or(f64::INFINITY, |of| load(of, cost));
    Some(if load(other) < load(one) { other } else { one })
}

fn load(candidate: &Candidate, cost: u64) -> f64 {
    let tokens = candidate.busy_tokens as f64 + cost.max(1) as f64;
    match candidate.first_event_ms.filter(|ms| !ms.is_nan()) {
        Some(took_ms) => took_ms.max(1.0) * tokens,
        None if candidate.busy_tokens == 0 => 0.0,
        None => f64::MAX,
    }
}

/// One by weight, but not this one.
fn draw(candidates: &[Candidate], but: Option<usize>, random: u64) -> Option<usize> {
    let open = || candidates.iter().enumerate().filter(|(at, _)| Some(*at) != but);
    let total: u64 = open().map(|(_, of)| of.share()).sum();
    let mut rest = below(random, total);
    open().find_map(|(at, of)| {
        let share = of.share();
        let here = rest < share;
        rest = rest.saturating_sub(share);
        here.then_some(at)
    })
}
