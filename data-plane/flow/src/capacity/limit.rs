//! One number that adapts: how much of something may be in flight.

/// What is kept of a limit when the upstream cannot take it.
const CUT: f64 = 0.7;
/// By how much a limit grows in one window, of itself; by one step if that is more.
const GROWTH: f64 = 0.02;
/// The share of a limit from which on it counts as used.
const IN_USE: f64 = 0.8;
/// Beyond this a limit is none. It keeps sums of tokens exact in a float.
const HIGHEST: f64 = (1_u64 << 50) as f64;

/// A limit between a floor and a ceiling; `None` is no limit.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    now: Option<f64>,
    floor: f64,
    ceiling: Option<f64>,
    pressed: bool,
}

impl Limit {
    /// Begins at the ceiling.
    pub(super) fn new(floor: u64, ceiling: Option<u64>) -> Self {
        let ceiling = ceiling.map(|most| float(most.max(1)));
        Self { now: ceiling, floor: within(float(floor.max(1)), ceiling), ceiling, pressed: false }
    }

    /// Takes other bounds, and keeps what was learned as far as they allow.
    pub(super) fn set(&mut self, floor: u64, ceiling: Option<u64>) {
        let fresh = Self::new(floor, ceiling);
        // Where it stands at its old ceiling nothing was learned that speaks against the new one.
        let learned = self.now.filter(|_| self.now != self.ceiling);
        let now = learned.map(|now| within(now.max(fresh.floor), fresh.ceiling)).or(fresh.ceiling);
        *self = Self { now, ..fresh };
    }

    /// The limit, at least 1; `None` if there is none.
    pub(super) fn get(&self) -> Option<u64> {
        self.now.map(whole)
    }

    /// So much is in flight now: does that use the limit?
    pub(super) fn note(&mut self, in_flight: u64) {
        self.pressed |= self.now.is_some_and(|now| float(in_flight) >= now * IN_USE);
    }

    /// Somebody did not get in.
    pub(super) fn press(&mut self) {
        self.pressed = true;
    }

    /// The upstream cannot take so much. Without a limit there is one from now on: what was in flight is
    /// the first thing known of the upstream.
    pub(super) fn cut(&mut self, in_flight: u64) {
        let from = self.now.unwrap_or_else(|| float(in_flight.max(1)));
        self.now = Some(within((from * CUT).max(self.floor), self.ceiling));
        self.pressed = false;
    }

    /// A window went well: if the limit was in use it grows, by `step` at least.
    pub(super) fn grow(&mut self, step: f64) {
        if let Some(now) = self.now.filter(|_| self.pressed) {
            let grown = within(now + step.max(1.0).max(now * GROWTH), self.ceiling);
            self.now = (grown < HIGHEST).then_some(grown);
        }
        self.pressed = false;
    }
}

fn within(value: f64, ceiling: Option<f64>) -> f64 {
    ceiling.map_or(value, |most| value.min(most))
}

fn float(value: u64) -> f64 {
    (value as f64).min(HIGHEST)
}

fn whole(value: f64) -> u64 {
    (value as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_what_was_in_flight() {
        let mut limit = Limit::new(2, None);
        assert_eq!(limit.get(), None);
        limit.grow(1.0);
        assert_eq!(limit.get(), None, "no limit has nothing to grow");
        limit.cut(100);
        assert_eq!(limit.get(), Some(70));
        limit.cut(5);
        assert_eq!(limit.get(), Some(49), "from the limit, not from what is in flight");
        (0..20).for_each(|_| limit.cut(0));
        assert_eq!(limit.get(), Some(2), "never below the floor");
    }

    #[test]
    fn grows_only_while_in_use_and_by_a_step_or_two_percent() {
        let mut limit = Limit::new(1, Some(1_000));
        limit.cut(0);
        limit.grow(1.0);
        assert_eq!(limit.get(), Some(700), "not in use");
        limit.note(560);
        limit.grow(1.0);
        assert_eq!(limit.get(), Some(714));
        limit.note(572);
        limit.grow(50.0);
        assert_eq!(limit.get(), Some(764));
        for _ in 0..100 {
            limit.press();
            limit.grow(50.0);
        }
        assert_eq!(limit.get(), Some(1_000), "never above the ceiling");
    }

    #[test]
    fn other_bounds_keep_what_was_learned() {
        let mut limit = Limit::new(1, Some(100));
        limit.set(1, Some(200));
        assert_eq!(limit.get(), Some(200), "nothing was learned");
        limit.cut(0);
        limit.set(1, Some(500));
        assert_eq!(limit.get(), Some(140));
        limit.set(1, Some(60));
        assert_eq!(limit.get(), Some(60));
        limit.set(1, None);
        assert_eq!(limit.get(), None, "it stood at its ceiling");
    }
}
