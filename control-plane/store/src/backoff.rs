//! Waiting between attempts: exponential, with full jitter.

use std::time::Duration;

/// The delays of one series of attempts. Each is drawn evenly from zero to a ceiling that doubles,
/// so that many clients that lost the same server do not come back in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    max: Duration,
    ceiling: Duration,
}

impl Backoff {
    pub(crate) fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, ceiling: base }
    }

    /// The next delay to wait.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let ceiling = self.ceiling;
        self.ceiling = (ceiling * 2).min(self.max);
        ceiling.mul_f64(unit_random())
    }

    /// Starts over, after an attempt that went well.
    pub(crate) fn reset(&mut self) {
        self.ceiling = self.base;
    }
}

/// A random number in `0.0..1.0`. Without a random source the middle is as good as any.
fn unit_random() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceiling_doubles_up_to_the_maximum_and_resets() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(300));
        for ceiling in [100, 200, 300, 300] {
            assert_eq!(backoff.ceiling, Duration::from_millis(ceiling));
            assert!(backoff.next_delay() < Duration::from_millis(ceiling));
        }
        backoff.reset();
        assert_eq!(backoff.ceiling, Duration::from_millis(100));
    }
}
