//! What was measured, for people and for programs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::changes::Took;
use crate::traffic::Requests;
use crate::{DATA_PLANES, Options};

pub(crate) struct Report {
    pub(crate) binary: String,
    pub(crate) options: Options,
    /// How long requests and changes took together.
    pub(crate) took: Duration,
    /// How long the streams had lasted when they were told to end.
    pub(crate) lasted: Duration,
    pub(crate) changes: Vec<Took>,
    pub(crate) requests: Requests,
    pub(crate) cut: usize,
    /// Largest resident memory of each process in bytes.
    pub(crate) memory: Vec<(String, u64)>,
}

/// Milliseconds at three places of a distribution.
struct Spread {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Spread {
    fn of(durations: impl Iterator<Item = Duration>) -> Self {
        let mut ms: Vec<f64> = durations.map(|one| one.as_secs_f64() * 1000.0).collect();
        ms.sort_by(f64::total_cmp);
        // The smallest value that so many percent do not exceed.
        let at = |percent: usize| {
            let rank = (ms.len() * percent).div_ceil(100).max(1);
            ms.get(rank - 1).copied().unwrap_or(f64::NAN)
        };
        Self { p50: at(50), p99: at(99), max: at(100) }
    }

    fn row(&self, what: &str) -> String {
        format!("{what:<44} {:>9.2} {:>9.2} {:>9.2}\n", self.p50, self.p99, self.max)
    }

    fn json(&self) -> Value {
        let rounded = |ms: f64| (ms * 1000.0).round() / 1000.0;
        json!({"p50": rounded(self.p50), "p99": rounded(self.p99), "max": rounded(self.max)})
    }
}

impl Report {
    fn spreads(&self) -> [(&'static str, &'static str, Spread); 4] {
        let changes = || self.changes.iter();
        [
            ("apply_ms", "Apply", Spread::of(changes().map(|it| it.apply))),
            (
                "acknowledged_ms",
                "Apply returned to the last acknowledgement",
                Spread::of(changes().map(|it| it.acknowledged)),
            ),
            (
                "apply_to_acknowledged_ms",
                "both",
                Spread::of(changes().map(|it| it.apply + it.acknowledged)),
            ),
            ("request_ms", "request", Spread::of(self.requests.latencies.iter().copied())),
        ]
    }

    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "{} changes, {} requests, {} streams on {DATA_PLANES} data planes in {:.1} s ({})\n\n",
            self.options.changes,
            self.options.requests,
            self.options.streams,
            self.took.as_secs_f64(),
            self.binary,
        );
        table += &format!("{:<44} {:>9} {:>9} {:>9}\n", "milliseconds", "p50", "p99", "max");
        for (_, what, spread) in self.spreads() {
            table += &spread.row(what);
        }
        let (failed, all) = (self.requests.failed, self.options.requests);
        table += &format!("\n{:<44} {failed:>9} of {all}\n", "failed requests");
        let (cut, all) = (self.cut, self.options.streams);
        let lasted = self.lasted.as_secs_f64();
        table += &format!("{:<44} {cut:>9} of {all}, {lasted:.1} s each\n", "cut streams");
        table += &format!("\n{:<44} {:>9}\n", "peak resident memory", "MiB");
        for (role, bytes) in &self.memory {
            table += &format!("{role:<44} {:>9.1}\n", *bytes as f64 / f64::from(1 << 20));
        }
        for example in &self.requests.examples {
            table += &format!("\nfailed: {example}\n");
        }
        table
    }

    pub(crate) fn json(&self) -> Value {
        let mut json = json!({
            "changes": self.options.changes,
            "requests": self.options.requests,
            "requests_per_second": self.options.rate,
            "streams": self.options.streams,
            "data_planes": DATA_PLANES,
            "seconds": self.took.as_secs_f64(),
            "failed_requests": self.requests.failed,
            "cut_streams": self.cut,
            "peak_rss_bytes": self.memory.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        });
        for (name, _, spread) in self.spreads() {
            json[name] = spread.json();
        }
        json
    }
}
