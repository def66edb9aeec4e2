//! Reports and orders as they travel.

mod check;

use sluicegate_proto::health::v1 as pb;

use super::{
    Blocked, Counts, Directive, Finding, Fingerprint, Grant, MAX_COMMENT, Order, Probe,
    ProbeResult, State, TargetKey, Window, target::check,
};

/// Most windows, probes or blocked requests of one report.
pub const MAX_REPORT: usize = 10_000;

/// What a data plane tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub node: String,
    pub zone: Option<String>,
    pub windows: Vec<(TargetKey, Window)>,
    pub probes: Vec<(TargetKey, ProbeResult)>,
    /// What the data plane found itself.
    pub blocked: Vec<Blocked>,
    /// Of the targets that it was told to probe.
    pub findings: Vec<(TargetKey, Finding)>,
    /// It sends health probes where it is told to.
    pub checks: bool,
}

/// What is said of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    Order(Directive),
    /// It is closed: what was said up to this generation is over.
    Withdrawn {
        target: TargetKey,
        generation: u64,
    },
}

/// A message that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {what}")]
pub struct Malformed {
    /// Such as `windows[3].target`.
    pub field: String,
    pub what: &'static str,
}

impl Malformed {
    fn new(field: impl Into<String>, what: &'static str) -> Self {
        Self { field: field.into(), what }
    }

    fn within(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field), ..self }
    }
}

impl Report {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::ReportRequest {
        pb::ReportRequest {
            node_id: self.node.clone(),
            zone: self.zone.clone().unwrap_or_default(),
            windows: self.windows.iter().map(|(key, window)| window.to_proto(key)).collect(),
            probes: self.probes.iter().map(|(key, result)| result.to_proto(key)).collect(),
            blocked: self.blocked.iter().map(Blocked::to_proto).collect(),
            findings: self.findings.iter().map(|(key, finding)| finding.to_proto(key)).collect(),
            checks: self.checks,
        }
    }
}

impl TryFrom<pb::ReportRequest> for Report {
    type Error = Malformed;

    fn try_from(wire: pb::ReportRequest) -> Result<Self, Malformed> {
        const NAME: &str = "must have 1 to 1024 bytes and no control characters";
        check(&wire.node_id).map_err(|_| Malformed::new("node_id", NAME))?;
        let zone = Some(wire.zone).filter(|zone| !zone.is_empty());
        if let Some(zone) = &zone {
            check(zone).map_err(|_| Malformed::new("zone", NAME))?;
        }
        Ok(Self {
            node: wire.node_id,
            zone,
            windows: all("windows", wire.windows, Window::of_proto)?,
            probes: all("probes", wire.probes, ProbeResult::of_proto)?,
            blocked: all("blocked", wire.blocked, Blocked::try_from)?,
            findings: all("findings", wire.findings, Finding::of_proto)?,
            checks: wire.checks,
        })
    }
}

/// Every element of a list of bounded length.
fn all<W, T>(
    field: &str,
    wire: Vec<W>,
    read: impl Fn(W) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    if wire.len() > MAX_REPORT {
        return Err(Malformed::new(field, "are too many: at most 10000 are taken at once"));
    }
    let read = |(index, one)| read(one).map_err(|bad| bad.within(&format!("{field}[{index}]")));
    wire.into_iter().enumerate().map(read).collect()
}

impl TargetKey {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::Target {
        pb::Target { provider: self.provider.clone(), model: self.model.clone() }
    }

    fn of_proto(wire: Option<pb::Target>) -> Result<Self, Malformed> {
        let wire = wire.ok_or_else(|| Malformed::new("target", "is missing"))?;
        let key = Self::new(wire.provider, wire.model).checked();
        key.map_err(|_| Malformed::new("target", "has a name that cannot be kept"))
    }
}

impl State {
    /// The wire form.
    #[must_use]
    pub fn to_proto(self) -> pb::State {
        match self {
            Self::Closed => pb::State::Closed,
            Self::Suspect => pb::State::Suspect,
            Self::Ramping => pb::State::Ramping,
            Self::HalfOpen => pb::State::HalfOpen,
            Self::Open => pb::State::Open,
        }
    }
}

