//! What data planes tell of what makes degradations begin, on the wire and read.

use sluicegate_proto::degrade::v1 as pb;

use super::held::{Directive, MAX_TTL_MS};
use crate::breaker::TargetKey;
use sluicegate_model::resource::degradation::Level;

/// Most entries of timeouts in one report.
pub const MAX_TIMEOUTS: usize = 1_000;
/// Most targets whose breakers one report tells.
pub const MAX_BREAKERS: usize = 10_000;
/// Most tenants that a caller has, its own and those above it.
pub const MAX_TENANTS: usize = 32;
/// Longest name of anything, in bytes.
const MAX_NAME: usize = 1_024;

/// What one data plane has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub node: String,
    /// One for each start of the data plane.
    pub incarnation: u64,
    /// Grows with each report.
    pub sequence: u64,
    /// Since the report before.
    pub timeouts: Vec<ToolTimeouts>,
    /// Every target; `None`: as they were told last.
    pub breakers: Option<Vec<TargetBreaker>>,
}

/// Requests that offered tools and ended by a timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolTimeouts {
    /// Public name of the model.
    pub model: String,
    /// The caller's tenant, then those above it.
    pub tenants: Vec<String>,
    pub count: u32,
}

/// How one target stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetBreaker {
    /// Public name of the model that it is a target of.
    pub model: String,
    pub target: TargetKey,
    /// It is left alone.
    pub open: bool,
}

/// A message that no data plane and no control plane makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    #[error("a name is empty, has more than {MAX_NAME} bytes, or holds control characters")]
    BadName,
    #[error("more than {MAX_TIMEOUTS} entries of timeouts")]
    ManyTimeouts,
    #[error("more than {MAX_BREAKERS} targets")]
    ManyBreakers,
    #[error("a caller with more than {MAX_TENANTS} tenants")]
    ManyTenants,
    #[error("there is no level {0}")]
    NoLevel(u32),
}

fn checked(name: String) -> Result<String, InvalidMessage> {
    let good = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    if good { Ok(name) } else { Err(InvalidMessage::BadName) }
}

impl Report {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::ReportRequest {
        let timeouts = self.timeouts.iter().map(|one| pb::ToolTimeouts {
            model: one.model.clone(),
            tenants: one.tenants.clone(),
            count: one.count,
        });
        let breaker = |one: &TargetBreaker| pb::Breaker {
            model: one.model.clone(),
            provider: one.target.provider.clone(),
            upstream_model: one.target.model.clone(),
            open: one.open,
        };
        let breakers = self.breakers.as_ref();
        pb::ReportRequest {
            node_id: self.node.clone(),
            incarnation: self.incarnation,
            sequence: self.sequence,
            tool_timeouts: timeouts.collect(),
            breakers: breakers
                .map(|all| pb::Breakers { breakers: all.iter().map(breaker).collect() }),
        }
    }
}

impl TryFrom<pb::ReportRequest> for Report {
    type Error = InvalidMessage;

    fn try_from(wire: pb::ReportRequest) -> Result<Self, InvalidMessage> {
        if wire.tool_timeouts.len() > MAX_TIMEOUTS {
            return Err(InvalidMessage::ManyTimeouts);
        }
        let breakers = wire.breakers.map(|all| all.breakers);
        if breakers.as_ref().is_some_and(|all| all.len() > MAX_BREAKERS) {
            return Err(InvalidMessage::ManyBreakers);
        }
        let timeouts = wire.tool_timeouts.into_iter().map(ToolTimeouts::try_from);
        let breakers = breakers.map(|all| all.into_iter().map(TargetBreaker::try_from).collect());
        Ok(Self {
            node: checked(wire.node_id)?,
            incarnation: wire.incarnation,
            sequence: wire.sequence,
            timeouts: timeouts.collect::<Result<_, _>>()?,
            breakers: breakers.transpose()?,
        })
    }
}

impl TryFrom<pb::ToolTimeouts> for ToolTimeouts {
    type Error = InvalidMessage;

    fn try_from(wire: pb::ToolTimeouts) -> Result<Self, InvalidMessage> {
        if wire.tenants.len() > MAX_TENANTS {
            return Err(InvalidMessage::ManyTenants);
        }
        let tenants = wire.tenants.into_iter().map(checked).collect::<Result<_, _>>()?;
        Ok(Self { model: checked(wire.model)?, tenants, count: wire.count })
    }
}

