//! What went wrong with a request's attempts, and which of it its caller is told.

use std::time::Duration;

use sluicegate_dialect::{Call, Fault, Unfit};
use sluicegate_model::{Outcome, outcome::Blame};

use crate::{
    quota::LimitFacts,
    refusal::Refusal,
    route::{Choice, Full, Obstacles, Plan, Shut},
};

/// How long callers are asked to wait while keys or targets are left that were not tried.
const SHORT: Duration = Duration::from_secs(1);

/// Everything that stood in the way so far, the newest of each kind.
#[derive(Debug, Default)]
pub(super) struct Failures {
    attempt: Option<(Fault, Choice)>,
    limited: Option<Box<LimitFacts>>,
    unfit: Option<Unfit>,
}

impl Failures {
    /// An attempt has failed. What a fallback says is wrong with the request is wrong for that model;
    /// the caller asked for another, whose failure tells more.
    pub(super) fn attempt(&mut self, fault: Fault, choice: Choice) {
        let is_theirs = choice.why.is_some() && fault.outcome.blame() == Blame::Caller;
        if self.attempt.is_none() || !is_theirs {
            self.attempt = Some((fault, choice));
        }
    }

    /// A limit on a target held the request back.
    pub(super) fn limited(&mut self, facts: Box<LimitFacts>) {
        self.limited = Some(facts);
    }

    /// A target cannot take the request.
    pub(super) fn unfit(&mut self, unfit: Unfit) {
        self.unfit = Some(unfit);
    }

    /// Has anything been tried?
    pub(super) fn any(&self) -> bool {
        self.attempt.is_some()
    }

    /// How long the last upstream that failed wants to be left alone.
    pub(super) fn told(&self) -> Option<Duration> {
        self.attempt.as_ref().and_then(|(fault, _)| fault.wait)
    }

    /// What the caller is told.
    pub(super) fn refusal(self, plan: &Plan<'_>, call: &Call) -> Refusal {
        if let Some((mut fault, choice)) = self.attempt {
            if !plan.is_last() {
                // Others may take the next request at once; only the number of attempts is used up.
                fault.wait = fault.wait.map(|wait| wait.min(SHORT));
            }
            if let Some(down) =
                plan.obstacles().down.filter(|_| fault.outcome == Outcome::RateLimited)
            {
                // Another key may be back before this one.
                let left = Duration::from_millis(down.left_ms);
                fault.wait = Some(fault.wait.map_or(left, |wait| wait.min(left)));
            }
            return Refusal::Upstream { fault, provider: choice.provider.name.clone() };
        }
        let model = call.model.clone();
        let Obstacles { down, shut, full } = plan.obstacles().clone();
        match (self.limited, full, shut, down, self.unfit) {
            (Some(facts), ..) => Refusal::Limited(facts),
            (_, Some(Full { provider, wait_ms, .. }), ..) => {
                // Those who are refused together must not come back together.
                let wait_ms = wait_ms.saturating_add(fastrand::u64(0..=wait_ms / 4));
                Refusal::Full { model, provider, wait_ms }
            }
            (_, _, Some(Shut { provider, refused }), ..) => {
                Refusal::Shut { model, provider, refused }
            }
            (_, _, _, Some(down), _) => Refusal::NoKey { model, down },
            (_, _, _, _, Some(unfit)) => Refusal::Unfit(unfit),
            _ => Refusal::NoTarget { model, endpoint: call.endpoint.name(), served: true },
        }
    }
}
