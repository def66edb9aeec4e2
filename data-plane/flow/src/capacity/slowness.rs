//! Whether an upstream has become slow, against its own usual times.

use crate::size::{SIZES, size_class};

/// Times are judged in batches of so many, so that there is a p90 worth the name.
const BATCH: usize = 16;
/// Where the p90 stands in a sorted batch.
const P90: usize = 14;
/// How many times its usual p90 is slow.
const SLOW: f64 = 2.0;
/// And by how much at least: below that it is noise. Milliseconds.
const NOISE_MS: f64 = 100.0;
/// How far the usual p90 follows a batch that was slower, and one that was quicker. An overload that
/// lasts becomes the usual only after some fifty batches.
const UP: f64 = 0.02;
const DOWN: f64 = 0.2;

/// Times to the first event by size of prompt.
#[derive(Debug, Clone, Default)]
pub(super) struct Slowness {
    sizes: [Size; SIZES],
}

#[derive(Debug, Clone, Default)]
struct Size {
    batch: [u64; BATCH],
    filled: usize,
    /// The slow-moving p90, in milliseconds.
    usual: Option<f64>,
}

impl Slowness {
    /// Notes a time to the first event; true if it completes a batch that was slow.
    pub(super) fn note(&mut self, took_ms: u64, prompt_tokens: u64) -> bool {
        self.sizes.get_mut(size_class(prompt_tokens)).is_some_and(|size| size.note(took_ms))
    }
}

impl Size {
    fn note(&mut self, took_ms: u64) -> bool {
        if let Some(place) = self.batch.get_mut(self.filled) {
            *place = took_ms;
            self.filled += 1;
        }
        if self.filled < BATCH {
            return false;
        }
        self.filled = 0;
        self.batch.sort_unstable();
        let p90 = self.batch.get(P90).map_or(0.0, |ms| *ms as f64);
        let Some(usual) = self.usual else {
            self.usual = Some(p90);
            return false;
        };
        let by = if p90 > usual { UP } else { DOWN };
        // No batch, however slow, moves it by more than one that was just slow.
        self.usual = Some(usual + by * (p90.min((usual * SLOW).max(NOISE_MS)) - usual));
        p90 > usual * SLOW && p90 - usual >= NOISE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(slowness: &mut Slowness, took_ms: u64, prompt: u64) -> bool {
        (0..BATCH).filter(|_| slowness.note(took_ms, prompt)).count() == 1
    }

    #[test]
    fn slow_is_twice_the_usual_of_the_same_size() {
        let mut slowness = Slowness::default();
        assert!(!batch(&mut slowness, 300, 500));
        assert!(!batch(&mut slowness, 3_000, 100_000), "long prompts have their own usual");
        assert!(!batch(&mut slowness, 590, 500));
        assert!(batch(&mut slowness, 700, 500));
        assert!(!batch(&mut slowness, 5_000, 100_000));
    }

    #[test]
    fn one_slow_answer_in_ten_is_not_slowness() {
        let mut slowness = Slowness::default();
        assert!(!batch(&mut slowness, 300, 0));
        let slow = (0..160).filter(|n| slowness.note(if n % 16 == 3 { 9_000 } else { 300 }, 0));
        assert_eq!(slow.count(), 0);
    }

    #[test]
    fn few_milliseconds_are_noise() {
        let mut slowness = Slowness::default();
        assert!(!batch(&mut slowness, 2, 0));
        assert!(!batch(&mut slowness, 90, 0));
        assert!(batch(&mut slowness, 150, 0));
    }

    #[test]
    fn what_lasts_becomes_the_usual() {
        let mut slowness = Slowness::default();
        assert!(!batch(&mut slowness, 300, 0));
        let slow = (0..200).take_while(|_| batch(&mut slowness, 1_000, 0)).count();
        assert!((10..100).contains(&slow), "{slow} batches");
        assert!(!batch(&mut slowness, u64::MAX, 9) || slowness.sizes[0].usual.unwrap() < 2_000.0);
    }
}
