//! At which rate requests leave a target, and so how long a newcomer waits.

use std::collections::VecDeque;

/// For how long what was measured counts. Milliseconds.
const MEMORY_MS: f64 = 10_000.0;
/// So long must have been measured to be believed. Milliseconds.
const ENOUGH_MS: f64 = 500.0;
/// What one request weighs in the mean time that requests stay.
const WEIGHT: f64 = 1.0 / 16.0;
/// Bounds of what is told to callers: nobody comes back at once, nor after hours. Milliseconds.
const SHORTEST_MS: f64 = 50.0;
const LONGEST_MS: f64 = 600_000.0;
/// What is told before anything has left. Milliseconds.
const UNKNOWN_MS: u64 = 1_000;
/// Of so many inside it is known since when; of more the rate alone tells enough.
const MOST_INSIDE: usize = 4_096;

/// What is before a newcomer, itself included; or what is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Crowd {
    pub(crate) requests: f64,
    pub(crate) tokens: f64,
}

/// Measures while the target is full: what leaves it then is what it can do. Until that was long
/// enough it goes by what is in flight and how long requests stay, which is the same by Little's law ("A
/// proof for the queuing formula L = λW", Operations Research 9, 1961). Where requests stay about equally
/// long, none leaves before its time has come, whatever the rate says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leaving {
    left: Crowd,
    /// In which time it left. Milliseconds.
    span_ms: f64,
    /// Since when the target is full, or when the last request left it full.
    full_since_ms: Option<u64>,
    /// How long requests stay; the same weighted by their tokens.
    stay_ms: Option<f64>,
    token_stay_ms: f64,
    mean_tokens: f64,
    /// Since when those are inside that came first, oldest first.
    inside_since_ms: VecDeque<u64>,
}

impl Leaving {
    /// Somebody could not go at once.
    pub(crate) fn full(&mut self, now_ms: u64) {
        self.full_since_ms.get_or_insert(now_ms);
    }

    /// A request has gone in.
    pub(crate) fn entered(&mut self, now_ms: u64) {
        if self.inside_since_ms.len() < MOST_INSIDE {
            self.inside_since_ms.push_back(now_ms);
        }
    }

    /// A request left that counted for so many tokens and had stayed so long; `full`: others wait.
    pub(crate) fn left(&mut self, tokens: u64, stayed_ms: u64, full: bool, now_ms: u64) {
        if let Some(since_ms) = self.full_since_ms {
            let passed_ms = now_ms.saturating_sub(since_ms) as f64;
            let kept = (-passed_ms / MEMORY_MS).exp();
            self.left.requests = self.left.requests * kept + 1.0;
            self.left.tokens = self.left.tokens * kept + tokens as f64;
            self.span_ms = self.span_ms * kept + passed_ms;
        }
        self.full_since_ms = full.then_some(now_ms);
        if let Ok(at) = self.inside_since_ms.binary_search(&now_ms.saturating_sub(stayed_ms)) {
            self.inside_since_ms.remove(at);
        }
        let (stayed_ms, tokens) = (stayed_ms as f64, tokens as f64);
        match &mut self.stay_ms {
            None => {
                self.stay_ms = Some(stayed_ms);
                self.mean_tokens = tokens;
                self.token_stay_ms = stayed_ms * tokens;
            }
            Some(stay_ms) => {
                *stay_ms += (stayed_ms - *stay_ms) * WEIGHT;
                self.mean_tokens += (tokens - self.mean_tokens) * WEIGHT;
                self.token_stay_ms += (stayed_ms * tokens - self.token_stay_ms) * WEIGHT;
            }
        }
    }

    /// When to come back to find that so much has left; for those who were refused. Milliseconds.
    pub(crate) fn wait_ms(
        &self,
        before: Crowd,
        inside: Crowd,
        by_tokens: bool,
        now_ms: u64,
    ) -> u64 {
        let known_ms = self.estimate_ms(before, inside, by_tokens, now_ms);
        known_ms.map_or(UNKNOWN_MS, |ms| ms.clamp(SHORTEST_MS, LONGEST_MS) as u64)
    }

