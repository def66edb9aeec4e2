//! Which key is next: smoothly by weight.

/// Spreads requests over keys in proportion to their weights, as evenly as it can be done.
///
/// Each key has a credit: its share of the requests so far less what it got, times the sum of the
/// weights. Among the keys whose next request is due, the one that must have it soonest is chosen.
/// That is the earliest-deadline rule for proportionate shares (Baruah, Cohen, Plaxton and Varvel,
/// "Proportionate progress", Algorithmica 15, 1996): at no time is a key one whole request or more away
/// from its share. (Smooth weighted round robin, which takes the largest credit, comes close and now
/// and then misses that bound.)
#[derive(Debug, Clone, Default)]
pub struct Balance {
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    name: String,
    credit: i64,
}

impl Balance {
    /// Chooses one of `all` keys, given with their weights, that is among those which are `up`; `None` if
    /// there is none. What a key is owed, or owes, it keeps while it is not up.
    pub fn choose(&mut self, all: &[(&str, u32)], up: &[usize]) -> Option<usize> {
        self.admit(all);
        let total: i64 = up.iter().filter_map(|at| all.get(*at)).map(|(_, of)| share(*of)).sum();
        let mut best: Option<(usize, (bool, i64, i64))> = None;
        for index in up {
            let (_, weight) = all.get(*index)?;
            let key = self.keys.get_mut(*index)?;
            key.credit += share(*weight);
            // One that is due before one that is not; then the one that must be served soonest.
            let deadline = div_ceil(total - key.credit, share(*weight));
            let rank = (key.credit <= 0, deadline, -key.credit);
            if best.is_none_or(|(_, known)| rank < known) {
                best = Some((*index, rank));
            }
        }
        let (index, _) = best?;
        self.keys.get_mut(index)?.credit -= total;
        Some(index)
    }

    /// Makes the keys those of `all`, in the same order. Keys that come begin even; what those that go are
    /// owed, or owe, the others share.
    fn admit(&mut self, all: &[(&str, u32)]) {
        let names = all.iter().map(|(name, _)| *name);
        if self.keys.iter().map(|key| key.name.as_str()).eq(names.clone()) {
            return;
        }
        let mut before = std::mem::take(&mut self.keys);
        let mut stayed = 0;
        for name in names {
            let credit = match before.iter().position(|key| key.name == name) {
                Some(at) => {
                    stayed += 1;
                    before.swap_remove(at).credit
                }
                None => 0,
            };
            self.keys.push(Key { name: name.to_owned(), credit });
        }
        let gone: i64 = before.iter().map(|key| key.credit).sum();
        if stayed > 0 {
            let count = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
            let (each, mut rest) = (gone.div_euclid(count), gone.rem_euclid(count));
            for key in &mut self.keys {
                key.credit += each + i64::from(rest > 0);
                rest -= i64::from(rest > 0);
            }
        }
    }
}

fn share(weight: u32) -> i64 {
    i64::from(weight.max(1))
}

fn div_ceil(number: i64, by: i64) -> i64 {
    -(-number).div_euclid(by)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(weights: &[u32]) -> Vec<(String, u32)> {
        weights.iter().enumerate().map(|(n, weight)| (format!("k{n}"), *weight)).collect()
    }

    fn chosen(balance: &mut Balance, keys: &[(String, u32)], times: usize) -> Vec<usize> {
        let up: Vec<_> = keys.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        let every: Vec<_> = (0..up.len()).collect();
        (0..times).map(|_| balance.choose(&up, &every).unwrap()).collect()
    }

    #[test]
    fn c5_weights_are_shared_out_smoothly() {
        let order = chosen(&mut Balance::default(), &named(&[5, 1, 1]), 14);
        assert_eq!(order[..7], order[7..], "it repeats");
        assert_eq!(order[..7].iter().filter(|key| **key == 0).count(), 5);
        assert!(!order.windows(5).any(|run| run == [0; 5]), "{order:?}");
        assert_eq!(Balance::default().choose(&[("k", 1)], &[]), None);
    }

    #[test]
    fn c5_keys_that_rest_leave_their_share_to_the_others_and_take_it_up_again() {
        let mut balance = Balance::default();
        let all = named(&[1, 1, 1, 1]);
        let keys: Vec<_> = all.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        // One that is chosen first and fails at once.
        assert_eq!(balance.choose(&keys, &[0, 1, 2, 3]), Some(0));
        let mut counts = [0_usize; 4];
        for _ in 0..40 {
            counts[balance.choose(&keys, &[1, 2, 3]).unwrap()] += 1;
        }
        assert_eq!(counts.iter().sum::<usize>(), 40);
        assert!(counts[1..].iter().all(|count| (13..=14).contains(count)), "{counts:?}");
        let mut counts = [0_usize; 4];
        chosen(&mut balance, &all, 40).into_iter().for_each(|key| counts[key] += 1);
        assert!(counts.iter().all(|count| (9..=11).contains(count)), "{counts:?}");
        // One that is gone for good is forgotten, and another takes its place.
        let order = chosen(&mut balance, &named(&[1, 1]), 10);
        let count = order.iter().filter(|key| **key == 0).count();
        assert!((4..=6).contains(&count), "{order:?}");
    }

    proptest! {
        /// From the beginning on no key is one whole request away from its share, and between any two
        /// moments no two.
        #[test]
        fn c5_counts_follow_shares(weights in prop::collection::vec(1..60_u32, 1..12)) {
            let keys = named(&weights);
            let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
            let mut counts = vec![0_i64; weights.len()];
            let mut balance = Balance::default();
            for n in 1..=2 * total {
                counts[chosen(&mut balance, &keys, 1)[0]] += 1;
                for (count, weight) in counts.iter().zip(&weights) {
                    let off = (count * total - n * i64::from(*weight)).abs();
                    prop_assert!(off < total, "{weights:?} after {n}: {counts:?}");
                }
            }
        }

        /// Keys of equal weight are within one of each other in any stretch.
        #[test]
        fn c5_equal_keys_take_turns(count in 1..9_usize, from in 0..20_usize, length in 0..40_usize) {
            let order = chosen(&mut Balance::default(), &named(&vec![3; count]), from + length);
            let of = |key| order[from..].iter().filter(|chosen| **chosen == key).count();
            let counts: Vec<_> = (0..count).map(of).collect();
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }
    }
}
