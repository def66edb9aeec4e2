//! What data planes ask, read once.

use std::time::Duration;

use bytes::Bytes;
use sluicegate_model::{Violation, Violations, path::Path};
use sluicegate_proto::deferred::v1 as pb;
use sluicegate_store::deferred::{Claim, MAX_CLAIM_QUEUES, MAX_TIME_MS};

use super::webhook::{Allowed, Endpoint};
use crate::error::CoreError;

const DAY_MS: u64 = 86_400_000;
const NAME_BYTES: usize = 256;
const QUEUE_BYTES: usize = 1_280;
/// Of a tenant, and of a key.
const CALLER_BYTES: usize = 240;
const NOTE_BYTES: usize = 8 << 10;
const CONTENT_TYPE_BYTES: usize = 256;
const LEASE_MS: u64 = 60_000;
const LEASES_MS: std::ops::RangeInclusive<u64> = 1_000..=600_000;
/// Longest wait of a claim; a stream of calls that last longer looks dead to what is in between.
const MAX_WAIT_MS: u64 = 20_000;

/// Whose a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    tenant: String,
    key: String,
}

impl Owner {
    pub(super) fn parse(caller: Option<pb::Caller>) -> Result<Self, CoreError> {
        let mut found = Violations::default();
        let pb::Caller { tenant, key } = caller.unwrap_or_default();
        let at = |field| Path::root().field("caller").field(field);
        text(&mut found, at("tenant"), &tenant, 0, CALLER_BYTES);
        text(&mut found, at("key"), &key, 1, CALLER_BYTES);
        Ok(found.or(Self { tenant, key })?)
    }

    /// One text that no other tenant and key have.
    pub(super) fn to_text(&self) -> String {
        format!("{}:{}{}", self.tenant.len(), self.tenant, self.key)
    }

    /// Who shares room and turns with others: the tenant, or a key that is of none.
    pub(super) fn party(&self) -> String {
        if self.tenant.is_empty() { self.to_text() } else { format!("tenant:{}", self.tenant) }
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        let (length, names) = text.split_once(':')?;
        let (tenant, key) = names.split_at_checked(length.parse().ok()?)?;
        Some(Self { tenant: tenant.to_owned(), key: key.to_owned() })
    }
}

impl From<Owner> for pb::Caller {
    fn from(Owner { tenant, key }: Owner) -> Self {
        Self { tenant, key }
    }
}

/// A request that is to be kept.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) owner: Owner,
    pub(super) idempotency_key: String,
    pub(super) queue: String,
    pub(super) body: Bytes,
    pub(super) note: Bytes,
    pub(super) expires_ms: u64,
    pub(super) keep_ms: u64,
    pub(super) webhook: Option<pb::Webhook>,
}

impl Want {
    pub(super) fn parse(request: pb::PutRequest, allowed: &Allowed) -> Result<Self, CoreError> {
        let owner = Owner::parse(request.caller)?;
        let mut found = Violations::default();
        let at = |field| Path::root().field(field);
        text(&mut found, at("idempotency_key"), &request.idempotency_key, 0, NAME_BYTES);
        text(&mut found, at("queue"), &request.queue, 1, QUEUE_BYTES);
        if request.note.len() > NOTE_BYTES {
            let message = format!("is over {NOTE_BYTES} bytes");
            found.0.push(Violation::new(at("note"), message));
        }
        for (field, ms) in [("expires_ms", request.expires_ms), ("keep_ms", request.keep_ms)] {
            if ms > MAX_TIME_MS {
                found.0.push(Violation::new(at(field), "is over 31 days"));
            }
        }
        if let Some(webhook) = &request.webhook
            && let Err(mut faults) = Endpoint::parse(webhook, allowed)
        {
            found.0.append(&mut faults.0);
        }
        let or_a_day = |ms| if ms == 0 { DAY_MS } else { ms };
        Ok(found.or(Self {
            owner,
            idempotency_key: request.idempotency_key,
            queue: request.queue,
            body: request.body,
            note: request.note,
            expires_ms: or_a_day(request.expires_ms),
            keep_ms: or_a_day(request.keep_ms),
            webhook: request.webhook,
        })?)
    }
}

