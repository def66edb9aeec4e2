//! Which model answers, and why.

use std::fmt;

use sluicegate_model::resource::{
    Routing,
    routing::{Check, Classifier, Label, OFF},
};

use super::features::Features;
use crate::visible::visible;

/// What the rules come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<'a> {
    To(Route<'a>),
    /// No rule matches: the small model is to be asked. What it says goes to [`labelled`].
    Ask(&'a Classifier),
}

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<'a> {
    /// Public name. The routed model's own: its targets.
    pub model: &'a str,
    pub by: By<'a>,
}

/// What decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    Rule(&'a str),
    /// The small model, by this label.
    Label(&'a str),
    /// Neither a rule nor the small model said anything.
    Otherwise,
    /// The caller, by the name of a rule.
    ChosenRule(&'a str),
    /// The caller, by the name of a model, or by turning routing off.
    ChosenModel,
    Off,
    /// An answer before this was not good enough.
    Escalation(Check),
}

/// Asks the rules in order. `own` is the name of the routed model.
pub fn decide<'a>(routing: &'a Routing, own: &'a str, features: &Features<'_>) -> Decision<'a> {
    let rule = routing.rules.iter().find(|rule| features.fit(&rule.when));
    match (rule, &routing.classifier) {
        (Some(rule), _) => Decision::To(Route { model: &rule.model, by: By::Rule(&rule.name) }),
        (None, Some(classifier)) => Decision::Ask(classifier),
        (None, None) => Decision::To(otherwise(routing, own)),
    }
}

/// Where a request goes after the small model was asked; `None`: it said nothing of use, or not in time.
pub fn labelled<'a>(routing: &'a Routing, own: &'a str, label: Option<&'a Label>) -> Route<'a> {
    match label {
        Some(label) => Route { model: &label.model, by: By::Label(&label.label) },
        None => otherwise(routing, own),
    }
}

fn otherwise<'a>(routing: &'a Routing, own: &'a str) -> Route<'a> {
    Route { model: routing.otherwise.as_deref().unwrap_or(own), by: By::Otherwise }
}

/// The value of a header that tells a route: printable ASCII; what is not is written as in URLs.
pub fn shown(model: &str, by: impl fmt::Display) -> String {
    visible(&format!("{model};by={by}"), b"")
}

/// For headers and records: `rule:long`.
impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(name) => write!(f, "rule:{name}"),
            Self::Label(name) => write!(f, "label:{name}"),
            Self::Otherwise => f.write_str("otherwise"),
            Self::ChosenRule(name) => write!(f, "caller:{name}"),
            Self::ChosenModel => f.write_str("caller"),
            Self::Off => f.write_str(OFF),
            Self::Escalation(check) => write!(f, "escalation:{}", check.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c8_headers_tell_model_and_reason() {
        for (model, by, expected) in [
            ("strong", By::Rule("long"), "strong;by=rule:long"),
            ("small", By::Label("easy"), "small;by=label:easy"),
            ("auto", By::Otherwise, "auto;by=otherwise"),
            ("strong", By::ChosenRule("long"), "strong;by=caller:long"),
            ("strong", By::ChosenModel, "strong;by=caller"),
            ("auto", By::Off, "auto;by=off"),
            ("strong", By::Escalation(Check::InvalidJson), "strong;by=escalation:invalid_json"),
            ("模%", By::ChosenModel, "%E6%A8%A1%25;by=caller"),
        ] {
            assert_eq!(shown(model, by), expected);
        }
    }
}
