//! May a request be kept for later, and what does its caller say of that?

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header::HeaderValue};
use sluicegate_dialect::{Call, Endpoint};
use sluicegate_model::resource::model::Unavailable;
use sluicegate_proto::deferred::v1 as pb;
use sluicegate_telemetry::clock;

use super::MOST_BODY;
use crate::{
    admit,
    policy::{Caller, Model, Policy},
    refusal::{Refusal, Undeferred},
};

/// With `true`: kept at once, without a try.
pub(crate) const DEFER: &str = "x-sluicegate-defer";
/// How long it may wait to be run. Milliseconds; a day otherwise.
const EXPIRES: &str = "x-sluicegate-defer-expires-ms";
/// Where its end is told, and what that is signed with.
const WEBHOOK_URL: &str = "x-sluicegate-webhook-url";
const WEBHOOK_SECRET: &str = "x-sluicegate-webhook-secret";
/// The same request again is the first one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Headers that are kept, because they decide how a request is run.
const CARRIED: [&str; 3] = ["x-app-source", "x-sluicegate-fill-usage", "x-sluicegate-route"];
/// Longest value of such a header, in bytes.
const MOST_CARRIED: usize = 256;
/// Longest idempotency key, in bytes.
const MOST_KEY: usize = 256;
/// Longest wait: what stores take.
const MOST_EXPIRES_MS: u64 = 31 * 86_400_000;

/// A request whose model keeps what it cannot run now.
#[derive(Debug)]
pub struct Offer<'a> {
    pub(super) model: Arc<Model>,
    /// As the caller wrote it.
    pub(super) asked: String,
    endpoint: Endpoint,
    stream: bool,
    body: Bytes,
    headers: &'a HeaderMap,
    policy_revision: u64,
    /// Its caller does not want a try.
    pub at_once: bool,
}

/// Is the request one that can be kept?
///
/// # Errors
/// Its caller wants it to be kept, and it cannot be.
pub fn offer<'a>(
    policy: &Policy,
    caller: &Caller,
    call: &Call,
    headers: &'a HeaderMap,
) -> Result<Option<Offer<'a>>, Refusal> {
    let at_once = headers.get(DEFER).is_some_and(|value| value == "true");
    if at_once {
        admit::model(policy, caller, &call.model)?;
    }
    let Some(model) = policy.model(&call.model) else { return Ok(None) };
    if model.when_unavailable.answer != Unavailable::Defer {
        let why = Undeferred::NotOffered { model: model.name.clone() };
        return if at_once { Err(Refusal::Deferral(why)) } else { Ok(None) };
    }
    Ok(Some(Offer {
        model: model.clone(),
        asked: call.model.clone(),
        endpoint: call.endpoint,
        stream: call.stream,
        body: call.body.clone(),
        headers,
        policy_revision: policy.revision,
        at_once,
    }))
}

impl Offer<'_> {
    /// What a control plane is asked to keep.
    ///
    /// # Errors
    /// Why it cannot be kept.
    pub(super) fn put(&self, caller: &Caller) -> Result<pb::PutRequest, Undeferred> {
        if self.stream {
            return Err(Undeferred::Stream);
        }
        if self.body.len() > MOST_BODY {
            return Err(Undeferred::TooLarge { limit: MOST_BODY });
        }
        let expires_ms = match text(self.headers, EXPIRES)? {
            None => 0,
            Some(text) => {
                let ms = text.parse().ok().filter(|ms| (1..=MOST_EXPIRES_MS).contains(ms));
                ms.ok_or_else(|| invalid(EXPIRES, "is no time of 1 ms to 31 days"))?
            }
        };
        let idempotency_key = match text(self.headers, IDEMPOTENCY_KEY)? {
            Some(key) if key.len() > MOST_KEY => {
                return Err(invalid(IDEMPOTENCY_KEY, "is over 256 bytes"));
            }
            Some(key) if !key.is_empty() => key.to_owned(),
            // Of our own: the store may be asked twice.
            _ => format!("sluicegate-{}", uuid::Uuid::new_v4().simple()),
        };
        let webhook = match (text(self.headers, WEBHOOK_URL)?, text(self.headers, WEBHOOK_SECRET)?)
        {
            (None, None) => None,
            (Some(url), Some(secret)) => {
                Some(pb::Webhook { url: url.to_owned(), secret: secret.to_owned() })
            }
            (Some(_), None) => return Err(invalid(WEBHOOK_SECRET, "is missing")),
            (None, Some(_)) => return Err(invalid(WEBHOOK_URL, "is missing")),
        };
        let note = pb::Note {
            endpoint: self.endpoint.name().to_owned(),
            model: self.asked.clone(),
            created_unix_ms: clock::unix_ms(),
            policy_revision: self.policy_revision,
            headers: carried(self.headers),
        };
        Ok(pb::PutRequest {
            caller: Some(owner(caller)),
            idempotency_key,
            queue: self.model.name.clone(),
            body: self.body.clone(),
            note: prost::Message::encode_to_vec(&note).into(),
            expires_ms,
            keep_ms: 0,
            webhook,
        })
    }

    /// Has the caller named the request itself?
    pub(super) fn is_named(&self) -> bool {
        self.headers.get(IDEMPOTENCY_KEY).is_some_and(|key| !key.is_empty())
    }
}

/// Whose a request is.
pub(super) fn owner(caller: &Caller) -> pb::Caller {
    pb::Caller { tenant: caller.tenant.clone().unwrap_or_default(), key: caller.key.clone() }
}

/// What a request is run with, of the headers that it came with.
fn carried(headers: &HeaderMap) -> HashMap<String, String> {
    let named = CARRIED.into_iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        let end = value.floor_char_boundary(MOST_CARRIED);
        Some((name.to_owned(), value.get(..end)?.to_owned()))
    });
    named.collect()
}

/// The headers that a kept request is run with: only those that are kept, whoever noted them.
pub(super) fn restored(note: &pb::Note) -> HeaderMap {
    let known = CARRIED.into_iter().filter_map(|name| {
        let value = HeaderValue::from_str(note.headers.get(name)?).ok()?;
        Some((HeaderName::from_static(name), value))
    });
    known.collect()
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Undeferred> {
    let value = headers.get(name).map(|value| value.to_str());
    value.transpose().map_err(|_| invalid(name, "is not plain text"))
}

fn invalid(name: &str, what: &str) -> Undeferred {
    Undeferred::Invalid(format!("the header {name} {what}"))
}
