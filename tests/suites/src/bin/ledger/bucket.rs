//! A token limit under more load than it holds, and what the upstream's books say of it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::load::{Call, Outcome, Zipf};
use crate::upstream::{Served, USUAL};
use sluicegate_suites::report::{Report, percent};

/// About what a request uses: prompt and half the span of outputs.
const TOKENS_EACH: f64 = 118.0;
/// Outputs are between these.
const OUTPUTS: std::ops::RangeInclusive<u64> = 50..=150;
/// `max_tokens` is so many times the true output.
const CAP: u64 = 4;
/// Time that an answer takes, in milliseconds.
const DELAYS_MS: std::ops::RangeInclusive<u64> = 300..=1500;
/// About what a prompt counts for before the upstream has counted it.
const PROMPT: u64 = 30;
/// The window that use is looked at in, as long as the limit's own.
const WINDOW: Duration = Duration::from_secs(60);
/// A refusal is early when less than this part of what the limit allows was used.
const NEARLY: f64 = 0.95;

/// A bucket of tokens that all share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    pub(crate) per_minute: u64,
    pub(crate) burst: u64,
    pub(crate) strict: bool,
    pub(crate) expected: bool,
}

impl Bucket {
    pub(crate) fn limits(&self) -> Value {
        let reserve = if self.expected { "expected" } else { "cap" };
        json!([{
            "name": "tpm",
            "scope": {"tenant": "*"},
            "dimension": "tokens",
            "rate": format!("{}/minute", self.per_minute),
            "burst": self.burst,
            "strict": self.strict,
            "reserve": reserve,
        }])
    }

    /// Tokens a second.
    pub(crate) fn rate(&self) -> f64 {
        self.per_minute as f64 / 60.0
    }

    /// Requests a second that would use twice what the limit allows.
    pub(crate) fn double(&self) -> f64 {
        2.0 * self.rate() / TOKENS_EACH
    }

    /// The most that may be used in this time.
    fn allows(&self, time: Duration) -> f64 {
        self.burst as f64 + self.rate() * time.as_secs_f64()
    }

    /// What is reserved for an answer of so many tokens: prompt and `max_tokens`, or what 95 of 100
    /// answers stay under.
    fn asks(&self, output: u64) -> u64 {
        let cap = output * CAP;
        PROMPT + if self.expected { cap.min(*OUTPUTS.end()) } else { cap }
    }

    /// What was reserved for a request, or what it came to if that is more.
    fn reserves(&self, served: &Served) -> u64 {
        self.asks(served.order.output).max(served.tokens())
    }

    /// By how much what was used exceeds what the limit allows in any span of time: the largest
    /// level of a bucket that is fed with the truth, less the burst. Each request counts when it
    /// began at the upstream, with what it came to in the end.
    fn overshoot(&self, served: &[Served]) -> f64 {
        let mut level: f64 = 0.0;
        let mut most: f64 = 0.0;
        let mut at = served.first().map(|first| first.begun);
        for one in served {
            let elapsed = at.map_or(Duration::ZERO, |at| one.begun - at);
            level = (level - self.rate() * elapsed.as_secs_f64()).max(0.0) + one.tokens() as f64;
            most = most.max(level);
            at = Some(one.begun);
        }
        (most - self.burst as f64).max(0.0)
    }
}

/// Requests of random sizes, most of them to the first data planes.
pub(crate) fn skewed(planes: usize, keys: usize) -> impl FnMut() -> Call {
    let zipf = Zipf::new(planes);
    move || {
        let output = fastrand::u64(OUTPUTS);
        Call {
            plane: zipf.pick(),
            key: fastrand::usize(..keys),
            model: USUAL,
            output,
            max_tokens: Some(output * CAP),
            delay: Duration::from_millis(fastrand::u64(DELAYS_MS)),
            stream: false,
        }
    }
}

/// What a run came to.
pub(crate) struct Judged {
    pub(crate) allowed: f64,
    pub(crate) overshoot: f64,
    /// Part that was used of what one counter for all could have given.
    pub(crate) used: f64,
}

/// A run: load was offered from `begun` on for `length`.
pub(crate) struct Run<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) begun: Instant,
    pub(crate) length: Duration,
    pub(crate) served: &'a mut [Served],
    pub(crate) outcomes: &'a [Outcome],
}

