//! What a judge holds against a run.

use std::fmt::{Debug, Display};
use std::time::Duration;

/// Faults found so far. All checks of a case are made, whatever the earlier ones gave.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What the next findings are about.
    context: String,
    pub(crate) list: Vec<String>,
}

impl Findings {
    /// Says what the next findings are about.
    pub(crate) fn about(&mut self, context: String) {
        self.context = context;
    }

    pub(crate) fn add(&mut self, finding: impl Display) {
        let context = &self.context;
        let finding =
            if context.is_empty() { finding.to_string() } else { format!("{context}: {finding}") };
        if !self.list.contains(&finding) {
            self.list.push(finding);
        }
    }

    /// Adds a finding unless `holds`; gives `holds`.
    pub(crate) fn check(&mut self, holds: bool, finding: impl FnOnce() -> String) -> bool {
        if !holds {
            self.add(finding());
        }
        holds
    }

    pub(crate) fn equal<T: PartialEq + Debug>(&mut self, what: &str, is: T, expected: T) -> bool {
        let finding = || format!("{what} is {}, expected {}", short(&is), short(&expected));
        self.check(is == expected, finding)
    }

    /// The longest a thing may have taken; `None` means that it did not happen.
    pub(crate) fn at_most(&mut self, what: &str, took: Option<Duration>, limit_ms: u64) {
        match took {
            None => self.add(format!("{what}: never")),
            Some(took) => drop(self.check(took <= Duration::from_millis(limit_ms), || {
                format!("{what}: after {took:.0?}, expected at most {limit_ms} ms")
            })),
        }
    }

    pub(crate) fn at_least(&mut self, what: &str, took: Option<Duration>, limit_ms: u64) {
        match took {
            None => self.add(format!("{what}: never")),
            Some(took) => drop(self.check(took >= Duration::from_millis(limit_ms), || {
                format!("{what}: after {took:.0?}, expected at least {limit_ms} ms")
            })),
        }
    }
}

/// The value as a reader of a failed test wants it: whole if short.
pub(crate) fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(160) {
        None => text,
        Some((end, _)) => {
            format!("{}... ({} bytes)", text.get(..end).unwrap_or_default(), text.len())
        }
    }
}
