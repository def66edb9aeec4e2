//! Other amounts of a limit for single subjects.

use sluicegate_proto::resource::v1 as pb;

use super::{
    form,
    limit::{self, Limit, Window},
};
use crate::{
    path::Path,
    scope::{Scope, Selector},
    violation::{Violation, Violations},
};

/// An override as it is written. What its amounts mean depends on the limit: [`Override::fit`].
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    pub name: String,
    pub limit: String,
    /// Parts that name one subject each.
    pub subject: Scope,
    pub rate: String,
    pub burst: Option<f64>,
    pub amount: Option<f64>,
    /// When it ends, in milliseconds since the Unix epoch.
    pub expires_unix_ms: Option<u64>,
    pub reason: String,
}

pub(super) fn parse(spec: &pb::Override, found: &mut Violations) -> Option<Override> {
    let mut add = |field: &str, message: &str, hint: &str| {
        found.0.push(Violation::new(Path::root().field(field), message).hint(hint));
    };
    let subject = Scope::from_proto(spec.subject.as_ref()?);
    if subject.is_empty() {
        add("subject", "names nobody", "change the limit itself, or name one subject");
    }
    if subject.parts().any(|(_, selector)| *selector == Selector::Each) {
        add("subject", "\"*\" is not one subject", "give a name, or leave the part out");
    }
    if spec.rate.is_empty() && spec.burst.is_none() && spec.amount.is_none() {
        add("rate", "the override changes nothing", "give rate, burst or amount");
    }
    Some(Override {
        name: spec.name.clone(),
        limit: spec.limit.clone(),
        subject,
        rate: spec.rate.clone(),
        burst: spec.burst,
        amount: spec.amount,
        expires_unix_ms: form::time(&spec.expires_at).ok(),
        reason: spec.reason.clone(),
    })
}

impl Override {
    /// The limit's windows as they are under the override.
    ///
    /// # Errors
    /// What of it does not fit the limit.
    pub fn fit(&self, limit: &Limit) -> Result<Vec<Window>, Violations> {
        let mut found = Violations::default();
        let rates = limit::rate_amounts(&self.rate, limit.dimension, &mut found);
        let burst = self
            .burst
            .and_then(|burst| limit::amount_of("burst", burst, limit.dimension, &mut found));
        let amount = self
            .amount
            .and_then(|amount| limit::amount_of("amount", amount, limit.dimension, &mut found));
        let mut add = |field: &str, message: String, hint: &str| {
            found.0.push(Violation::new(Path::root().field(field), message).hint(hint));
        };
        for (part, _) in self.subject.parts() {
            if limit.scope.get(part).is_none() {
                add(
                    "subject",
                    format!("limit '{}' does not tell {}s apart", limit.name, part.name()),
                    "name parts of the limit's scope",
                );
            }
        }
        for (window_s, _) in &rates {
            if !limit.windows.iter().any(|window| window.window_s() == *window_s) {
                add(
                    "rate",
                    format!("limit '{}' has no rate for {window_s} s", limit.name),
                    "use the windows of the limit's rate",
                );
            }
        }
        let is_rate = limit.windows.iter().any(|window| matches!(window, Window::Rate { .. }));
        if is_rate && self.amount.is_some() {
            add("amount", format!("limit '{}' has rates", limit.name), "use rate");
        }
        if !is_rate && (!self.rate.is_empty() || self.burst.is_some()) {
            add("rate", format!("limit '{}' has no rate", limit.name), "use amount");
        }
        let windows = limit.windows.iter().map(|window| {
            let mut window = window.clone();
            match &mut window {
                Window::Rate { amount, window_s, burst: of, .. } => {
                    if let Some((_, rate)) = rates.iter().find(|(other, _)| other == window_s) {
                        // A burst that was only the rate's amount stays that.
                        if *of == *amount {
                            *of = *rate;
                        }
                        *amount = *rate;
                    }
                    *of = burst.unwrap_or(*of);
                }
                Window::Calendar { amount: of, .. } | Window::Slots { amount: of } => {
                    *of = amount.unwrap_or(*of);
                }
            }
            window
        });
        let windows = windows.collect();
        found.or(windows)
    }
}
