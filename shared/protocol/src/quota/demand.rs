//! How much is asked for: what sizes a lease.

/// Time constant of the average. Milliseconds.
const MEMORY_MS: f64 = 2_000.0;
/// The largest request is forgotten slowly.
const FORGET: f64 = 0.9;

/// What requests have asked for lately, in all and at most at once.
#[derive(Debug, Default)]
pub(super) struct Demand {
    per_ms: f64,
    largest: f64,
    at_ms: u64,
    asked_at_ms: u64,
}

impl Demand {
    /// Takes in what was asked since the last time.
    pub(super) fn note(&mut self, now_ms: u64, asked: u64, largest: u64) {
        let elapsed = now_ms.saturating_sub(self.at_ms);
        if asked > 0 {
            self.asked_at_ms = now_ms;
        }
        if elapsed == 0 {
            // Too short to tell a rate from; spread over the memory.
            self.per_ms += amount(asked) / MEMORY_MS;
        } else {
            let elapsed = amount(elapsed);
            let keep = (-elapsed / MEMORY_MS).exp();
            self.per_ms = self.per_ms * keep + amount(asked) / elapsed * (1.0 - keep);
            self.at_ms = now_ms;
        }
        self.largest =
            amount(largest).max(if asked > 0 { self.largest * FORGET } else { self.largest });
    }

    /// What so many milliseconds will ask for.
    pub(super) fn in_ms(&self, ms: f64) -> u64 {
        whole(self.per_ms * ms)
    }

    /// About the largest request.
    pub(super) fn largest(&self) -> u64 {
        whole(self.largest)
    }

    /// How long nothing has been asked for.
    pub(super) fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.asked_at_ms)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes need no exactness")]
fn amount(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate, and nothing here is negative"
)]
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_demand_is_found_and_forgotten() {
        let mut demand = Demand::default();
        for tick in 1..=200_u64 {
            demand.note(tick * 50, 500, 100);
        }
        let second = demand.in_ms(1000.0);
        assert!((9_800..=10_050).contains(&second), "{second}");
        assert_eq!(demand.largest(), 100);
        demand.note(30_000, 0, 0);
        assert!(demand.in_ms(1000.0) < 10);
        assert_eq!(demand.idle_ms(30_000), 20_000);
    }
}
