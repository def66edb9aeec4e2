//! How late tasks run: a task that sleeps for a while and notes by how much it woke too late.

/// So many notes are looked back on: ten seconds at ten a second.
const NOTES: usize = 100;

/// The last notes of one runtime.
#[derive(Debug, Clone, Default)]
pub struct Lag {
    late_ms: Vec<u64>,
    next: usize,
}

impl Lag {
    /// It woke so much too late.
    pub fn note(&mut self, late_ms: u64) {
        if let Some(place) = self.late_ms.get_mut(self.next) {
            *place = late_ms;
        } else {
            self.late_ms.push(late_ms);
        }
        self.next = (self.next + 1) % NOTES;
    }

    /// What 99 of 100 stay below, in milliseconds; 0 before the first.
    pub fn p99_ms(&self) -> u64 {
        let mut sorted = self.late_ms.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_that_of_the_last_hundred() {
        let mut lag = Lag::default();
        assert_eq!(lag.p99_ms(), 0);
        (1..=100).for_each(|ms| lag.note(ms));
        assert_eq!(lag.p99_ms(), 99);
        lag.note(5_000);
        lag.note(5_000);
        assert_eq!(lag.p99_ms(), 5_000);
        (0..100).for_each(|_| lag.note(3));
        assert_eq!(lag.p99_ms(), 3);
        assert_eq!(lag.late_ms.len(), NOTES);
    }
}
