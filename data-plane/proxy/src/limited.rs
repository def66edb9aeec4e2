//! A request between admission and its attempts: what the limits that are for it are asked, first
//! for the request, then for each attempt.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    admit::Permit,
    estimate::Sizes,
    policy::{Policy, limits::Who},
    quota::{Ask, LimitFacts, Quota, Reservation},
    report::Report,
    route::Choice,
};

/// What limits tell requests apart by, besides the caller's key and tenant.
#[derive(Debug, Default)]
pub struct Names {
    user: String,
    address: String,
    app: String,
}

impl Names {
    /// As the request has them: the key's own user stands before the one that the caller names.
    pub fn of(permit: &Permit, report: &Report) -> Self {
        let record = &report.record;
        let user = permit.caller.user.as_ref().or(record.user.as_ref());
        Self {
            user: user.cloned().unwrap_or_default(),
            address: record.client.clone().unwrap_or_default(),
            app: record.app.clone().unwrap_or_default(),
        }
    }
}

/// Everything that limits ask of one request.
#[derive(Debug)]
pub struct Limited<'a> {
    pub quota: &'a Arc<Quota>,
    pub policy: &'a Policy,
    pub permit: &'a Permit,
    pub names: Names,
    pub sizes: Sizes,
    /// When the caller stops waiting, if it says so.
    pub deadline: Option<Instant>,
}

impl Limited<'_> {
    /// Takes what is needed from the limits for the request; with `choice`, from those for an
    /// attempt that goes there. `patient`: there is no other way, so that a short wait is worth it.
    ///
    /// # Errors
    /// The facts of the limit that refused; nothing is taken then.
    pub async fn reserve(
        &mut self,
        choice: Option<&Choice>,
        patient: bool,
    ) -> Result<Reservation, Box<LimitFacts>> {
        if self.policy.limits.is_empty() {
            return Ok(Reservation::default());
        }
        let caller = &self.permit.caller;
        let credential = choice.and_then(|choice| choice.credential.as_ref());
        let who = Who {
            tenants: &caller.tenants,
            key: &caller.key,
            user: &self.names.user,
            model: &self.permit.model.name,
            address: &self.names.address,
            app: &self.names.app,
            provider: choice.map_or("", |choice| &choice.provider.name),
            credential: credential.map_or("", |credential| &credential.name),
        };
        let model = &self.permit.model;
        let mut ask = Ask {
            who,
            sizes: &mut self.sizes,
            units: model.units,
            prices: model.prices,
            patient,
            deadline: self.deadline,
        };
        self.quota.reserve(self.policy, &mut ask, choice.is_some()).await
    }
}
