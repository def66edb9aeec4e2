//! How long to wait before another attempt.
//!
//! Exponential, with jitter, so that those who failed together do not come back together. The kinds are
//! those of Brooker, "Exponential backoff and jitter" (AWS architecture blog, 2015).

/// How chance moves a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Anything from nothing to the whole of it. Spreads best.
    Full,
    /// Half of it, and anything up to the other half: never at once.
    #[default]
    Equal,
}

/// Waits of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Before the first retry; then it doubles. Milliseconds.
    pub base_ms: u64,
    /// The longest. Milliseconds.
    pub cap_ms: u64,
    pub jitter: Jitter,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base_ms: 1_000, cap_ms: 8_000, jitter: Jitter::default() }
    }
}

impl Backoff {
    /// The wait before retry number `retry`, the first being 1, with `random` anything evenly spread. Where the
    /// upstream said when to come back (`said_ms`) it is not before that. `None`: that is not before what
    /// is `left_ms` until the deadline, so that waiting makes no sense. All in milliseconds.
    pub fn wait(&self, retry: u32, random: u64, said_ms: Option<u64>, left_ms: u64) -> Option<u64> {
        let doubled = 1_u64.checked_shl(retry.saturating_sub(1)).unwrap_or(u64::MAX);
        let whole = self.base_ms.saturating_mul(doubled).min(self.cap_ms);
        let own = match self.jitter {
            Jitter::Full => part(whole, random),
            Jitter::Equal => whole - whole / 2 + part(whole / 2, random),
        };
        // The upstream's word is the earliest; those who heard it are spread after it.
        let wait_ms = said_ms
            .map_or(own, |said| said.saturating_add(part(self.base_ms / 2, random)).max(own));
        (wait_ms < left_ms).then_some(wait_ms)
    }
}

/// From 0 to `whole`, evenly.
fn part(whole: u64, random: u64) -> u64 {
    let scaled = ((u128::from(whole) + 1) * u128::from(random)) >> 64;
    u64::try_from(scaled).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn b6_waits_double_up_to_the_cap() {
        check(
            Jitter::Equal,
            [(500, 1_000), (1_000, 2_000), (2_000, 4_000), (4_000, 8_000), (4_000, 8_000)],
        );
        check(Jitter::Full, [(0, 1_000), (0, 2_000), (0, 4_000), (0, 8_000), (0, 8_000)]);

        #[track_caller]
        fn check(jitter: Jitter, expected: [(u64, u64); 5]) {
            let backoff = Backoff { jitter, ..Backoff::default() };
            let wait = |retry, random| backoff.wait(retry, random, None, u64::MAX).unwrap();
            let seen = [1, 2, 3, 4, 60].map(|retry| (wait(retry, 0), wait(retry, u64::MAX)));
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn b6_no_wait_reaches_the_deadline() {
        let backoff = Backoff::default();
        assert_eq!(backoff.wait(1, 0, None, 501), Some(500));
        assert_eq!(backoff.wait(1, 0, None, 500), None);
        assert_eq!(backoff.wait(1, 0, Some(3_000), 60_000), Some(3_000), "the upstream said when");
        assert_eq!(backoff.wait(4, 0, Some(10), 60_000), Some(4_000));
        assert_eq!(backoff.wait(1, 0, Some(90_000), 60_000), None);
    }

    #[test]
    fn b6_jitter_spreads_evenly() {
        let backoff = Backoff { jitter: Jitter::Full, ..Backoff::default() };
        let mut random = fastrand::Rng::with_seed(7);
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let wait = backoff.wait(4, random.u64(..), None, u64::MAX).unwrap();
            tenths[usize::try_from(wait * 10 / 8_001).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (900..1_100).contains(count)), "{tenths:?}");
    }

    proptest! {
        #[test]
        fn b6_absurd_numbers_are_only_numbers(
            base_ms: u64, cap_ms: u64, full: bool, retry: u32, random: u64, said: Option<u64>, left_ms: u64,
        ) {
            let jitter = if full { Jitter::Full } else { Jitter::Equal };
            if let Some(wait_ms) = (Backoff { base_ms, cap_ms, jitter }).wait(retry, random, said, left_ms) {
                prop_assert!(wait_ms < left_ms);
                prop_assert!(wait_ms <= cap_ms || said.is_some());
            }
        }
    }
}
