//! Requests that kill what they are sent to.

use std::collections::BTreeMap;

use super::TargetKey;

/// A blocked request is let in again after this time. Milliseconds.
const BLOCK_MS: u64 = 600_000;
/// What one target died of is remembered so long. Milliseconds.
const SUSPECT_MS: u64 = 600_000;
/// A connection that breaks together with so many others is a target that died.
const OTHERS: u32 = 3;
/// Most requests that are blocked, and that are suspected.
const MAX_BLOCKED: usize = 1_024;
const MAX_SUSPECTS: usize = 4_096;

/// What makes a request the same again: made by the caller of what is fit, such as tenant, model and
/// body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// What happened to a target while a request was in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// It said that its engine is dead, or its memory used up.
    Fatal,
    /// The connection broke, and those of so many other requests to the same target with it.
    Reset { others: u32 },
}

/// What may become of a request whose target died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing speaks against it.
    Innocent,
    /// It may be sent once more, to another target.
    RetryOnce,
    /// It has seen two targets die, but together with others: it is not sent on, and not blocked.
    GiveUp,
    /// It killed two targets: it is not sent any more.
    Blocked(Blocked),
}

/// A request that is not to be sent to anything for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was in flight when two targets died")]
pub struct Blocked {
    pub fingerprint: Fingerprint,
    pub left_ms: u64,
}

/// Finds requests that kill every target they are sent to, so that retries do not walk them through
/// the whole fleet.
///
/// Each node convicts by what it saw, and tells [what it found itself](Self::own); the merger adds
/// that up and tells [all of it](Self::all) to everybody. What a node was told it does not tell on, so
/// that no sentence grows on its way in a circle.
#[derive(Debug, Clone, Default)]
pub struct Poison {
    suspects: BTreeMap<Fingerprint, Suspect>,
    blocked: BTreeMap<Fingerprint, Block>,
}

/// What made suspects within this time is one death. Milliseconds.
const TOGETHER_MS: u64 = 1_000;

#[derive(Debug, Clone)]
struct Suspect {
    target: TargetKey,
    until_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    until_ms: u64,
    /// The end that this node found itself; 0: it did not.
    own_until_ms: u64,
}

impl Poison {
    /// Is nothing suspected or blocked? Then there is nothing to ask it.
    pub fn is_idle(&self) -> bool {
        self.suspects.is_empty() && self.blocked.is_empty()
    }

    /// May the request be sent?
    ///
    /// # Errors
    /// It is blocked, and for how long.
    pub fn check(&self, fingerprint: Fingerprint, now_ms: u64) -> Result<(), Blocked> {
        match self.blocked.get(&fingerprint) {
            Some(block) if block.until_ms > now_ms => {
                Err(Blocked { fingerprint, left_ms: block.until_ms - now_ms })
            }
            _ => Ok(()),
        }
    }

    /// A target died while the request was in flight there. Two different targets are a proof; the
    /// same one again may have died of itself.
    pub fn died(
        &mut self,
        fingerprint: Fingerprint,
        target: &TargetKey,
        death: Death,
        now_ms: u64,
    ) -> Verdict {
        if let Err(blocked) = self.check(fingerprint, now_ms) {
            return Verdict::Blocked(blocked);
        }
        match death {
            Death::Reset { others } if others < OTHERS => return Verdict::Innocent,
            Death::Reset { .. } | Death::Fatal => {}
        }
        let known = self.suspects.get(&fingerprint).filter(|suspect| suspect.until_ms > now_ms);
        if let Some(known) = known.filter(|suspect| suspect.target != *target) {
            if self.has_company(fingerprint, known) {
                return Verdict::GiveUp;
            }
            self.suspects.remove(&fingerprint);
            let blocked = Blocked { fingerprint, left_ms: BLOCK_MS };
            self.block(blocked, true, now_ms);
            return Verdict::Blocked(blocked);
        }
        let until_ms = now_ms.saturating_add(SUSPECT_MS);
        self.suspects.insert(fingerprint, Suspect { target: target.clone(), until_ms });
        if self.suspects.len() > MAX_SUSPECTS {
            self.suspects.retain(|_, suspect| suspect.until_ms > now_ms);
        }
        if self.suspects.len() > MAX_SUSPECTS {
            let oldest = self.suspects.iter().min_by_key(|(_, suspect)| suspect.until_ms);
            if let Some(oldest) = oldest.map(|(fingerprint, _)| *fingerprint) {
                self.suspects.remove(&oldest);
            }
        }
        Verdict::RetryOnce
    }

