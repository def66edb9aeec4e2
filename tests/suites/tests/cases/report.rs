//! What became of the cases of an area.

use std::io::Write as _;

use crate::table::Case;

/// What became of one case.
#[derive(Debug)]
pub(crate) enum State {
    /// All that is asserted holds. The case may still have open parts.
    Passed,
    Failed(Vec<String>),
    /// Not played, for that reason. Neither passed nor failed.
    Pending(String),
}

#[derive(Debug)]
pub(crate) struct Report {
    area: &'static str,
    passed: usize,
    failed: Vec<String>,
    pending: Vec<String>,
    open: Vec<String>,
}

impl Report {
    pub(crate) fn new(area: &'static str) -> Self {
        Self { area, passed: 0, failed: Vec::new(), pending: Vec::new(), open: Vec::new() }
    }

    pub(crate) fn add(&mut self, case: &Case, state: State) {
        let id = &case.id;
        match state {
            State::Passed => {
                self.passed += 1;
                self.open.extend(case.open.iter().map(|part| format!("{id}: {part}")));
            }
            State::Pending(reason) => self.pending.push(format!("{id}: {reason}")),
            State::Failed(findings) => {
                let mut text = format!("{id} ({})", case.says);
                for finding in findings {
                    text.push_str("\n    - ");
                    text.push_str(&finding);
                }
                self.failed.push(text);
            }
        }
    }

    /// Every failed case with what was found.
    pub(crate) fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Writes past the test harness, which would keep quiet about a test that passes.
    pub(crate) fn print(&self) {
        let Self { area, passed, failed, pending, open } = self;
        let mut text = format!(
            "{area}: {passed} passed, {} failed, {} pending\n",
            failed.len(),
            pending.len()
        );
        for (what, lines) in [("pending", pending), ("passed, but open", open)] {
            for line in lines {
                text.push_str(&format!("  {what}: {line}\n"));
            }
        }
        // A closed standard error is no reason to fail.
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
}
