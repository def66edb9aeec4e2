//! The caller's own word about where a request goes.

use http::HeaderName;
use sluicegate_model::resource::{Routing, routing::OFF};

use super::decide::{By, Route};

/// What callers set: the name of a rule, the public name of a model that the routing names, or `off`
/// for the model that was asked for.
pub const HEADER: HeaderName = HeaderName::from_static("x-sluicegate-route");

/// Longest list of names in a refusal.
const MOST_LISTED: usize = 16;

/// Why a choice is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChoice {
    #[error("model '{model}' does not let callers choose by x-sluicegate-route")]
    NotAllowed { model: String },
    #[error("x-sluicegate-route names no rule or model of '{model}'; use one of {}, or off", .known.join(", "))]
    Unknown { model: String, known: Vec<String> },
}

/// Reads the header's value. `own` is the name of the routed model. Whether the caller may use the model
/// that is chosen is asked like for any other.
///
/// # Errors
/// When callers may not choose, or it names nothing that this routing knows.
pub fn choose<'a>(
    value: &[u8],
    routing: &'a Routing,
    own: &'a str,
) -> Result<Route<'a>, BadChoice> {
    if !routing.may_override {
        return Err(BadChoice::NotAllowed { model: own.to_owned() });
    }
    let value = value.trim_ascii();
    if value == OFF.as_bytes() {
        return Ok(Route { model: own, by: By::Off });
    }
    if let Some(rule) = routing.rules.iter().find(|rule| rule.name.as_bytes() == value) {
        return Ok(Route { model: &rule.model, by: By::ChosenRule(&rule.name) });
    }
    let named = routing.named().into_iter().map(|(_, model)| model).chain([own]);
    let mut models = named.filter(|model| model.as_bytes() == value);
    models.next().map(|model| Route { model, by: By::ChosenModel }).ok_or_else(|| {
        let rules = routing.rules.iter().map(|rule| rule.name.clone());
        let models = routing.named().into_iter().map(|(_, model)| model.to_owned());
        let mut known: Vec<_> = rules.chain(models).collect();
        known.sort_unstable();
        known.dedup();
        known.truncate(MOST_LISTED);
        BadChoice::Unknown { model: own.to_owned(), known }
    })
}
