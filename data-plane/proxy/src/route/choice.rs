//! Where one attempt goes.

use std::sync::Arc;

use sluicegate_dialect::{Fault, redact};
use sluicegate_model::{Outcome, secret::Secret};
use sluicegate_protocol::breaker::{End, Verdict};

use super::Why;
use crate::{
    policy::{Credential, Model, Provider},
    pool::Pass,
    target::{SETTLING, Suspect, Target, Trip, end_of},
};

/// Where one attempt goes.
#[derive(Debug)]
pub struct Choice {
    pub provider: Arc<Provider>,
    /// `None` for a provider that takes no key.
    pub credential: Option<Arc<Credential>>,
    /// Name sent upstream.
    pub model: String,
    /// The public model that it answers as.
    pub serves: Arc<Model>,
    /// Why that is another than the one that was asked for.
    pub why: Option<Why>,
    /// Leave to use the key.
    pub(super) pass: Option<Pass>,
    /// Leave to send something to the target.
    pub(super) trip: Trip,
    /// The request, as far as it may kill what it is sent to.
    pub(crate) suspect: Option<Suspect>,
    /// The caller made the model's name up, or asks for more than the model may be for: that there is no
    /// such thing is then no fault of the key.
    pub(super) chosen: bool,
}

impl Choice {
    /// The upstream takes the key: its answer has begun, or where it comes all at once, is there with so
    /// many tokens.
    pub fn succeeded(&mut self, output_tokens: u64) {
        if let Some(pass) = &self.pass {
            pass.succeeded();
        }
        self.trip.first_event(output_tokens);
    }

    /// The answer that had begun has ended.
    pub fn ended(&mut self, fault: &Fault) {
        let end = end_of(fault, true);
        if fault.outcome == Outcome::Network
            && let Some(suspect) = &self.suspect
        {
            self.trip.target().broke(suspect);
        }
        if let Some(suspect) = self.suspect.take() {
            match end {
                End::Success => suspect.survived(),
                end => drop(suspect.failed(self.trip.target(), fault, end)),
            }
        }
        self.trip.ended(end, false);
    }

    /// The whole answer is here.
    pub fn survived(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            suspect.survived();
        }
    }

    /// Where it goes.
    pub fn target(&self) -> &Arc<Target> {
        self.trip.target()
    }

    /// Its way to the target.
    pub fn trip(&self) -> &Trip {
        &self.trip
    }

    /// The failure without anything that is known to be private: the keys of the provider, where it was sent.
    /// What merely looks so is taken out where it is shown.
    pub fn scrubbed(&self, mut fault: Fault) -> Fault {
        let keys = self.credential.iter().chain(&self.provider.credentials);
        let keys = keys.flat_map(|credential| &credential.private);
        let mut private: Vec<&str> = keys.map(Secret::expose).collect();
        private.push(self.provider.base_url.authority.host());
        for text in [&mut fault.message, &mut fault.code, &mut fault.param].into_iter().flatten() {
            *text = redact::known(text, &private);
        }
        fault
    }

    /// Waits for as long as it takes to see whether others broke together with it.
    pub async fn settle(&self, fault: &Fault) {
        if fault.outcome == Outcome::Network
            && !fault.unsent
            && let Some(suspect) = &self.suspect
            && self.trip.target().broke(suspect)
        {
            tokio::time::sleep(SETTLING).await;
        }
    }

    /// The attempt failed before an answer had begun. Tells what may become of the request.
    pub fn failed(&mut self, fault: &Fault) -> Verdict {
        self.condemns(fault);
        let full = matches!(fault.outcome, Outcome::RateLimited | Outcome::Overloaded);
        let end = end_of(fault, false);
        let suspect = self.suspect.take();
        let verdict = suspect.map(|suspect| suspect.failed(self.trip.target(), fault, end));
        self.trip.ended(end, full);
        verdict.unwrap_or(Verdict::Innocent)
    }

    /// What was said concerns the key.
    pub fn condemns(&self, fault: &Fault) {
        if let Some(pass) = &self.pass {
            pass.failed(fault, self.chosen);
        }
    }
}
