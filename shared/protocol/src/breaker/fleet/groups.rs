//! How much of a group of targets may be left out at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::breaker::TargetKey;

/// The share of a group that may be left out unless the policy says otherwise.
const USUAL_SHARE: f64 = 0.5;

/// Targets that stand in for each other, and which of them are left out.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// The groups of each target, by number.
    of: BTreeMap<TargetKey, Vec<usize>>,
    ejected: BTreeSet<TargetKey>,
}

#[derive(Debug, Clone)]
struct Group {
    targets: BTreeSet<TargetKey>,
    /// How many of them may be left out.
    allowed: usize,
}

impl Groups {
    pub(super) fn set(&mut self, groups: Vec<(Vec<TargetKey>, f64)>) {
        let group = |(targets, max_share)| {
            let targets = BTreeSet::from_iter(targets);
            Group { allowed: allowed(targets.len(), max_share), targets }
        };
        self.groups = groups.into_iter().map(group).collect();
        self.of = BTreeMap::new();
        for (number, group) in self.groups.iter().enumerate() {
            for target in &group.targets {
                self.of.entry(target.clone()).or_default().push(number);
            }
        }
    }

    pub(super) fn set_ejected(&mut self, target: &TargetKey, ejected: bool) {
        if !ejected {
            self.ejected.remove(target);
        } else if !self.ejected.contains(target) {
            self.ejected.insert(target.clone());
        }
    }

    /// May the target be left out, too? Judged by what would be left out then. (Judging by what is
    /// left out before lets a group go one too far, as Envoy's outlier detection did until
    /// envoyproxy/envoy#27909.)
    pub(super) fn may_eject(&self, target: &TargetKey) -> bool {
        let groups = self.of.get(target).into_iter().flatten();
        self.ejected.contains(target)
            || groups
                .filter_map(|number| self.groups.get(*number))
                .all(|group| self.ejected_of(group) < group.allowed)
    }

    /// A group with too much left out that is not made up of `known` targets alone.
    pub(super) fn crowded(&self, known: &BTreeSet<TargetKey>) -> Option<BTreeSet<TargetKey>> {
        let crowded = |group: &&Group| {
            self.ejected_of(group) > group.allowed && !group.targets.is_subset(known)
        };
        self.groups.iter().find(crowded).map(|group| group.targets.clone())
    }

    /// The targets of groups of several that would be left without any if these were left out.
    pub(super) fn emptied(&self, out: impl Fn(&TargetKey) -> bool) -> BTreeSet<TargetKey> {
        emptied(self.groups.iter().map(|group| &group.targets), out)
    }

    fn ejected_of(&self, group: &Group) -> usize {
        group.targets.intersection(&self.ejected).count()
    }
}

/// The targets of groups of several that would be left without any if these were left out.
pub fn emptied<'a>(
    groups: impl IntoIterator<Item = &'a BTreeSet<TargetKey>>,
    out: impl Fn(&TargetKey) -> bool,
) -> BTreeSet<TargetKey> {
    let several = groups.into_iter().filter(|group| group.len() > 1);
    several.filter(|group| group.iter().all(&out)).flatten().cloned().collect()
}

/// How many of so many may be left out: never the last of several.
fn allowed(total: usize, max_share: f64) -> usize {
    let max_share = if max_share.is_nan() { USUAL_SHARE } else { max_share.clamp(0.0, 1.0) };
    if total <= 1 {
        return total;
    }
    (1..total).take_while(|out| *out as f64 <= max_share * total as f64).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_of_a_group_no_more_than_the_share_is_left_out_and_never_all() {
        check(0, 0.5, 0);
        check(1, 0.0, 1);
        check(2, 0.5, 1);
        check(2, 0.4, 0);
        check(3, 0.5, 1);
        check(4, 0.5, 2);
        check(10, 0.3, 3);
        check(3, 1.0, 2);
        check(3, 7.0, 2);
        check(4, f64::NAN, 2);
        check(4, -1.0, 0);

        #[track_caller]
        fn check(total: usize, max_share: f64, expected: usize) {
            let targets: Vec<_> =
                (0..total).map(|n| TargetKey::new("p", format!("m{n}"))).collect();
            let mut groups = Groups::default();
            groups.set(vec![(targets.clone(), max_share)]);
            let mut ejected = 0;
            for target in &targets {
                if groups.may_eject(target) {
                    groups.set_ejected(target, true);
                    ejected += 1;
                }
            }
            assert_eq!(ejected, expected);
            assert_eq!(groups.crowded(&BTreeSet::new()), None);
        }
    }

    #[test]
    fn b1_a_target_of_several_groups_heeds_them_all() {
        let [a, b, c] = ["a", "b", "c"].map(|model| TargetKey::new("p", model));
        let mut groups = Groups::default();
        groups.set(vec![(vec![a.clone(), b.clone()], 0.5), (vec![b.clone(), c.clone()], 0.5)]);
        groups.set_ejected(&a, true);
        assert!(!groups.may_eject(&b));
        assert!(groups.may_eject(&c));
        assert!(groups.may_eject(&a), "it is out");
        assert!(groups.may_eject(&TargetKey::new("p", "alone")));
        groups.set_ejected(&b, true);
        let crowded = groups.crowded(&BTreeSet::new()).unwrap();
        assert_eq!(crowded, BTreeSet::from([a.clone(), b.clone()]));
        assert_eq!(groups.crowded(&crowded), None);
    }
}
