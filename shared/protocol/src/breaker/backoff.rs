//! How long a breaker stays open.

use super::Settings;

/// So long closed takes one earlier opening off the count. Milliseconds.
const FORGIVEN_MS: u64 = 120_000;

/// Openings in a row: each doubles the time, and health takes them back one by one.
#[derive(Debug, Clone, Default)]
pub(super) struct Backoff {
    openings: u32,
    /// Since when it is closed.
    healthy_since_ms: Option<u64>,
}

impl Backoff {
    /// Opens: how long, in milliseconds. Nodes and targets that open together are spread by a fifth
    /// in either direction.
    pub(super) fn open(&mut self, settings: &Settings, random: u64, now_ms: u64) -> u64 {
        if let Some(since_ms) = self.healthy_since_ms.take() {
            let forgiven = now_ms.saturating_sub(since_ms) / FORGIVEN_MS;
            self.openings =
                self.openings.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX));
        }
        let doubled = 1_u64.checked_shl(self.openings).unwrap_or(u64::MAX);
        self.openings = self.openings.saturating_add(1);
        let open_ms = settings.open_ms.saturating_mul(doubled).min(settings.max_open_ms);
        (open_ms / 1_000).saturating_mul(800 + random % 401)
            + (open_ms % 1_000) * (800 + random % 401) / 1_000
    }

    /// Counts on from what another has published: open for so long means so many openings.
    pub(super) fn resumed(settings: &Settings, left_ms: u64) -> Self {
        let times = left_ms / settings.open_ms.max(1);
        Self {
            openings: times.checked_ilog2().map_or(1, |power| power + 1),
            healthy_since_ms: None,
        }
    }

    /// In a row so far.
    pub(super) fn openings(&self) -> u32 {
        self.openings
    }

    pub(super) fn closed(&mut self, now_ms: u64) {
        self.healthy_since_ms.get_or_insert(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middle of the spread: 800 + 200 of 1000.
    const EVEN: u64 = 200;

    #[test]
    fn b1_each_opening_doubles_the_time_up_to_the_longest() {
        let settings = Settings::default();
        let mut backoff = Backoff::default();
        let times: Vec<_> = (0..7).map(|_| backoff.open(&settings, EVEN, 0)).collect();
        assert_eq!(times, [5_000, 10_000, 20_000, 40_000, 80_000, 120_000, 120_000]);
        for _ in 0..200 {
            backoff.open(&settings, EVEN, 0);
        }
        assert_eq!(backoff.open(&settings, EVEN, 0), 120_000);
    }

    #[test]
    fn b1_health_takes_openings_back() {
        check(0, 10_000);
        check(119_999, 10_000);
        check(120_000, 5_000);
        check(u64::MAX, 5_000);

        #[track_caller]
        fn check(healthy_ms: u64, expected_ms: u64) {
            let mut backoff = Backoff::default();
            backoff.open(&Settings::default(), EVEN, 0);
            backoff.closed(0);
            assert_eq!(backoff.open(&Settings::default(), EVEN, healthy_ms), expected_ms);
        }
    }

    #[test]
    fn b1_times_are_spread_by_a_fifth() {
        let settings = Settings { open_ms: 1_500, ..Settings::default() };
        let open = |random| Backoff::default().open(&settings, random, 0);
        assert_eq!((open(0), open(400), open(401)), (1_200, 1_800, 1_200));
    }
}
