//! Leave for one call to find out how an open target does.

use super::{Local, Ticket, phase::Phase, ticket::PermitId};
use crate::breaker::{Changed, Probe, ProbeResult, Reason};

/// One probe. It is over by itself, whatever becomes of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Permit {
    id: PermitId,
    taken: bool,
    /// Until it is taken: not to be taken later. Then: not to be answered later.
    until_ms: u64,
    answer_by_ms: u64,
}

impl Permit {
    pub(super) fn granted(id: u64, generation: u64, deadline_ms: u64, now_ms: u64) -> Self {
        Self {
            id: PermitId { id, granted: Some(generation) },
            taken: false,
            until_ms: now_ms.saturating_add(deadline_ms / 4),
            answer_by_ms: now_ms.saturating_add(deadline_ms),
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.id.granted.is_some()
    }

    pub(super) fn left_ms(&self, now_ms: u64) -> u64 {
        self.until_ms.saturating_sub(now_ms)
    }
}

impl Local {
    /// Would the next call be a probe? Then it is to be sent here, whatever the target's weight.
    pub fn wants_probe(&self) -> bool {
        match (&self.permit, &self.phase) {
            (Some(permit), _) => !permit.taken,
            (None, Phase::HalfOpen { drawn, .. }) => self.is_free() && (*drawn || !self.away),
            (None, _) => false,
        }
    }

    /// Takes the permit that is there, or the node's own if it has to do without the fleet.
    pub(super) fn take_permit(&mut self, now_ms: u64) -> Option<PermitId> {
        if !self.wants_probe() {
            return None;
        }
        if self.permit.is_none() {
            self.permits = self.permits.wrapping_add(1);
            let answer_by_ms = now_ms.saturating_add(self.rules.probe_ms);
            self.permit = Some(Permit {
                id: PermitId { id: self.permits, granted: None },
                taken: false,
                until_ms: answer_by_ms,
                answer_by_ms,
            });
            if let Phase::HalfOpen { drawn, .. } = &mut self.phase {
                *drawn = false;
            }
        }
        let permit = self.permit.as_mut()?;
        permit.taken = true;
        permit.until_ms = permit.answer_by_ms;
        Some(permit.id)
    }

    pub(super) fn is_probe(&self, ticket: Ticket) -> bool {
        let id = self.permit.as_ref().filter(|permit| permit.taken).map(|permit| permit.id);
        id.is_some() && id == ticket.permit
    }

    /// The probe has an answer. While the fleet gives orders it draws the conclusion.
    pub(super) fn probed(&mut self, probe: Probe, now_ms: u64) -> Changed {
        let Some(permit) = self.permit.take() else { return Changed::default() };
        let free = self.is_free();
        let transition = match (probe, &mut self.phase) {
            _ if !free => None,
            (Probe::Ok, Phase::Open { .. } | Phase::HalfOpen { .. }) => {
                self.ramp(Reason::ProbeSucceeded, now_ms)
            }
            (Probe::Failed, Phase::HalfOpen { .. }) => self.trip(Reason::ProbeFailed, now_ms),
            (Probe::Unused, Phase::HalfOpen { drawn, .. }) => {
                // The lot that fell on this node is still its own.
                *drawn |= !permit.is_granted();
                None
            }
            _ => None,
        };
        let probe = permit.id.granted.map(|generation| ProbeResult { generation, probe });
        Changed { transition, probe }
    }

    pub(super) fn permit_expired(&mut self, now_ms: u64) -> Changed {
        match &self.permit {
            Some(permit) if permit.until_ms <= now_ms => {
                let probe = if permit.taken { Probe::Failed } else { Probe::Unused };
                self.probed(probe, now_ms)
            }
            _ => Changed::default(),
        }
    }
}