/// What is to be claimed, and how long to wait for it.
pub(super) fn claim(request: pb::ClaimRequest) -> Result<(Claim, Duration), CoreError> {
    let mut found = Violations::default();
    let at = |field| Path::root().field(field);
    text(&mut found, at("node_id"), &request.node_id, 1, NAME_BYTES);
    text(&mut found, at("call"), &request.call, 1, NAME_BYTES);
    if request.queues.len() > MAX_CLAIM_QUEUES {
        let message = format!("are more than {MAX_CLAIM_QUEUES}");
        found.0.push(Violation::new(at("queues"), message).hint("claim them in several calls"));
    }
    for (index, one) in request.queues.iter().enumerate().take(MAX_CLAIM_QUEUES) {
        let path = at("queues").index(index).field("queue");
        text(&mut found, path, &one.queue, 1, QUEUE_BYTES);
    }
    if request.wait_ms > MAX_WAIT_MS {
        found.0.push(Violation::new(at("wait_ms"), format!("is over {MAX_WAIT_MS} ms")));
    }
    let lease_ms = match lease(request.lease_ms) {
        Ok(lease_ms) => lease_ms,
        Err(violation) => {
            found.0.push(violation);
            LEASE_MS
        }
    };
    let queues = request.queues.into_iter().map(|one| (one.queue, one.most)).collect();
    let claim = Claim { node: request.node_id, call: request.call, queues, lease_ms };
    Ok(found.or((claim, Duration::from_millis(request.wait_ms)))?)
}

/// How long an attempt has what it claimed.
pub(super) fn lease_ms(ms: u64) -> Result<u64, CoreError> {
    lease(ms).map_err(|violation| CoreError::Invalid(violation.into()))
}

fn lease(ms: u64) -> Result<u64, Violation> {
    match ms {
        0 => Ok(LEASE_MS),
        ms if LEASES_MS.contains(&ms) => Ok(ms),
        _ => Err(Violation::new(Path::root().field("lease_ms"), "is not 1 s to 10 min")),
    }
}

/// A result that callers can be given.
pub(super) fn response(response: Option<pb::Response>) -> Result<pb::Response, CoreError> {
    let mut found = Violations::default();
    let at = |field| Path::root().field("response").field(field);
    let response = response.unwrap_or_default();
    if !(100..600).contains(&response.status) {
        found.0.push(Violation::new(at("status"), "is no HTTP status"));
    }
    text(&mut found, at("content_type"), &response.content_type, 0, CONTENT_TYPE_BYTES);
    Ok(found.or(response)?)
}

fn text(found: &mut Violations, path: Path, text: &str, least: usize, most: usize) {
    if text.len() < least || text.len() > most || text.chars().any(char::is_control) {
        let violation = Violation::new(path, "cannot be kept");
        let hint = format!("use {least} to {most} bytes without control characters");
        found.0.push(violation.hint(hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_owners_have_one_text() {
        let owner = |tenant: &str, key: &str| Owner { tenant: tenant.into(), key: key.into() };
        let all = [
            owner("", "ab"),
            owner("a", "b"),
            owner("ab", "c"),
            owner("1:", "1:"),
            owner("é", "/"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(Owner::from_text(&one.to_text()).as_ref(), Some(one));
            assert!(all.iter().skip(index + 1).all(|other| other.to_text() != one.to_text()));
        }
        for bad in ["", "x", "2:a", "-1:a", "1:é", "18446744073709551616:a"] {
            assert_eq!(Owner::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn leases_have_bounds() {
        assert_eq!(lease_ms(0).unwrap(), LEASE_MS);
        assert_eq!(lease_ms(1_000).unwrap(), 1_000);
        for bad in [1, 999, 600_001, u64::MAX] {
            assert!(lease_ms(bad).is_err(), "{bad}");
        }
    }
}
