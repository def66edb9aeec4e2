//! Requests that kill what they are sent to: found here, and told to and by the fleet.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use sluicegate_dialect::Fault;
use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::Outcome;
use sluicegate_protocol::breaker::{Blocked, Death, End, Fingerprint, Poison, Verdict};

use super::{Target, lock};

/// Every request that is suspected or blocked.
#[derive(Debug, Default)]
pub struct Guard {
    poison: Mutex<Poison>,
    /// Something is suspected or blocked; while nothing is, nobody need ask.
    busy: AtomicBool,
}

/// One request, as far as it may be such a one.
#[derive(Debug, Clone)]
pub struct Suspect(Arc<Request>);

#[derive(Debug)]
struct Request {
    guard: Arc<Guard>,
    tenant: Arc<str>,
    model: String,
    body: Bytes,
    /// Taken when it is asked for: of most requests it never is.
    fingerprint: OnceLock<Fingerprint>,
}

impl Guard {
    /// A request of a tenant for a model, by its public name. The same again is the same one.
    pub fn suspect(self: &Arc<Self>, tenant: &Arc<str>, model: &str, body: &Bytes) -> Suspect {
        Suspect(Arc::new(Request {
            guard: self.clone(),
            tenant: tenant.clone(),
            model: model.to_owned(),
            body: body.clone(),
            fingerprint: OnceLock::new(),
        }))
    }

    /// What was found here and still holds.
    pub fn own(&self) -> Vec<Blocked> {
        if !self.busy.load(Ordering::Relaxed) {
            return Vec::new();
        }
        lock(&self.poison).own(boottime_ms())
    }

    /// The fleet tells of one.
    pub fn merge(&self, blocked: Blocked) {
        lock(&self.poison).merge(blocked, boottime_ms());
        self.busy.store(true, Ordering::Relaxed);
    }
}

impl Suspect {
    /// May it be sent?
    ///
    /// # Errors
    /// It is blocked, and for how long.
    pub fn check(&self) -> Result<(), Blocked> {
        let Request { guard, .. } = &*self.0;
        if !guard.busy.load(Ordering::Relaxed) {
            return Ok(());
        }
        lock(&guard.poison).check(self.fingerprint(), boottime_ms())
    }

    /// It failed at this target, before its end was told there.
    pub(crate) fn failed(&self, target: &Target, fault: &Fault, end: End) -> Verdict {
        let death = match end {
            End::EngineDead | End::OutOfMemory => Death::Fatal,
            _ if fault.outcome == Outcome::Network && !fault.unsent => {
                Death::Reset { others: target.broken_others() }
            }
            _ => return Verdict::Innocent,
        };
        let (guard, fingerprint) = (&self.0.guard, self.fingerprint());
        let mut poison = lock(&guard.poison);
        let verdict = poison.died(fingerprint, &target.key, death, boottime_ms());
        guard.busy.store(!poison.is_idle(), Ordering::Relaxed);
        drop(poison);
        if let Verdict::Blocked(blocked) = verdict {
            let fingerprint = format!("{:032x}", blocked.fingerprint.0);
            tracing::warn!(target = %target.key, fingerprint, "a request that kills targets is blocked");
        }
        verdict
    }

    /// It went well.
    pub(crate) fn survived(&self) {
        let guard = &self.0.guard;
        if !guard.busy.load(Ordering::Relaxed) {
            return;
        }
        let mut poison = lock(&guard.poison);
        poison.survived(self.fingerprint());
        guard.busy.store(!poison.is_idle(), Ordering::Relaxed);
    }

    /// Tells it from every other request that is under way.
    pub(super) fn number(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn fingerprint(&self) -> Fingerprint {
        *self.0.fingerprint.get_or_init(|| {
            let Request { tenant, model, body, .. } = &*self.0;
            let mut hasher = blake3::Hasher::new();
            for part in [tenant.as_bytes(), model.as_bytes(), body] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
            let mut digest = [0; 16];
            hasher.finalize_xof().fill(&mut digest);
            Fingerprint(u128::from_be_bytes(digest))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_a_request_is_told_from_others_by_tenant_model_and_body() {
        let guard = Arc::new(Guard::default());
        let print = |tenant: &str, model, body: &str| {
            guard
                .suspect(&tenant.into(), model, &Bytes::copy_from_slice(body.as_bytes()))
                .fingerprint()
        };
        let one = print("t", "m", "body");
        assert_eq!(one, print("t", "m", "body"));
        for other in [
            print("u", "m", "body"),
            print("t", "n", "body"),
            print("t", "m", "bodz"),
            print("tm", "", "body"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn b1_what_the_fleet_blocks_is_not_sent_and_not_told_on() {
        let guard = Arc::new(Guard::default());
        let of = |body| guard.suspect(&"t".into(), "m", &Bytes::from_static(body));
        let suspect = of(b"x");
        assert_eq!(suspect.check(), Ok(()));
        guard.merge(Blocked { fingerprint: suspect.fingerprint(), left_ms: 60_000 });
        assert!(suspect.check().is_err());
        assert_eq!(guard.own(), []);
        assert_eq!(of(b"y").check(), Ok(()));
    }
}
