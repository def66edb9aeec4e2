//! Which model answers in another's place, by what a request looks like.

mod parse;
mod text;
mod when;

use std::time::Duration;

use sluicegate_proto::resource::v1 as pb;
pub use whatlang::{Lang, Script};

pub use text::TextPattern;
pub use when::{HeaderMatch, When};

use crate::{
    name::{Kind, ResourceRef},
    path::Path,
    violation::Violations,
};

/// Characters of a text that are looked at.
pub const MAX_LOOKED_AT: usize = 16_384;

/// The value of the header that turns routing off for a request.
pub const OFF: &str = "off";

/// How requests for one model are shared out among others.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    /// In order; the first that matches holds.
    pub rules: Vec<Rule>,
    /// Asked where no rule matches.
    pub classifier: Option<Classifier>,
    /// Answers where neither says anything; `None`: the model's own targets.
    pub otherwise: Option<String>,
    pub escalation: Option<Escalation>,
    /// Callers may choose for themselves.
    pub may_override: bool,
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub name: String,
    pub when: When,
    /// Public name.
    pub model: String,
}

/// A small model that says what kind of task a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classifier {
    /// Public name.
    pub model: String,
    /// What it is told; `None`: the usual words.
    pub prompt: Option<String>,
    /// At least two.
    pub labels: Vec<Label>,
    pub deadline: Duration,
    /// Characters of the user's last message that it is shown.
    pub max_input_chars: usize,
}

/// What a classifier may answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub label: String,
    /// What it is for; may be empty.
    pub description: String,
    /// Public name.
    pub model: String,
}

/// What is not good enough of an answer, and who answers then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    /// At least one.
    pub on: Vec<Check>,
    /// From the weakest to the strongest; at least one.
    pub models: Vec<String>,
    /// Beginnings of answers that are refusals, in lower case.
    pub refusal_phrases: Vec<String>,
}

/// What may be wrong with a whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// The model declined.
    Refusal,
    /// It was cut off.
    Length,
    /// It is no JSON, and JSON was asked for.
    InvalidJson,
    /// It has neither text nor a tool call.
    Empty,
}

impl Check {
    const ALL: [Self; 4] = [Self::Refusal, Self::Length, Self::InvalidJson, Self::Empty];

    /// As files and records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refusal => "refusal",
            Self::Length => "length",
            Self::InvalidJson => "invalid_json",
            Self::Empty => "empty",
        }
    }
}

impl Escalation {
    /// The model that is asked after an answer of this one; `None` behind the strongest.
    pub fn after(&self, model: &str) -> Option<&str> {
        let next = match self.models.iter().position(|one| one == model) {
            Some(at) => at + 1,
            None => 0,
        };
        self.models.get(next).map(String::as_str)
    }
}

impl Routing {
    /// Every model that may answer, and where it is named.
    pub fn named(&self) -> Vec<(Path, &str)> {
        let root = Path::root().field("routing");
        let mut named = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            named.push((root.field("rules").index(index).field("model"), rule.model.as_str()));
        }
        let labels = self.classifier.iter().flat_map(|classifier| &classifier.labels);
        for (index, label) in labels.enumerate() {
            let path = root.field("classifier").field("labels").index(index).field("model");
            named.push((path, label.model.as_str()));
        }
        named.extend(self.otherwise.iter().map(|name| (root.field("otherwise"), name.as_str())));
        let models = self.escalation.iter().flat_map(|escalation| &escalation.models);
        for (index, model) in models.enumerate() {
            named.push((root.field("escalation").field("models").index(index), model.as_str()));
        }
        named
    }

    /// What it refers to, and where.
    pub fn references(&self) -> Vec<(Path, ResourceRef)> {
        let root = Path::root().field("routing");
        let model = |(path, name): (Path, &str)| (path, ResourceRef::new(Kind::Model, name));
        let mut found: Vec<_> = self.named().into_iter().map(model).collect();
        if let Some(classifier) = &self.classifier {
            let path = root.field("classifier").field("model");
            found.push((path, ResourceRef::new(Kind::Model, &classifier.model)));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let path = root.field("rules").index(index).field("when");
            for (at, name) in rule.when.tenants.iter().enumerate() {
                let path = path.field("tenants").index(at);
                found.push((path, ResourceRef::new(Kind::Tenant, name)));
            }
            for (at, name) in rule.when.keys.iter().enumerate() {
                found.push((path.field("keys").index(at), ResourceRef::new(Kind::ApiKey, name)));
            }
        }
        found
    }

    /// May a caller who may use the routed model be sent to this one?
    pub fn names(&self, model: &str) -> bool {
        self.named().iter().any(|(_, name)| *name == model)
    }
}

pub(super) fn parse(spec: &pb::Routing, model: &str, found: &mut Violations) -> Routing {
    parse::routing(spec, model, found)
}
