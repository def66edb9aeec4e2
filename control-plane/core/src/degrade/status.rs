//! How degradations stand, for operators.

use sluicegate_model::{Kind, Resource, ResourceRef, resource::Degradation};
use sluicegate_proto::admin::v1 as pb;
use sluicegate_protocol::degrade::Reason;
use sluicegate_telemetry::clock;

use super::{
    Degrade,
    board::{Levels, Published},
};
use crate::{error::CoreError, state::State};

impl Degrade {
    /// How each degradation of the desired state stands.
    ///
    /// # Errors
    /// [`CoreError::NotFound`] for one that is not there.
    pub fn status(
        &self,
        state: &State,
        request: &pb::DegradeStatusRequest,
    ) -> Result<pb::DegradeStatusReply, CoreError> {
        let asked = ResourceRef::new(Kind::Degradation, &request.degradation);
        if !request.degradation.is_empty() && !state.resources.contains_key(&asked) {
            return Err(state.not_found(&asked));
        }
        let levels = self.subscribe().borrow().clone();
        let wanted = |spec: &&Degradation| {
            request.degradation.is_empty() || spec.name == request.degradation
        };
        let statuses = specs(state).filter(wanted).map(|spec| status(spec, &levels));
        let works_on_them = *self.leads().borrow();
        Ok(pb::DegradeStatusReply { degradations: statuses.collect(), works_on_them })
    }
}

/// Every degradation of a state, by name.
pub(super) fn specs(state: &State) -> impl Iterator<Item = &Degradation> {
    let from = ResourceRef::new(Kind::Degradation, "");
    let all = state.resources.range(from..).map(|(_, stored)| &stored.parsed);
    all.map_while(|resource| match resource {
        Resource::Degradation(spec) => Some(spec),
        _ => None,
    })
}

fn status(spec: &Degradation, levels: &Levels) -> pb::DegradationStatus {
    let now_ms = clock::unix_ms();
    let manual = spec.manual.as_ref().filter(|manual| manual.expires_unix_ms > now_ms);
    let manual = manual.map(|manual| pb::DegradationManual {
        level: manual.level.number(),
        left_ms: manual.expires_unix_ms.saturating_sub(now_ms),
        comment: manual.comment.clone(),
    });
    let degradation = spec.name.clone();
    let Some(published) = levels.get(&spec.name) else {
        return pb::DegradationStatus { degradation, manual, ..Default::default() };
    };
    let Published { level, reason, since_unix_ms, unknown } = published;
    let (cause, reason, readings) = match reason {
        Reason::Initial => ("none", String::new(), Vec::new()),
        Reason::Readings { condition, values } => {
            let readings = values.iter().cloned();
            let readings = readings.map(|(name, value)| pb::DegradationReading { name, value });
            ("readings", condition.clone(), readings.collect())
        }
        Reason::ByHand { comment } => ("by_hand", comment.clone(), Vec::new()),
        Reason::HandEnded => ("hand_ended", String::new(), Vec::new()),
        Reason::Redefined => ("redefined", String::new(), Vec::new()),
    };
    pb::DegradationStatus {
        degradation,
        level: Some(level.number()),
        cause: cause.to_owned(),
        reason,
        readings,
        since_unix_ms: if cause == "none" { 0 } else { *since_unix_ms },
        unknown: unknown.clone(),
        manual,
    }
}
