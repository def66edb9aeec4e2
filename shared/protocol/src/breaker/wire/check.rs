//! Health probes as they travel.

use sluicegate_proto::health::v1 as pb;

use super::{Malformed, for_people};
use crate::breaker::{Check, Finding, Health, TargetKey};

impl Finding {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self, target: &TargetKey) -> pb::Finding {
        use pb::finding::Health as Wire;
        let health = match self.health {
            Health::Unknown => Wire::Unknown,
            Health::Well => Wire::Well,
            Health::Ill => Wire::Ill,
        };
        pb::Finding {
            target: Some(target.to_proto()),
            seq: self.seq,
            health: health.into(),
            reason: self.reason.clone(),
        }
    }

    pub(super) fn of_proto(wire: pb::Finding) -> Result<(TargetKey, Self), Malformed> {
        use pb::finding::Health as Wire;
        let health = match wire.health() {
            Wire::Unknown => Health::Unknown,
            Wire::Well => Health::Well,
            Wire::Ill => Health::Ill,
            Wire::Unspecified => return Err(Malformed::new("health", "is none that is known")),
        };
        let reason = for_people(&wire.reason);
        Ok((TargetKey::of_proto(wire.target)?, Self { seq: wire.seq, health, reason }))
    }
}

impl Check {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::Check {
        pb::Check { target: Some(self.target.to_proto()), ttl_ms: self.ttl_ms }
    }
}

impl TryFrom<pb::Check> for Check {
    type Error = Malformed;

    fn try_from(wire: pb::Check) -> Result<Self, Malformed> {
        Ok(Self { target: TargetKey::of_proto(wire.target)?, ttl_ms: wire.ttl_ms })
    }
}