    /// Are there others that the same death made suspects of, and that nothing has cleared since? An outage
    /// takes targets down under many at once, of whom none is to blame.
    fn has_company(&self, fingerprint: Fingerprint, suspect: &Suspect) -> bool {
        self.suspects.iter().any(|(other, of)| {
            *other != fingerprint
                && of.target == suspect.target
                && of.until_ms.abs_diff(suspect.until_ms) <= TOGETHER_MS
        })
    }

    /// The request went well: it was in flight by chance.
    pub fn survived(&mut self, fingerprint: Fingerprint) {
        self.suspects.remove(&fingerprint);
    }

    /// Takes in what another found. Of two ends the later holds.
    pub fn merge(&mut self, blocked: Blocked, now_ms: u64) {
        self.block(blocked, false, now_ms);
    }

    /// What this node found itself.
    pub fn own(&self, now_ms: u64) -> Vec<Blocked> {
        self.list(now_ms, |block| block.own_until_ms)
    }

    /// Everything that is blocked.
    pub fn all(&self, now_ms: u64) -> Vec<Blocked> {
        self.list(now_ms, |block| block.until_ms)
    }

    fn list(&self, now_ms: u64, end_ms: impl Fn(&Block) -> u64) -> Vec<Blocked> {
        let told = self.blocked.iter().map(|(fingerprint, block)| Blocked {
            fingerprint: *fingerprint,
            left_ms: end_ms(block).saturating_sub(now_ms),
        });
        told.filter(|blocked| blocked.left_ms > 0).collect()
    }