    /// How long it takes until so much has left, if that is known. Milliseconds; tokens count where they
    /// are limited.
    pub(crate) fn estimate_ms(
        &self,
        before: Crowd,
        inside: Crowd,
        by_tokens: bool,
        now_ms: u64,
    ) -> Option<f64> {
        let stay_ms = self.stay_ms?;
        let open_ms = self.full_since_ms.map_or(0, |since| now_ms.saturating_sub(since)) as f64;
        let span_ms = self.span_ms + open_ms;
        let (by_request, by_token) = if span_ms >= ENOUGH_MS && self.left.requests > 0.0 {
            (span_ms / self.left.requests, span_ms / self.left.tokens)
        } else {
            let token_stay_ms = self.token_stay_ms / self.mean_tokens;
            (stay_ms / inside.requests.max(1.0), token_stay_ms / inside.tokens.max(1.0))
        };
        let mut wait_ms = before.requests * by_request;
        if by_tokens {
            // Not a number where no tokens were ever counted: then they tell nothing.
            wait_ms = wait_ms.max(before.tokens * by_token);
        }
        Some(wait_ms.max(self.first_to_leave_ms(stay_ms, before.requests, now_ms)))
    }

    /// When so many of those inside have stayed as long as requests do. Milliseconds.
    fn first_to_leave_ms(&self, stay_ms: f64, leaving: f64, now_ms: u64) -> f64 {
        let last = (leaving.max(1.0) as usize).saturating_sub(1);
        let since_ms = self.inside_since_ms.get(last).copied();
        since_ms.map_or(0.0, |since_ms| stay_ms - now_ms.saturating_sub(since_ms) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(requests: f64, tokens: f64) -> Crowd {
        Crowd { requests, tokens }
    }

    #[test]
    fn a7_waits_follow_the_rate_of_leaving() {
        let mut leaving = Leaving::default();
        assert_eq!(leaving.wait_ms(crowd(9.0, 9.0), crowd(1.0, 1.0), true, 0), UNKNOWN_MS);
        leaving.full(0);
        // Twenty a second, of a hundred tokens each.
        for n in 1..=100 {
            leaving.left(100, 1_000, true, n * 50);
        }
        let wait = |requests, tokens, by_tokens| {
            leaving.wait_ms(crowd(requests, tokens), crowd(20.0, 2_000.0), by_tokens, 5_000)
        };
        assert!((480..=520).contains(&wait(10.0, 1_000.0, true)));
        assert!((4_800..=5_200).contains(&wait(1.0, 10_000.0, true)), "one large one");
        assert!((50..=60).contains(&wait(1.0, 10_000.0, false)), "tokens are not limited");
        // It stalls: the longer, the longer is the wait.
        let stalled = leaving.wait_ms(crowd(10.0, 0.0), crowd(20.0, 0.0), true, 25_000);
        assert!(stalled > 2_000, "{stalled}");
    }

    #[test]
    fn a7_before_it_was_full_what_is_inside_tells() {
        let mut leaving = Leaving::default();
        // A request now and then, of 3 s: that is not its rate when full.
        (1..=50).for_each(|n| leaving.left(10, 3_000, false, n * 60_000));
        leaving.full(3_000_000);
        let wait_ms = leaving.wait_ms(crowd(30.0, 300.0), crowd(90.0, 900.0), true, 3_000_000);
        assert_eq!(wait_ms, 1_000);
    }

    #[test]
    fn a7_what_came_in_together_leaves_together() {
        let mut leaving = Leaving::default();
        leaving.entered(0);
        leaving.left(10, 2_800, false, 2_800);
        (0..84).for_each(|n| leaving.entered(10_000 + n));
        leaving.full(10_100);
        let wait = |requests, now_ms| {
            leaving.wait_ms(crowd(requests, 10.0), crowd(84.0, 840.0), false, now_ms)
        };
        assert_eq!(wait(1.0, 10_600), 2_200, "the first of them");
        assert_eq!(wait(84.0, 10_600), 2_800, "all of them, by the time that they stay");
        assert_eq!(wait(1.0, 13_000), 50, "it is overdue");
    }

    #[test]
    fn a7_a_target_that_nothing_has_left_while_it_was_full() {
        let mut leaving = Leaving::default();
        leaving.left(10, 1_000, false, 1_000);
        leaving.full(2_000);
        let wait_ms = leaving.wait_ms(crowd(5.0, 50.0), crowd(10.0, 100.0), true, 60_000);
        assert_eq!(wait_ms, 500);
    }

    #[test]
    fn absurd_numbers_are_only_numbers() {
        let mut leaving = Leaving::default();
        leaving.full(u64::MAX);
        leaving.left(0, 0, true, 0);
        leaving.left(u64::MAX, u64::MAX, true, u64::MAX);
        for value in [0.0, 1e300, f64::NAN] {
            let wait = leaving.wait_ms(crowd(value, value), crowd(0.0, 0.0), true, u64::MAX);
            assert!(wait <= 600_000, "{wait}");
        }
    }
}
