//! Plain tables, and bounds that were broken.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

/// What one scenario saw.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<String>,
    broken: Vec<String>,
}

impl Report {
    pub fn new(title: impl Display) -> Self {
        Self { lines: vec![format!("\n== {title}")], broken: Vec::new() }
    }

    /// A line of what was measured.
    pub fn row(&mut self, what: &str, value: impl Display) {
        self.lines.push(format!("{what:<58} {value}"));
    }

    /// A line of text.
    pub fn note(&mut self, text: impl Display) {
        self.lines.push(text.to_string());
    }

    /// A row with a bound; it is remembered when it does not hold.
    pub fn bound(&mut self, what: &str, value: impl Display, bound: &str, holds: bool) {
        let verdict = if holds { "holds" } else { "BROKEN" };
        self.lines.push(format!("{what:<58} {value}   [bound: {bound}: {verdict}]"));
        if !holds {
            self.broken.push(format!("{what}: {value}, bound: {bound}"));
        }
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    pub fn broken(&self) -> &[String] {
        &self.broken
    }
}

/// Bounds that did not hold, over all scenarios of a run.
#[derive(Debug, Default)]
pub struct Broken(Vec<String>);

impl Broken {
    /// Prints what a scenario saw; also of one that did not come to its end.
    #[expect(clippy::print_stdout, reason = "for programs for people")]
    pub fn scenario(
        &mut self,
        name: impl std::fmt::Debug,
        reports: Vec<Report>,
        outcome: anyhow::Result<()>,
    ) {
        for report in reports {
            println!("{}", report.text());
            self.0.extend(report.broken().iter().map(|what| format!("{name:?}: {what}")));
        }
        // The other scenarios are still worth a run.
        if let Err(error) = outcome {
            self.0.push(format!("{name:?} could not be run to its end: {error:#}"));
        }
    }

    /// Names them all; a failure if there is one.
    #[expect(clippy::print_stdout, reason = "for programs for people")]
    pub fn verdict(self) -> ExitCode {
        for what in &self.0 {
            println!("BROKEN  {what}");
        }
        if self.0.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Milliseconds at three places of a distribution.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub n: usize,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(durations: impl IntoIterator<Item = Duration>) -> Self {
        let mut ms: Vec<f64> =
            durations.into_iter().map(|one| one.as_secs_f64() * 1000.0).collect();
        ms.sort_by(f64::total_cmp);
        // The smallest value that so many percent do not exceed.
        let at = |percent: usize| {
            let rank = (ms.len() * percent).div_ceil(100).max(1);
            ms.get(rank - 1).copied().unwrap_or(f64::NAN)
        };
        Self { n: ms.len(), p50: at(50), p99: at(99), max: at(100) }
    }
}

impl Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { n, p50, p99, max } = self;
        write!(f, "p50 {p50:.1}  p99 {p99:.1}  max {max:.1} ms  (n {n})")
    }
}

/// A part of a whole as a percentage.
pub fn percent(part: f64, whole: f64) -> String {
    format!("{:.2} %", 100.0 * part / whole)
}