impl Run<'_> {
    /// Writes down what it came to.
    pub(crate) fn judge(self, report: &mut Report) -> Judged {
        let Self { bucket, begun, length, served, outcomes } = self;
        served.sort_by_key(|one| one.begun);
        let used = served.iter().map(Served::tokens).sum::<u64>() as f64;
        let allowed = bucket.allows(length);
        let overshoot = bucket.overshoot(served);
        let to = begun + length;
        let running = served.iter().filter(|one| one.ended.is_none_or(|ended| ended > to));
        let held: u64 = running.map(|one| bucket.reserves(one) - one.tokens()).sum();
        let refused: Vec<_> = outcomes.iter().filter(|it| it.is_refused()).collect();

        report.row("requests offered", outcomes.len());
        report.row("requests admitted", served.len());
        report.row("allowed: burst + rate x time, tokens", format!("{allowed:.0}"));
        report.row("really used, tokens", format!("{used} ({})", percent(used, allowed)));
        let text = format!("{held} ({})", percent(held as f64, allowed));
        report.row("reserved in vain by what ran at the end, tokens", text);
        let could = allowed - held as f64;
        report.row("used of what one counter could give", percent(used, could));
        let shown = format!("{overshoot:.0} tokens ({})", percent(overshoot, allowed));
        report.row("overshoot: true bucket's highest level less the burst", shown);
        report.row("refused", refused.len());
        early(report, bucket, begun, served, &refused);
        let failed: Vec<_> = outcomes.iter().filter(|it| it.is_failed()).collect();
        report.bound("failed", failed.len(), "0", failed.is_empty());
        for one in failed.iter().take(3) {
            report.note(format!("  failed: {:?} {} {}", one.status, one.code, one.message));
        }
        let mut codes = BTreeMap::<&str, usize>::new();
        refused.iter().for_each(|it| *codes.entry(it.code.as_str()).or_default() += 1);
        report.row("refusals by code", format!("{codes:?}"));
        Judged { allowed, overshoot, used: used / could }
    }
}

/// Refusals before the limit was nearly used up, by three measures of use.
fn early(
    report: &mut Report,
    bucket: &Bucket,
    begun: Instant,
    served: &[Served],
    refused: &[&Outcome],
) {
    let mut ended: Vec<_> =
        served.iter().filter_map(|one| Some((one.ended?, one.tokens()))).collect();
    ended.sort_unstable();
    let started: Vec<_> = served.iter().map(|one| (one.begun, one.tokens())).collect();
    let early = |of: &[(Instant, u64)]| {
        let count = refused.iter().filter(|refusal| {
            let from = refusal.sent.checked_sub(WINDOW).unwrap_or(begun).max(begun);
            let window = of.partition_point(|(at, _)| *at < from)
                ..of.partition_point(|(at, _)| *at <= refusal.over);
            let used: u64 = of[window].iter().map(|(_, tokens)| tokens).sum();
            let time = refusal.over - from;
            let whole = from > begun;
            let allowed =
                if whole { bucket.rate() * WINDOW.as_secs_f64() } else { bucket.allows(time) };
            (used as f64) < NEARLY * allowed
        });
        count.count()
    };
    let share = |n: usize| format!("{n} ({} of refusals)", percent(n as f64, refused.len() as f64));
    report.row("  early, counting what was answered (a)", share(early(&ended)));
    report.row("  early, counting all that was begun (b)", share(early(&started)));
    report.row(
        "  although one counter was not nearly full (c)",
        share(had_room(bucket, served, refused)),
    );
    report.note(
        "  (a, b: in the 60 s before the refusal, or since the start, truly used < 95 % of what the\n   \
         limit allows: burst + rate x time, or rate x 60 s once the start is out of the window;\n   \
         c: a single counter that reserves max_tokens of what runs, and drains by the rate, would\n   \
         not have been 95 % full with the request when its refusal came)",
    );
}

/// Refusals of what would not nearly have filled a single counter that saw the admitted requests and
/// no others.
fn had_room(bucket: &Bucket, served: &[Served], refused: &[&Outcome]) -> usize {
    /// What changes a counter.
    #[derive(Clone, Copy)]
    enum Change {
        Reserve(u64),
        Settle { reserved: u64, used: u64 },
        Ask(u64),
    }
    let mut changes: Vec<(Instant, Change)> = Vec::new();
    for one in served {
        let reserved = bucket.reserves(one);
        changes.push((one.begun, Change::Reserve(reserved)));
        changes.extend(
            one.ended.map(|ended| (ended, Change::Settle { reserved, used: one.tokens() })),
        );
    }
    changes.extend(refused.iter().map(|it| (it.over, Change::Ask(bucket.asks(it.call.output)))));
    changes.sort_by_key(|(at, _)| *at);
    let (mut used, mut held, mut had_room) = (0.0_f64, 0_u64, 0);
    let mut last = changes.first().map(|(at, _)| *at);
    for (at, change) in changes {
        let elapsed = last.map_or(Duration::ZERO, |last| at - last);
        used = (used - bucket.rate() * elapsed.as_secs_f64()).max(0.0);
        last = Some(at);
        match change {
            Change::Reserve(amount) => held += amount,
            Change::Settle { reserved, used: more } => {
                held -= reserved;
                used += more as f64;
            }
            Change::Ask(amount) => {
                let full = NEARLY * bucket.burst as f64;
                had_room += usize::from(used + (held + amount) as f64 <= full);
            }
        }
    }
    had_room
}
