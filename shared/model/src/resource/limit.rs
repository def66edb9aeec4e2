//! Limits: whom they are for, what they count, in which windows.

use std::time::Duration;

use jiff::tz::TimeZone;
use sluicegate_proto::resource::v1 as pb;

use super::form;
use crate::{
    calendar::Period,
    path::Path,
    scope::Scope,
    violation::{Violation, Violations},
};

/// Largest amount, in the dimension's smallest unit: what a double counts exactly.
const MAX_AMOUNT: u64 = 1 << 52;

/// A limit, ready to be applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    pub name: String,
    pub scope: Scope,
    pub dimension: Dimension,
    /// At least one; all must admit.
    pub windows: Vec<Window>,
    pub on_outage: OnOutage,
    /// How long [`OnOutage::LastShare`] may go on.
    pub outage_max: Duration,
    /// Counts without refusing.
    pub shadow: bool,
    pub reserve: Reserve,
    /// Lets nothing through too much, whatever happens.
    pub strict: bool,
    /// How long a request waits that only open reservations hold back.
    pub wait: Duration,
    /// How long a request waits for its turn where a rate is used up; only of rates.
    pub pace: Duration,
}

impl Limit {
    /// What tells the counters of one of its windows from others, also from those that the limit had
    /// before it was changed: they count something else.
    pub fn tag(&self, window: &Window) -> String {
        format!("{}:{}", self.dimension.name(), window.tag())
    }
}

/// What is counted, and in which smallest unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    Requests,
    /// Input and output together.
    Tokens,
    /// Millionths of a unit.
    Units,
    /// Nano-dollars.
    Cost,
    /// Requests at one time.
    Concurrency,
}

impl Dimension {
    /// As files, refusals and metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Units => "units",
            Self::Cost => "cost",
            Self::Concurrency => "concurrency",
        }
    }

    /// Does it depend on how many tokens a request has?
    pub fn measures_tokens(self) -> bool {
        matches!(self, Self::Tokens | Self::Units | Self::Cost)
    }

    /// Smallest units in one of what people write.
    pub fn quanta(self) -> u64 {
        match self {
            Self::Requests | Self::Tokens | Self::Concurrency => 1,
            Self::Units => 1_000_000,
            Self::Cost => 1_000_000_000,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Requests, Self::Tokens, Self::Units, Self::Cost, Self::Concurrency]
            .into_iter()
            .find(|dimension| dimension.name() == text)
    }
}

/// One thing that a limit counts in. Amounts are in the dimension's smallest unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    Rate { amount: u64, window_s: u32, burst: u64, algorithm: Algorithm },
    Calendar { amount: u64, period: Period, time_zone: TimeZone },
    Slots { amount: u64 },
}

impl Window {
    /// Most that is used at one time.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Rate { burst, algorithm: Algorithm::Bucket, .. } => *burst,
            Self::Rate { amount, .. } | Self::Calendar { amount, .. } | Self::Slots { amount } => {
                *amount
            }
        }
    }

    /// Length of a rate's window in seconds; 0 for others. It tells a limit's windows apart.
    pub fn window_s(&self) -> u32 {
        match self {
            Self::Rate { window_s, .. } => *window_s,
            Self::Calendar { .. } | Self::Slots { .. } => 0,
        }
    }

    fn tag(&self) -> String {
        match self {
            Self::Rate { window_s, algorithm: Algorithm::Bucket, .. } => format!("b{window_s}"),
            Self::Rate { window_s, algorithm: Algorithm::Sliding, .. } => format!("s{window_s}"),
            Self::Calendar { period, time_zone, .. } => {
                format!("c{}:{}", period.name(), time_zone.iana_name().unwrap_or("UTC"))
            }
            Self::Slots { .. } => "n".to_owned(),
        }
    }
}

/// How a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Bucket,
    Sliding,
}

/// What happens when nobody can be asked and the lease is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnOutage {
    LastShare,
    Allow,
    Deny,
}

impl OnOutage {
    /// As files name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LastShare => "last_share",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// What a request reserves before its size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// The most that it may use.
    Cap,
    /// What 95 of 100 use.
    Expected,
}