    fn block(&mut self, blocked: Blocked, own: bool, now_ms: u64) {
        let Blocked { fingerprint, left_ms } = blocked;
        let until_ms = now_ms.saturating_add(left_ms.min(BLOCK_MS));
        if until_ms <= now_ms {
            return;
        }
        let block = self.blocked.entry(fingerprint).or_insert(Block { until_ms, own_until_ms: 0 });
        block.until_ms = block.until_ms.max(until_ms);
        if own {
            block.own_until_ms = block.own_until_ms.max(until_ms);
        }
        if self.blocked.len() > MAX_BLOCKED {
            self.blocked.retain(|_, block| block.until_ms > now_ms);
        }
        if self.blocked.len() > MAX_BLOCKED {
            let first = self.blocked.iter().min_by_key(|(_, block)| block.until_ms);
            if let Some(first) = first.map(|(fingerprint, _)| *fingerprint) {
                self.blocked.remove(&first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUEST: Fingerprint = Fingerprint(7);

    fn target(n: u8) -> TargetKey {
        TargetKey::new("p", format!("m{n}"))
    }

    #[test]
    fn b1_an_outage_convicts_nobody_until_the_others_are_cleared() {
        let mut poison = Poison::default();
        let reset = Death::Reset { others: 3 };
        let all = || (1..=4).map(Fingerprint);
        for one in all() {
            assert_eq!(poison.died(one, &target(1), reset, 100), Verdict::RetryOnce);
        }
        for one in all() {
            assert_eq!(poison.died(one, &target(2), reset, 300), Verdict::GiveUp);
            assert_eq!(poison.check(one, 300), Ok(()));
        }
        all().skip(1).for_each(|one| poison.survived(one));
        let verdict = poison.died(Fingerprint(1), &target(3), reset, 2_000);
        assert!(matches!(verdict, Verdict::Blocked(_)), "{verdict:?}");
    }

    #[test]
    fn b1_a_request_that_kills_two_targets_is_sent_to_no_third() {
        let mut poison = Poison::default();
        assert_eq!(poison.died(REQUEST, &target(1), Death::Fatal, 0), Verdict::RetryOnce);
        assert_eq!(poison.check(REQUEST, 0), Ok(()));
        let blocked = Blocked { fingerprint: REQUEST, left_ms: BLOCK_MS };
        let reset = Death::Reset { others: 3 };
        assert_eq!(poison.died(REQUEST, &target(2), reset, 0), Verdict::Blocked(blocked));
        let left = Blocked { left_ms: 1, ..blocked };
        assert_eq!(poison.check(REQUEST, BLOCK_MS - 1), Err(left));
        assert_eq!(poison.check(Fingerprint(8), 0), Ok(()));
        assert_eq!(poison.check(REQUEST, BLOCK_MS), Ok(()));
        assert_eq!(poison.all(BLOCK_MS), []);
    }

    #[test]
    fn b1_what_was_there_by_chance_is_not_blocked() {
        let mut poison = Poison::default();
        let few = Death::Reset { others: 2 };
        assert_eq!(poison.died(REQUEST, &target(1), few, 0), Verdict::Innocent);
        assert_eq!(poison.died(REQUEST, &target(2), few, 0), Verdict::Innocent);
        // The same target that dies again.
        assert_eq!(poison.died(REQUEST, &target(1), Death::Fatal, 0), Verdict::RetryOnce);
        assert_eq!(poison.died(REQUEST, &target(1), Death::Fatal, 1), Verdict::RetryOnce);
        // It went well elsewhere.
        poison.survived(REQUEST);
        assert_eq!(poison.died(REQUEST, &target(2), Death::Fatal, 2), Verdict::RetryOnce);
        // The first death is long ago.
        let later = 2 + SUSPECT_MS;
        assert_eq!(poison.died(REQUEST, &target(1), Death::Fatal, later), Verdict::RetryOnce);
    }

    #[test]
    fn b1_the_whole_fleet_knows_and_no_sentence_grows() {
        let (mut node, mut merger, mut other) =
            (Poison::default(), Poison::default(), Poison::default());
        node.died(REQUEST, &target(1), Death::Fatal, 0);
        node.died(REQUEST, &target(2), Death::Fatal, 0);
        // Each way takes 100 ms, and everything is told again and again.
        for now_ms in (0..BLOCK_MS + 1_000).step_by(100) {
            for blocked in node.own(now_ms).into_iter().chain(other.own(now_ms)) {
                merger.merge(blocked, now_ms + 100);
            }
            for blocked in merger.all(now_ms + 100) {
                node.merge(blocked, now_ms + 200);
                other.merge(blocked, now_ms + 200);
            }
            assert_eq!(other.check(REQUEST, now_ms + 200).is_err(), now_ms < BLOCK_MS);
        }
    }

    proptest! {
        /// Lists stay bounded, and merging is one whatever the order.
        #[test]
        fn merging_is_one_in_any_order(
            told in prop::collection::vec((0..8_u128, any::<u64>()), 0..30), now_ms in 0..1_000_u64,
        ) {
            let merged = |told: &mut dyn Iterator<Item = &(u128, u64)>| {
                let mut poison = Poison::default();
                for (print, left_ms) in told {
                    poison.merge(Blocked { fingerprint: Fingerprint(*print), left_ms: *left_ms }, now_ms);
                }
                poison.all(now_ms)
            };
            let forward = merged(&mut told.iter());
            prop_assert_eq!(&forward, &merged(&mut told.iter().rev()));
            prop_assert_eq!(&forward, &merged(&mut told.iter().chain(&told)));
        }
    }

    #[test]
    fn lists_are_bounded() {
        let mut poison = Poison::default();
        for n in 0..6_000 {
            let print = Fingerprint(u128::from(n));
            // Those that are convicted died alone.
            let first = if n < 4_500 { target(1) } else { TargetKey::new("q", format!("m{n}")) };
            poison.died(print, &first, Death::Fatal, n);
            if n >= 4_500 {
                poison.died(print, &target(2), Death::Fatal, n);
            }
        }
        // The last of them was convicted.
        assert_eq!((poison.suspects.len(), poison.blocked.len()), (MAX_SUSPECTS - 1, MAX_BLOCKED));
        assert!(poison.check(Fingerprint(5_999), 6_000).is_err(), "the newest stay");
        assert!(poison.check(Fingerprint(4_500), 6_000).is_ok());
    }
}