impl Counts {
    fn to_proto(self) -> pb::Counts {
        let Self { started, answered, failed, timed, slow, stalled, memory, dead } = self;
        pb::Counts { started, answered, failed, timed, slow, stalled, memory, dead }
    }
}

impl From<pb::Counts> for Counts {
    fn from(wire: pb::Counts) -> Self {
        let pb::Counts { started, answered, failed, timed, slow, stalled, memory, dead } = wire;
        Self { started, answered, failed, timed, slow, stalled, memory, dead }
    }
}

impl Window {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self, target: &TargetKey) -> pb::Window {
        pb::Window {
            target: Some(target.to_proto()),
            seq: self.seq,
            state: self.state.to_proto().into(),
            own: self.own,
            fatal: self.fatal,
            split: self.split,
            generation: self.generation,
            heard: self.heard,
            waiting: self.waiting,
            in_flight: self.in_flight,
            recent: Some(self.recent.to_proto()),
            long: Some(self.long.to_proto()),
        }
    }

    fn of_proto(wire: pb::Window) -> Result<(TargetKey, Self), Malformed> {
        let state = match wire.state() {
            pb::State::Closed => State::Closed,
            pb::State::Suspect => State::Suspect,
            pb::State::Ramping => State::Ramping,
            pb::State::HalfOpen => State::HalfOpen,
            pb::State::Open => State::Open,
            pb::State::Unspecified => return Err(Malformed::new("state", "is none that is known")),
        };
        let key = TargetKey::of_proto(wire.target)?;
        let window = Self {
            seq: wire.seq,
            state,
            own: wire.own,
            fatal: wire.fatal,
            split: wire.split,
            generation: wire.generation,
            heard: wire.heard,
            waiting: wire.waiting,
            in_flight: wire.in_flight,
            recent: wire.recent.map(Counts::from).unwrap_or_default(),
            long: wire.long.map(Counts::from).unwrap_or_default(),
        };
        Ok((key, window))
    }
}

impl ProbeResult {
    fn to_proto(self, target: &TargetKey) -> pb::ProbeResult {
        use pb::probe_result::Result;
        let result = match self.probe {
            Probe::Ok => Result::Ok,
            Probe::Failed => Result::Failed,
            Probe::Unused => Result::Unused,
        };
        pb::ProbeResult {
            target: Some(target.to_proto()),
            generation: self.generation,
            result: result.into(),
        }
    }

    fn of_proto(wire: pb::ProbeResult) -> Result<(TargetKey, Self), Malformed> {
        let probe = match wire.result() {
            pb::probe_result::Result::Ok => Probe::Ok,
            pb::probe_result::Result::Failed => Probe::Failed,
            pb::probe_result::Result::Unused => Probe::Unused,
            pb::probe_result::Result::Unspecified => {
                return Err(Malformed::new("result", "is none that is known"));
            }
        };
        let key = TargetKey::of_proto(wire.target)?;
        Ok((key, Self { generation: wire.generation, probe }))
    }
}

impl Blocked {
    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::Blocked {
        let fingerprint = self.fingerprint.0.to_be_bytes().to_vec().into();
        pb::Blocked { fingerprint, left_ms: self.left_ms }
    }
}

impl TryFrom<pb::Blocked> for Blocked {
    type Error = Malformed;

    fn try_from(wire: pb::Blocked) -> Result<Self, Malformed> {
        let bytes = <[u8; 16]>::try_from(&wire.fingerprint[..])
            .map_err(|_| Malformed::new("fingerprint", "must have 16 bytes"))?;
        let fingerprint = Fingerprint(u128::from_be_bytes(bytes));
        Ok(Self { fingerprint, left_ms: wire.left_ms })
    }
}

impl Word {
    pub fn target(&self) -> &TargetKey {
        match self {
            Self::Order(directive) => &directive.target,
            Self::Withdrawn { target, .. } => target,
        }
    }

    pub fn generation(&self) -> u64 {
        match self {
            Self::Order(directive) => directive.generation,
            Self::Withdrawn { generation, .. } => *generation,
        }
    }

