//! Public models and what answers for them.

use std::time::Duration;

use sluicegate_proto::resource::v1 as pb;

use super::{
    retry::{self, Fallback, Retry},
    routing::{self, Routing},
};
use crate::{
    name::is_model_name,
    path::Path,
    rates::TokenRates,
    violation::{Violation, Violations},
};

/// A public model name and what answers for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub name: String,
    pub aliases: Vec<NamePattern>,
    /// At least one.
    pub targets: Vec<Target>,
    pub retry: Retry,
    pub choice: Spread,
    /// Most targets that may be left alone at one time, as a share.
    pub max_ejected: f64,
    pub fallback: Fallback,
    pub when_unavailable: WhenUnavailable,
    /// Other models that answer, by what a request looks like.
    pub routing: Option<Box<Routing>>,
    pub owned_by: String,
    /// Sums are in millionths of a unit; the model's own weight is in them.
    pub units: TokenRates,
    /// Sums are in nano-dollars.
    pub prices: TokenRates,
    pub output_cap: OutputCap,
    pub tokenizer: Tokenizer,
}

/// Which of several targets of equal priority gets a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// By their weights.
    Weighted,
    /// The least under way for its weight.
    LeastBusy,
    /// The quicker one of two.
    Latency,
    /// The same one for prompts that begin alike.
    Prefix,
}

/// What callers get while every target is left alone or full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhenUnavailable {
    pub answer: Unavailable,
    /// Longest wait.
    pub wait: Duration,
    /// Requests that may wait at one time.
    pub max_waiting: u32,
    /// Comments keep streams open that wait.
    pub keep_alive: bool,
    /// Words of a degraded answer, if others than the usual.
    pub reply: Option<String>,
}

/// How a request is answered that no target can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    Reject,
    Wait,
    Defer,
    Degraded,
}

/// Length of answers whose callers set no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputCap {
    /// Tokens of one choice that are reserved.
    pub tokens: u64,
    /// Sent upstream, so that it holds.
    pub send: bool,
}

/// How prompts are measured before the upstream has counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokenizer {
    /// By the model name that is sent upstream.
    Auto,
    O200k,
    Cl100k,
    /// By size alone.
    Bytes,
}

/// One way to answer a model's calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub provider: String,
    /// Name sent upstream; `None`: the model's, or where a pattern matched, the one asked for.
    pub model: Option<String>,
    /// Share among targets of equal priority; 0 takes no calls.
    pub weight: u32,
    /// Lower is tried first.
    pub priority: u32,
}

/// An exact name, or a beginning that matches any ending.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamePattern {
    Exact(String),
    /// Written with a `*` at the end.
    Prefix(String),
}

impl NamePattern {
    /// Reads the written form; `None` when it is neither a model name nor one that ends in `*`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('*') {
            Some(prefix)
                if !prefix.contains('*') && (prefix.is_empty() || is_model_name(prefix)) =>
            {
                Some(Self::Prefix(prefix.to_owned()))
            }
            None if is_model_name(text) && !text.contains('*') => {
                Some(Self::Exact(text.to_owned()))
            }
            _ => None,
        }
    }

    /// Does it match this name?
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

/// Parses a list of patterns, reporting each that is none.
pub(super) fn parse_patterns(
    texts: &[String],
    field: &str,
    found: &mut Violations,
) -> Vec<NamePattern> {
    let mut patterns = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match NamePattern::parse(text) {
            Some(pattern) => patterns.push(pattern),
            None => found.0.push(
                Violation::new(Path::root().field(field).index(index), "is not a model name").hint(
                    "use printable characters, no spaces or invisible ones; a * may only end it",
                ),
            ),
        }
    }
    patterns
}