pub(super) fn parse(spec: &pb::Limit, found: &mut Violations) -> Option<Limit> {
    let scope = Scope::from_proto(spec.scope.as_ref()?);
    if scope.is_empty() {
        add(found, "scope", "names nothing", "give at least one part, such as tenant: \"*\"");
    }
    let dimension = Dimension::parse(&spec.dimension)?;
    if spec.reserve == "expected" && spec.strict {
        add(
            found,
            "reserve",
            "a strict limit must reserve the most that a request may use",
            "remove reserve: expected, or strict",
        );
    }
    let windows = windows(spec, dimension, found);
    let calendar = windows.iter().any(|window| matches!(window, Window::Calendar { .. }));
    let on_outage = match spec.on_outage.as_str() {
        "last_share" => OnOutage::LastShare,
        "allow" => OnOutage::Allow,
        "deny" => OnOutage::Deny,
        _ if calendar || spec.strict => OnOutage::Deny,
        _ => OnOutage::LastShare,
    };
    if spec.strict && on_outage != OnOutage::Deny {
        add(
            found,
            "on_outage",
            "a strict limit lets nothing through that nobody has granted",
            "use deny, or remove strict",
        );
    }
    let pace_ms = spec.pace_ms.unwrap_or(0);
    if pace_ms > 0 && !windows.iter().all(|window| matches!(window, Window::Rate { .. })) {
        add(
            found,
            "pace_ms",
            "only bursts over a rate can be smoothed",
            "use a rate, or remove it",
        );
    }
    if pace_ms > 0 && spec.shadow {
        add(
            found,
            "pace_ms",
            "a limit that only counts holds nothing back",
            "remove it, or shadow",
        );
    }
    (!windows.is_empty()).then(|| Limit {
        name: spec.name.clone(),
        scope,
        dimension,
        windows,
        on_outage,
        outage_max: Duration::from_millis(u64::from(spec.outage_max_ms.unwrap_or(600_000))),
        shadow: spec.shadow,
        reserve: if spec.reserve == "expected" { Reserve::Expected } else { Reserve::Cap },
        strict: spec.strict,
        wait: Duration::from_millis(u64::from(spec.wait_ms.unwrap_or(250))),
        pace: Duration::from_millis(u64::from(pace_ms)),
    })
}

fn windows(spec: &pb::Limit, dimension: Dimension, found: &mut Violations) -> Vec<Window> {
    let concurrency = dimension == Dimension::Concurrency;
    let calendar = !spec.window.is_empty();
    if calendar && concurrency {
        add(found, "window", "concurrency has no window", "remove it");
        return Vec::new();
    }
    if !spec.time_zone.is_empty() && !calendar {
        add(found, "time_zone", "only a calendar window has a time zone", "remove it");
    }
    if !spec.algorithm.is_empty() && (calendar || concurrency) {
        add(found, "algorithm", "only a rate has an algorithm", "remove it");
    }
    if calendar || concurrency {
        if !spec.rate.is_empty() {
            add(found, "rate", "contradicts the window or dimension", "remove one of them");
        }
        if spec.burst.is_some() {
            add(found, "burst", "only a rate has a burst", "remove it");
        }
        let Some(amount) = spec.amount else {
            add(found, "amount", "is required here", "say how much is allowed");
            return Vec::new();
        };
        let Some(amount) = amount_of("amount", amount, dimension, found) else {
            return Vec::new();
        };
        if concurrency {
            return vec![Window::Slots { amount }];
        }
        let period = Period::parse(&spec.window);
        let time_zone = time_zone(&spec.time_zone, found);
        return period
            .zip(time_zone)
            .map(|(period, time_zone)| Window::Calendar { amount, period, time_zone })
            .into_iter()
            .collect();
    }
    if spec.amount.is_some() {
        add(found, "amount", "needs a window", "add window: day, week or month, or use rate");
    }
    if spec.rate.is_empty() {
        add(found, "rate", "the limit has neither a rate nor a window", "give one of them");
        return Vec::new();
    }
    rates(spec, dimension, found)
}