    /// The same, said so much later.
    #[must_use]
    pub fn aged(&self, age_ms: u64) -> Self {
        let Self::Order(directive) = self else { return self.clone() };
        let left = |left_ms: u64| left_ms.saturating_sub(age_ms);
        let order = match directive.order {
            Order::Open { left_ms } => Order::Open { left_ms: left(left_ms) },
            Order::ForcedOpen { left_ms } => Order::ForcedOpen { left_ms: left(left_ms) },
            Order::ForcedClosed { left_ms } => Order::ForcedClosed { left_ms: left(left_ms) },
            Order::Ill { left_ms } => Order::Ill { left_ms: left(left_ms) },
            order @ (Order::HalfOpen | Order::Ramp { .. }) => order,
        };
        Self::Order(Directive { order, ttl_ms: left(directive.ttl_ms), ..directive.clone() })
    }

    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::Directive {
        use pb::directive::Order as Wire;
        let (order, ttl_ms, reason) = match self {
            Self::Withdrawn { .. } => (Wire::Withdrawn(pb::Withdrawn {}), 0, String::new()),
            Self::Order(directive) => {
                let order = match directive.order {
                    Order::Open { left_ms } => Wire::OpenMs(left_ms),
                    Order::HalfOpen => Wire::HalfOpen(pb::HalfOpen {}),
                    Order::Ramp { percent } => Wire::RampPercent(percent.into()),
                    Order::ForcedOpen { left_ms } => Wire::ForcedOpenMs(left_ms),
                    Order::ForcedClosed { left_ms } => Wire::ForcedClosedMs(left_ms),
                    Order::Ill { left_ms } => Wire::IllMs(left_ms),
                };
                (order, directive.ttl_ms, directive.reason.clone())
            }
        };
        pb::Directive {
            target: Some(self.target().to_proto()),
            generation: self.generation(),
            order: Some(order),
            ttl_ms,
            reason,
        }
    }
}

impl TryFrom<pb::Directive> for Word {
    type Error = Malformed;

    fn try_from(wire: pb::Directive) -> Result<Self, Malformed> {
        use pb::directive::Order as Wire;
        let target = TargetKey::of_proto(wire.target)?;
        let generation = wire.generation;
        let order = match wire.order {
            Some(Wire::OpenMs(left_ms)) => Order::Open { left_ms },
            Some(Wire::HalfOpen(_)) => Order::HalfOpen,
            Some(Wire::RampPercent(percent)) => {
                let percent = u8::try_from(percent).ok().filter(|it| (1..=100).contains(it));
                let percent = percent.ok_or_else(|| Malformed::new("ramp_percent", "is no share"));
                Order::Ramp { percent: percent? }
            }
            Some(Wire::ForcedOpenMs(left_ms)) => Order::ForcedOpen { left_ms },
            Some(Wire::ForcedClosedMs(left_ms)) => Order::ForcedClosed { left_ms },
            Some(Wire::IllMs(left_ms)) => Order::Ill { left_ms },
            Some(Wire::Withdrawn(_)) => return Ok(Self::Withdrawn { target, generation }),
            None => return Err(Malformed::new("order", "is none that is known")),
        };
        let reason = for_people(&wire.reason);
        Ok(Self::Order(Directive { target, generation, order, ttl_ms: wire.ttl_ms, reason }))
    }
}

impl Grant {
    /// The wire form, which does not name the node.
    #[must_use]
    pub fn to_proto(&self) -> pb::Grant {
        pb::Grant {
            target: Some(self.target.to_proto()),
            generation: self.generation,
            deadline_ms: self.deadline_ms,
        }
    }

    /// Reads the wire form, for this node.
    ///
    /// # Errors
    /// It names no target.
    pub fn of_proto(node: String, wire: pb::Grant) -> Result<Self, Malformed> {
        let target = TargetKey::of_proto(wire.target)?;
        Ok(Self { node, target, generation: wire.generation, deadline_ms: wire.deadline_ms })
    }
}

/// A text of bounded length, without control characters.
fn for_people(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_COMMENT).collect()
}

#[cfg(test)]
mod tests;