pub(super) fn parse(spec: &pb::Model, found: &mut Violations) -> Option<Model> {
    if spec.name.contains('*') {
        found.0.push(
            Violation::new(Path::root().field("name"), "a model's own name is exact")
                .hint("put patterns into aliases"),
        );
    }
    let aliases = parse_patterns(&spec.aliases, "aliases", found);
    if aliases.iter().any(|alias| matches!(alias, NamePattern::Exact(name) if *name == spec.name)) {
        found.0.push(
            Violation::new(Path::root().field("aliases"), "names the model itself")
                .hint("remove it"),
        );
    }
    let targets: Vec<_> = spec.targets.iter().map(parse_target).collect();
    if !targets.is_empty() && targets.iter().all(|target| target.weight == 0) {
        found.0.push(
            Violation::new(
                Path::root().field("targets"),
                "every weight is 0: nothing would answer",
            )
            .hint("give at least one target a weight"),
        );
    }
    for (index, target) in targets.iter().enumerate() {
        let same =
            |other: &Target| other.provider == target.provider && other.model == target.model;
        if targets.iter().take(index).any(same) {
            found.0.push(
                Violation::new(
                    Path::root().field("targets").index(index),
                    "repeats an earlier target",
                )
                .hint("give one target the sum of the weights"),
            );
        }
    }
    let units = TokenRates::units(spec.units.as_ref(), spec.weight.unwrap_or(1.0));
    if spec.weight == Some(0.0) || (spec.units.is_some() && units.is_zero()) {
        let field = if spec.weight == Some(0.0) { "weight" } else { "units" };
        found.0.push(
            Violation::new(Path::root().field(field), "0: limits of units would never count")
                .hint("use more than 0"),
        );
    }
    let cap = spec.output_cap.unwrap_or_default();
    Some(Model {
        name: spec.name.clone(),
        aliases,
        targets,
        units,
        prices: TokenRates::prices(spec.prices.as_ref()),
        output_cap: OutputCap { tokens: u64::from(cap.tokens.unwrap_or(4096)), send: cap.send },
        tokenizer: match spec.tokenizer.as_str() {
            "o200k" => Tokenizer::O200k,
            "cl100k" => Tokenizer::Cl100k,
            "bytes" => Tokenizer::Bytes,
            _ => Tokenizer::Auto,
        },
        retry: retry::parse(spec.retry.as_ref(), found),
        choice: match spec.choice.as_str() {
            "least_busy" => Spread::LeastBusy,
            "latency" => Spread::Latency,
            "prefix" => Spread::Prefix,
            _ => Spread::Weighted,
        },
        max_ejected: spec.max_ejected.unwrap_or(0.5),
        fallback: retry::fallback(spec.fallback.as_ref()),
        when_unavailable: when_unavailable(spec.when_unavailable.as_ref()),
        routing: spec
            .routing
            .as_ref()
            .map(|routing| Box::new(routing::parse(routing, &spec.name, found))),
        owned_by: if spec.owned_by.is_empty() {
            "sluicegate".into()
        } else {
            spec.owned_by.clone()
        },
    })
}

fn parse_target(spec: &pb::Target) -> Target {
    Target {
        provider: spec.provider.clone(),
        model: (!spec.model.is_empty()).then(|| spec.model.clone()),
        weight: spec.weight.unwrap_or(1),
        priority: spec.priority,
    }
}

fn when_unavailable(spec: Option<&pb::WhenUnavailable>) -> WhenUnavailable {
    let spec = spec.cloned().unwrap_or_default();
    WhenUnavailable {
        answer: match spec.answer.as_str() {
            "wait" => Unavailable::Wait,
            "defer" => Unavailable::Defer,
            "degraded" => Unavailable::Degraded,
            _ => Unavailable::Reject,
        },
        wait: Duration::from_millis(spec.wait_ms.unwrap_or(2_000).into()),
        max_waiting: spec.max_waiting.unwrap_or(1_000),
        keep_alive: spec.keep_alive,
        reply: Some(spec.reply).filter(|reply| !reply.is_empty()),
    }
}