impl TryFrom<pb::Breaker> for TargetBreaker {
    type Error = InvalidMessage;

    fn try_from(wire: pb::Breaker) -> Result<Self, InvalidMessage> {
        let target = TargetKey::new(wire.provider, wire.upstream_model).checked();
        let target = target.map_err(|_| InvalidMessage::BadName)?;
        Ok(Self { model: checked(wire.model)?, target, open: wire.open })
    }
}

impl Directive {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::Level {
        pb::Level {
            degradation: self.name.clone(),
            level: self.level.number(),
            ttl_ms: self.ttl_ms,
        }
    }
}

impl TryFrom<pb::Level> for Directive {
    type Error = InvalidMessage;

    /// Reads the wire form. The time is capped at [`MAX_TTL_MS`].
    fn try_from(wire: pb::Level) -> Result<Self, InvalidMessage> {
        let level = Level::of(wire.level).ok_or(InvalidMessage::NoLevel(wire.level))?;
        Ok(Self { name: checked(wire.degradation)?, level, ttl_ms: wire.ttl_ms.min(MAX_TTL_MS) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn timeouts(model: &str) -> ToolTimeouts {
        ToolTimeouts { model: model.into(), tenants: vec!["t".into()], count: 2 }
    }

    fn report() -> Report {
        let breaker =
            TargetBreaker { model: "m".into(), target: TargetKey::new("p", "x"), open: true };
        Report {
            node: "n".into(),
            incarnation: 7,
            sequence: u64::MAX,
            timeouts: vec![timeouts("m")],
            breakers: Some(vec![breaker]),
        }
    }

    #[test]
    fn b4_reports_come_back_as_they_were_told() {
        for report in [report(), Report { breakers: None, ..report() }] {
            assert_eq!(Report::try_from(report.to_proto()), Ok(report));
        }
        let empty = Report { breakers: Some(Vec::new()), ..report() };
        assert_eq!(Report::try_from(empty.to_proto()), Ok(empty), "no targets is something told");
    }

    #[test]
    fn b4_what_no_data_plane_tells_is_refused() {
        let wire = || report().to_proto();
        let mut cases = vec![(pb::ReportRequest::default(), InvalidMessage::BadName)];
        let many = vec![wire().tool_timeouts[0].clone(); MAX_TIMEOUTS + 1];
        cases.push((
            pb::ReportRequest { tool_timeouts: many, ..wire() },
            InvalidMessage::ManyTimeouts,
        ));
        let breakers = vec![pb::Breaker::default(); MAX_BREAKERS + 1];
        cases.push((
            pb::ReportRequest { breakers: Some(pb::Breakers { breakers }), ..wire() },
            InvalidMessage::ManyBreakers,
        ));
        let mut deep = wire();
        deep.tool_timeouts[0].tenants = vec!["t".into(); MAX_TENANTS + 1];
        cases.push((deep, InvalidMessage::ManyTenants));
        let mut long = wire();
        long.tool_timeouts[0].model = "x".repeat(MAX_NAME + 1);
        cases.push((long, InvalidMessage::BadName));
        let mut odd = wire();
        odd.breakers.as_mut().unwrap().breakers[0].provider = "a\nb".into();
        cases.push((odd, InvalidMessage::BadName));
        for (wire, expected) in cases {
            assert_eq!(Report::try_from(wire), Err(expected));
        }
    }

    proptest! {
        #[test]
        fn b4_levels_are_read_or_refused(level in 0..9_u32, ttl_ms in any::<u64>(), name in "\\PC{0,9}") {
            let wire = pb::Level { degradation: name.clone(), level, ttl_ms };
            match Directive::try_from(wire) {
                Ok(read) => {
                    prop_assert_eq!((read.level.number(), &read.name), (level, &name));
                    prop_assert_eq!(read.ttl_ms, ttl_ms.min(MAX_TTL_MS));
                    prop_assert_eq!(Directive::try_from(read.to_proto()), Ok(read));
                }
                Err(InvalidMessage::NoLevel(of)) => prop_assert!(of == level && level > 3),
                Err(_) => prop_assert!(name.is_empty()),
            }
        }
    }
}
