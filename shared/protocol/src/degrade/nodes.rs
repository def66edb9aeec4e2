//! What several data planes tell, taken together.

use std::collections::{BTreeMap, HashMap};

use super::report::{Report, TargetBreaker, ToolTimeouts};
use crate::breaker::TargetKey;

/// What a data plane told of breakers is believed for so long.
const BELIEVED_MS: u64 = 30_000;
/// Which of its reports have come is remembered for so long: longer than it tries to send one.
const REMEMBERED_MS: u64 = 180_000;
/// Most data planes, and most breakers of all of them together.
const MAX_NODES: usize = 10_000;
const MAX_KEPT: usize = 1_000_000;

/// Every data plane that tells something.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: HashMap<String, Node>,
    /// Breakers of all of them.
    kept: usize,
}

#[derive(Debug)]
struct Node {
    incarnation: u64,
    sequence: u64,
    heard_ms: u64,
    breakers: Vec<TargetBreaker>,
    breakers_at_ms: u64,
}

/// A target as the data planes see it together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Public name of the model that it is a target of.
    pub model: String,
    /// At least half of those who tell of it leave it alone.
    pub open: bool,
}

impl Nodes {
    /// Takes a report in, and gives what of its timeouts was not told before. Of more data planes or
    /// breakers than there can be nothing is kept.
    pub fn take(&mut self, report: Report, now_ms: u64) -> Vec<ToolTimeouts> {
        if !self.nodes.contains_key(&report.node) && self.nodes.len() >= MAX_NODES {
            self.tidy(now_ms);
            if self.nodes.len() >= MAX_NODES {
                return Vec::new();
            }
        }
        let node = self.nodes.entry(report.node).or_insert(Node {
            incarnation: report.incarnation,
            sequence: 0,
            heard_ms: now_ms,
            breakers: Vec::new(),
            breakers_at_ms: 0,
        });
        if node.incarnation != report.incarnation {
            (node.incarnation, node.sequence) = (report.incarnation, 0);
        }
        node.heard_ms = now_ms;
        if let Some(breakers) = report.breakers {
            self.kept -= node.breakers.len();
            node.breakers = breakers;
            if self.kept + node.breakers.len() > MAX_KEPT {
                node.breakers = Vec::new();
            }
            self.kept += node.breakers.len();
            node.breakers_at_ms = now_ms;
        }
        let is_new = report.sequence > node.sequence;
        node.sequence = node.sequence.max(report.sequence);
        if is_new { report.timeouts } else { Vec::new() }
    }

    /// How every target stands that somebody told of lately; nothing where nobody did.
    pub fn breakers(&mut self, now_ms: u64) -> Vec<Seen> {
        self.tidy(now_ms);
        let mut seen: BTreeMap<(&str, &TargetKey), (usize, usize)> = BTreeMap::new();
        let lately = |node: &&Node| now_ms.saturating_sub(node.breakers_at_ms) <= BELIEVED_MS;
        for breaker in self.nodes.values().filter(lately).flat_map(|node| &node.breakers) {
            let (open, all) = seen.entry((&breaker.model, &breaker.target)).or_default();
            *open += usize::from(breaker.open);
            *all += 1;
        }
        let seen = seen.into_iter();
        seen.map(|((model, _), (open, all))| Seen {
            model: model.to_owned(),
            open: 2 * open >= all,
        })
        .collect()
    }

    fn tidy(&mut self, now_ms: u64) {
        self.nodes.retain(|_, node| now_ms.saturating_sub(node.heard_ms) <= REMEMBERED_MS);
        self.kept = self.nodes.values().map(|node| node.breakers.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, incarnation: u64, sequence: u64) -> Report {
        let timeouts = vec![ToolTimeouts { model: "m".into(), tenants: Vec::new(), count: 1 }];
        Report { node: node.into(), incarnation, sequence, timeouts, breakers: None }
    }

    fn told(node: &str, open: &[bool]) -> Report {
        let breaker = |(at, open): (usize, &bool)| TargetBreaker {
            model: "m".into(),
            target: TargetKey::new("p", at.to_string()),
            open: *open,
        };
        let breakers = open.iter().enumerate().map(breaker).collect();
        Report { node: node.into(), breakers: Some(breakers), ..Report::default() }
    }

    #[test]
    fn b4_a_report_that_comes_twice_counts_once() {
        let mut nodes = Nodes::default();
        for (report, count) in [
            (report("a", 1, 1), 1),
            (report("a", 1, 1), 0),
            (report("a", 1, 3), 1),
            (report("a", 1, 2), 0),
            (report("b", 1, 1), 1),
            (report("a", 2, 1), 1),
            (report("a", 2, 1), 0),
        ] {
            let told = format!("{report:?}");
            assert_eq!(nodes.take(report, 0).len(), count, "{told}");
        }
    }

    #[test]
    fn b4_half_of_those_who_see_a_target_say_that_it_is_left_alone() {
        let mut nodes = Nodes::default();
        let mut open = |reports: Vec<Report>, now_ms| {
            reports.into_iter().for_each(|report| drop(nodes.take(report, now_ms)));
            nodes.breakers(now_ms).into_iter().map(|seen| seen.open).collect::<Vec<_>>()
        };
        assert_eq!(open(vec![], 0), Vec::<bool>::new());
        assert_eq!(open(vec![told("a", &[true, false])], 0), [true, false]);
        assert_eq!(open(vec![told("b", &[false])], 0), [true, false], "one of two");
        assert_eq!(open(vec![told("c", &[false])], 10_000), [false, false], "one of three");
        // Who says nothing any more is not asked.
        assert_eq!(open(vec![], 35_000), [false]);
        assert_eq!(open(vec![], 40_001), Vec::<bool>::new());
        assert_eq!(open(vec![told("a", &[])], u64::MAX), Vec::<bool>::new());
    }

    #[test]
    fn b4_what_is_kept_is_bounded() {
        let mut nodes = Nodes::default();
        for n in 0..MAX_NODES + 10 {
            let taken = nodes.take(report(&n.to_string(), 1, 1), 0);
            assert_eq!(taken.len(), usize::from(n < MAX_NODES));
        }
        assert_eq!(nodes.take(report("new", 1, 1), REMEMBERED_MS + 1).len(), 1);
        assert_eq!(nodes.nodes.len(), 1, "those that are gone make room");
        let many = vec![true; MAX_KEPT / 4];
        for n in 0..6 {
            nodes.take(told(&n.to_string(), &many), 0);
            assert!(nodes.kept <= MAX_KEPT);
        }
        let sum: usize = nodes.nodes.values().map(|node| node.breakers.len()).sum();
        assert_eq!((nodes.kept, sum), (MAX_KEPT, MAX_KEPT));
    }
}
