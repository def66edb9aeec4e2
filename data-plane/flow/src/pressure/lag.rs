//! How late tasks run: a task that sleeps for a while and notes by how much it woke too late.

/// So many notes are looked back on.
const NOTES: usize = 10;

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

    /// What half of the last ten exceed, in milliseconds; 0 before there are as many. A process that was
    /// stopped for a while is late once: that is no sign of a load.
    pub fn usual_ms(&self) -> u64 {
        if self.late_ms.len() < NOTES {
            return 0;
        }
        let mut sorted = self.late_ms.clone();
        sorted.sort_unstable();
        sorted.get(NOTES / 2 - 1).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c10_it_is_late_when_it_is_late_again_and_again() {
        let mut lag = Lag::default();
        lag.note(30_000);
        assert_eq!(lag.usual_ms(), 0);
        (0..9).for_each(|_| lag.note(2));
        assert_eq!(lag.usual_ms(), 2, "it was stopped once");
        (0..5).for_each(|_| lag.note(700));
        assert_eq!(lag.usual_ms(), 2, "half of them");
        (0..2).for_each(|_| lag.note(700));
        assert_eq!(lag.usual_ms(), 700);
        assert_eq!(lag.late_ms.len(), NOTES);
    }
}
