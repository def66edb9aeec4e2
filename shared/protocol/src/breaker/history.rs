//! How long first events take, by size of the prompt, over an hour.

/// A slot of the history. Milliseconds.
const SLOT_MS: u64 = 600_000;
/// An hour of whole slots, and the running one.
const SLOTS: usize = 7;
/// Buckets of a histogram: four to each doubling, up to four hours.
const BUCKETS: usize = 92;
/// With fewer first events nothing is concluded.
const LEAST: u64 = 20;
/// What was worked out holds for so long. Milliseconds.
const FRESH_MS: u64 = 10_000;

/// Prompts of one class are answered in about the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Below1k,
    Below4k,
    Below16k,
    Below64k,
    Above,
}

impl Size {
    pub(super) fn of(prompt_tokens: u64) -> Self {
        match prompt_tokens {
            0..1_000 => Self::Below1k,
            1_000..4_000 => Self::Below4k,
            4_000..16_000 => Self::Below16k,
            16_000..64_000 => Self::Below64k,
            64_000.. => Self::Above,
        }
    }
}

/// First events of the last hour of each class.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    below_1k: Class,
    below_4k: Class,
    below_16k: Class,
    below_64k: Class,
    above: Class,
}

impl History {
    pub(super) fn note(&mut self, size: Size, took_ms: u64, now_ms: u64) {
        self.class(size).note(took_ms, now_ms);
    }

    /// The time within which 95 of 100 first events came, to within a fifth; `None` while less than an
    /// hour is known.
    pub(super) fn p95_ms(&mut self, size: Size, now_ms: u64) -> Option<u64> {
        let class = self.class(size);
        match class.known {
            Some((at_ms, p95)) if now_ms.saturating_sub(at_ms) < FRESH_MS => p95,
            _ => {
                let p95 = class.p95_ms(now_ms);
                class.known = Some((now_ms, p95));
                p95
            }
        }
    }

    fn class(&mut self, size: Size) -> &mut Class {
        match size {
            Size::Below1k => &mut self.below_1k,
            Size::Below4k => &mut self.below_4k,
            Size::Below16k => &mut self.below_16k,
            Size::Below64k => &mut self.below_64k,
            Size::Above => &mut self.above,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Class {
    /// Oldest first; at most [`SLOTS`].
    slots: Vec<Slot>,
    /// What was worked out last, and when.
    known: Option<(u64, Option<u64>)>,
}

#[derive(Debug, Clone)]
struct Slot {
    number: u64,
    buckets: [u32; BUCKETS],
}

impl Class {
    fn note(&mut self, took_ms: u64, now_ms: u64) {
        let number = now_ms / SLOT_MS;
        if self.slots.last().is_none_or(|slot| slot.number < number) {
            self.slots.retain(|slot| slot.number.saturating_add(SLOTS as u64) > number);
            self.slots.push(Slot { number, buckets: [0; BUCKETS] });
        }
        let bucket =
            self.slots.last_mut().and_then(|slot| slot.buckets.get_mut(bucket_of(took_ms)));
        if let Some(count) = bucket {
            *count = count.saturating_add(1);
        }
    }

    fn p95_ms(&self, now_ms: u64) -> Option<u64> {
        let number = now_ms / SLOT_MS;
        let kept =
            || self.slots.iter().filter(|slot| slot.number.saturating_add(SLOTS as u64) > number);
        if kept().next()?.number + SLOTS as u64 - 1 > number {
            return None;
        }
        let count = |bucket: usize| -> u64 {
            kept().filter_map(|slot| slot.buckets.get(bucket)).map(|count| u64::from(*count)).sum()
        };
        let total: u64 = (0..BUCKETS).map(count).sum();
        if total < LEAST {
            return None;
        }
        let mut seen = 0;
        let wanted = total - total / 20;
        let found = (0..BUCKETS).find(|bucket| {
            seen += count(*bucket);
            seen >= wanted
        });
        found.map(upper_ms)
    }
}

/// Four buckets to each doubling.
fn bucket_of(took_ms: u64) -> usize {
    let bucket = match took_ms.checked_ilog2() {
        None | Some(0 | 1) => took_ms,
        Some(power) => u64::from(power - 1) * 4 + ((took_ms >> (power - 2)) & 3),
    };
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The longest time that is counted in a bucket.
fn upper_ms(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 4 { bucket } else { ((5 + bucket % 4) << (bucket / 4 - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn b1_what_is_usual_is_known_after_an_hour_for_each_size_of_prompt() {
        let mut history = History::default();
        for n in 0..100 {
            history.note(Size::of(50_000), if n < 94 { 4_000 } else { 30_000 }, 0);
        }
        assert_eq!(history.p95_ms(Size::of(50_000), HOUR - 1), None);
        assert_eq!(history.p95_ms(Size::of(50_000), HOUR + FRESH_MS), Some(32_767));
        assert_eq!(history.p95_ms(Size::of(10), 2 * HOUR), None);
        assert_eq!(history.p95_ms(Size::of(50_000), HOUR + SLOT_MS), None, "it is forgotten");
        for _ in 0..19 {
            history.note(Size::of(0), 9, 0);
        }
        assert_eq!(history.p95_ms(Size::of(999), HOUR), None, "too few");
    }

    proptest! {
        #[test]
        fn buckets_hold_a_fifth(took_ms in 4..(1_u64 << 24)) {
            let upper = upper_ms(bucket_of(took_ms));
            prop_assert!((took_ms..=took_ms + took_ms / 4).contains(&upper), "{took_ms}: {upper}");
        }

        #[test]
        fn absurd_times_do_no_harm(times in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut history = History::default();
            for time in times {
                history.note(Size::of(time), time, time);
                history.p95_ms(Size::of(time), time);
            }
        }
    }
}
