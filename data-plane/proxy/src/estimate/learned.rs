//! What upstreams have reported of earlier requests, by model.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

/// Requests that must have been seen before anything is concluded.
const ENOUGH: u64 = 20;
/// Of so many requests the older half is forgotten.
const MEMORY: u64 = 2_000;
/// Steps of the measure of prompts: from 1 to 2 times what was measured.
const RATIOS: usize = 50;
/// Steps of output lengths: a quarter of an octave each, up to 2^32 tokens.
const LENGTHS: usize = 128;
/// Models that are remembered.
const MODELS: usize = 10_000;

/// What is known of one model's requests.
#[derive(Debug, Default)]
pub struct Stats(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    ratios: Vec<u32>,
    lengths: Vec<u32>,
    seen: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { ratios: vec![0; RATIOS + 1], lengths: vec![0; LENGTHS], seen: 0 }
    }
}

impl Stats {
    /// Takes in what an upstream reported of a request whose prompt was measured.
    pub fn learn(&self, measured: u64, input: u64, output: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.seen >= MEMORY {
            counts.seen /= 2;
            let Counts { ratios, lengths, .. } = &mut *counts;
            ratios.iter_mut().chain(lengths).for_each(|count| *count /= 2);
        }
        counts.seen += 1;
        if let Some(count) = counts.ratios.get_mut(ratio_step(measured, input)) {
            *count += 1;
        }
        if let Some(count) = counts.lengths.get_mut(length_step(output)) {
            *count += 1;
        }
    }

    /// By how much prompts turn out larger than measured, in 99 of 100 requests; 1 to 2.
    pub fn prompt_factor(&self) -> f64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match quantile(&counts.ratios, counts.seen, 0.99) {
            #[expect(clippy::cast_precision_loss, reason = "at most 50")]
            Some(step) => 1.0 + step as f64 / RATIOS as f64,
            None => 1.0,
        }
    }

    /// What 95 of 100 outputs stay under, in tokens; `None` before enough were seen.
    pub fn expected_output(&self) -> Option<u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quantile(&counts.lengths, counts.seen, 0.95).map(length_of)
    }
}

/// The step that holds this part of all that was seen.
fn quantile(counts: &[u32], seen: u64, part: f64) -> Option<usize> {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if seen < ENOUGH || total == 0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a count below 2^32"
    )]
    let wanted = (total as f64 * part).ceil() as u64;
    let mut sum = 0;
    counts.iter().position(|count| {
        sum += u64::from(*count);
        sum >= wanted
    })
}

fn ratio_step(measured: u64, input: u64) -> usize {
    let over = input.saturating_sub(measured);
    let steps = over.saturating_mul(RATIOS as u64).div_ceil(measured.max(1));
    usize::try_from(steps).unwrap_or(RATIOS).min(RATIOS)
}

fn length_step(output: u64) -> usize {
    if output < 4 {
        return usize::try_from(output).unwrap_or(0);
    }
    let octave = output.ilog2();
    let quarter = (output >> (octave - 2)) & 3;
    let step = u64::from(octave - 1) * 4 + quarter;
    usize::try_from(step).unwrap_or(LENGTHS).min(LENGTHS - 1)
}

/// The upper end of a step.
fn length_of(step: usize) -> u64 {
    let step = step as u64;
    if step < 4 {
        return step;
    }
    let (octave, quarter) = (step / 4 + 1, step % 4);
    ((4 + quarter + 1) << (octave - 2)) - 1
}

/// The statistics of every model.
#[derive(Debug, Default)]
pub struct Learned(RwLock<HashMap<String, Arc<Stats>>>);

impl Learned {
    /// Those of one target model.
    pub fn of(&self, model: &str) -> Arc<Stats> {
        if let Some(stats) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(model) {
            return stats.clone();
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MODELS {
            return Arc::default();
        }
        all.entry(model.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_what_they_are_for() {
        for output in [0_u64, 1, 3, 4, 5, 7, 8, 9, 100, 4096, 1 << 30] {
            let upper = length_of(length_step(output));
            assert!(upper >= output && upper <= output + output / 4, "{output} {upper}");
        }
    }

    #[test]
    fn prompts_that_turn_out_larger_are_reserved_larger() {
        let stats = Stats::default();
        assert_eq!((stats.prompt_factor(), stats.expected_output()), (1.0, None));
        for _ in 0..100 {
            stats.learn(100, 130, 50);
        }
        assert!((1.3..1.35).contains(&stats.prompt_factor()));
        assert!((50..=60).contains(&stats.expected_output().unwrap()));
        for _ in 0..100 {
            stats.learn(100, 1000, 50);
        }
        assert_eq!(stats.prompt_factor(), 2.0, "never more than twice");
        for _ in 0..20_000 {
            stats.learn(100, 90, 900);
        }
        assert_eq!(stats.prompt_factor(), 1.0, "the old is forgotten");
        assert!(stats.expected_output().unwrap() >= 900);
    }
}