fn rates(spec: &pb::Limit, dimension: Dimension, found: &mut Violations) -> Vec<Window> {
    let algorithm =
        if spec.algorithm == "sliding" { Algorithm::Sliding } else { Algorithm::Bucket };
    let amounts = rate_amounts(&spec.rate, dimension, found);
    if spec.burst.is_some() && (amounts.len() > 1 || algorithm == Algorithm::Sliding) {
        let what = "a burst is for a single rate that is a bucket";
        add(found, "burst", what, "make it a limit of its own, or remove the burst");
    }
    let burst = spec.burst.and_then(|burst| amount_of("burst", burst, dimension, found));
    amounts
        .into_iter()
        .map(|(window_s, amount)| Window::Rate {
            amount,
            window_s,
            burst: burst.unwrap_or(amount),
            algorithm,
        })
        .collect()
}

/// The rates of a text, each as window and amount in the dimension's smallest unit.
pub(super) fn rate_amounts(
    text: &str,
    dimension: Dimension,
    found: &mut Violations,
) -> Vec<(u32, u64)> {
    // A text that is no rate is reported by its form.
    let Ok(rates) = form::rates(text) else { return Vec::new() };
    let mut amounts = Vec::with_capacity(rates.len());
    for rate in &rates {
        let quanta = rate.amount_nano * u128::from(dimension.quanta());
        let whole = quanta / 1_000_000_000;
        match u64::try_from(whole) {
            _ if quanta % 1_000_000_000 != 0 => {
                add(found, "rate", &fraction(dimension), "use whole numbers");
            }
            Ok(amount) if amount <= MAX_AMOUNT => amounts.push((rate.window_s, amount)),
            _ => add(found, "rate", "is larger than can be counted", &most(dimension)),
        }
    }
    for (window_s, amount) in &amounts {
        let binding = amounts.iter().find(|(other_s, other)| other_s > window_s && other < amount);
        if let Some((other_s, other)) = binding {
            let what = format!(
                "{amount} in {window_s} s can never be reached: only {other} are allowed in {other_s} s"
            );
            add(found, "rate", &what, "the longer window must allow more; remove one of them");
        }
    }
    amounts
}

/// An amount in the dimension's smallest unit.
pub(super) fn amount_of(
    field: &str,
    written: f64,
    dimension: Dimension,
    found: &mut Violations,
) -> Option<u64> {
    #[expect(clippy::cast_precision_loss, reason = "quanta are small")]
    let quanta = written * dimension.quanta() as f64;
    if !quanta.is_finite() || quanta < 0.0 {
        return None; // Reported by the field's rule.
    }
    if quanta == 0.0 {
        add(found, field, "admits nothing, ever", "use more than 0");
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "the bound is a power of two")]
    if quanta > MAX_AMOUNT as f64 {
        add(found, field, "is larger than can be counted", &most(dimension));
        return None;
    }
    let rounded = quanta.round();
    if (dimension.quanta() == 1 && rounded != quanta) || rounded < 1.0 {
        add(found, field, &fraction(dimension), "use whole numbers");
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 1 and 2^52"
    )]
    Some(rounded as u64)
}

fn fraction(dimension: Dimension) -> String {
    match dimension {
        Dimension::Units => "is finer than a millionth of a unit".to_owned(),
        Dimension::Cost => "is finer than a nano-dollar".to_owned(),
        whole => format!("there are no fractions of {}", whole.name()),
    }
}

fn most(dimension: Dimension) -> String {
    format!("at most {}", MAX_AMOUNT / dimension.quanta())
}

fn time_zone(name: &str, found: &mut Violations) -> Option<TimeZone> {
    if name.is_empty() {
        return Some(TimeZone::UTC);
    }
    match TimeZone::get(name) {
        Ok(zone) => Some(zone),
        Err(_) => {
            let what =
                format!("'{}' is not a time zone", name.chars().take(80).collect::<String>());
            add(found, "time_zone", &what, "use an IANA name such as Europe/Berlin");
            None
        }
    }
}

fn add(found: &mut Violations, field: &str, message: &str, hint: &str) {
    found.0.push(Violation::new(Path::root().field(field), message).hint(hint));
}
