//! Telling ends of requests to their callers' servers: where that may be, what is said, how it is
//! signed, when it is tried again. Nothing here is sent.

use std::{net::IpAddr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::Uri;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::Sha256;
use sluicegate_model::{
    Violation, Violations,
    address::{Network, is_public},
    path::Path,
};
use sluicegate_proto::deferred::v1 as pb;
use sluicegate_store::deferred::{DeliveryOutcome, JobState};
use zeroize::Zeroizing;

const URL_BYTES: usize = 2_048;
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of a secret. (Standard Webhooks, "signature scheme")
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
const FIRST_WAIT_MS: u64 = 5_000;
const LONGEST_WAIT_MS: u64 = 4 * 3_600_000;
/// Then nobody is going to answer.
const GIVE_UP_MS: u64 = 86_400_000;

/// Networks that ends may be told in though they are not public.
#[derive(Debug, Clone, Default)]
pub struct Allowed(pub Vec<Network>);

impl Allowed {
    /// May this address be gone to? Without TLS only where somebody allowed it by name.
    pub fn holds(&self, address: IpAddr, encrypted: bool) -> bool {
        let by_name = self.0.iter().any(|network| network.contains(address));
        by_name || (encrypted && is_public(address))
    }
}

/// A caller's server.
#[derive(Clone)]
pub struct Endpoint {
    uri: Uri,
    secret: Zeroizing<Vec<u8>>,
}

impl Endpoint {
    /// Reads one. A host that is written as an address is judged; what a name stands for must be
    /// when it is looked up.
    ///
    /// # Errors
    /// Which field is wrong, without repeating the secret.
    pub fn parse(webhook: &pb::Webhook, allowed: &Allowed) -> Result<Self, Violations> {
        let at = |field| Path::root().field("webhook").field(field);
        let mut found = Violations::default();
        let uri = url(&webhook.url, allowed).map_err(|message| {
            found.0.push(Violation::new(at("url"), message).hint("use https and a public host"));
        });
        let secret = secret(&webhook.secret);
        if secret.is_none() {
            let hint = "use whsec_ and base64 of 24 to 64 random bytes";
            found.0.push(Violation::new(at("secret"), "is no signing secret").hint(hint));
        }
        match (uri, secret) {
            (Ok(uri), Some(secret)) => Ok(Self { uri, secret }),
            _ => Err(found),
        }
    }

    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Is it reached with TLS?
    pub fn is_encrypted(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// The value of `webhook-signature` for a message with this `webhook-id`, and with this
    /// `webhook-timestamp` in seconds since the Unix epoch. (Standard Webhooks, "verifying webhook
    /// authenticity")
    pub fn sign(&self, id: &str, timestamp_s: u64, body: &[u8]) -> String {
        // A key of any length will do.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) else {
            return String::new();
        };
        mac.update(format!("{id}.{timestamp_s}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A path may hold a token.
        f.debug_struct("Endpoint").field("host", &self.uri.host()).finish_non_exhaustive()
    }
}

fn url(text: &str, allowed: &Allowed) -> Result<Uri, &'static str> {
    if text.len() > URL_BYTES {
        return Err("is over 2048 bytes");
    }
    let uri: Uri = text.parse().map_err(|_| "is no URL")?;
    let encrypted = match uri.scheme_str() {
        Some("https") => true,
        Some("http") if !allowed.0.is_empty() => false,
        _ => return Err("is not https"),
    };
    let authority = uri.authority().ok_or("names no host")?;
    if authority.as_str().contains('@') {
        return Err("holds a user");
    }
    let host = authority.host().trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(address) if !allowed.holds(address, encrypted) => {
            Err("is at an address that is not public")
        }
        _ if host.is_empty() => Err("names no host"),
        _ => Ok(uri),
    }
}

fn secret(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = Zeroizing::new(STANDARD.decode(text.strip_prefix(SECRET_PREFIX)?).ok()?);
    SECRET_BYTES.contains(&bytes.len()).then_some(bytes)
}

/// An end that is to be told.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Of the request; the same for every attempt, so that the receiver can tell repeats.
    pub id: String,
    /// From 1.
    pub attempt: u64,
    /// Since the request ended.
    pub age_ms: u64,
    pub payload: Bytes,
    pub endpoint: Endpoint,
}

/// What a caller's server said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This status.
    Status(u16),
    /// Nothing in time, or there was no connection.
    None,
}

impl Webhook {
    /// What follows from an answer: 2xx is success, 410 asks not to be told again, everything else is
    /// tried again with growing waits until the end is a day old.
    pub fn outcome(&self, answer: Answer) -> DeliveryOutcome {
        match answer {
            Answer::Status(200..300 | 410) => DeliveryOutcome::Over,
            _ if self.age_ms >= GIVE_UP_MS => DeliveryOutcome::Over,
            Answer::Status(_) | Answer::None => {
                let tries = u32::try_from(self.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
                let wait_ms = FIRST_WAIT_MS.saturating_mul(3_u64.saturating_pow(tries));
                DeliveryOutcome::Again { after_ms: wait_ms.min(LONGEST_WAIT_MS) }
            }
        }
    }
}

/// The deadline of one attempt.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// What is told, as JSON.
#[derive(Serialize)]
struct Payload<'a> {
    object: &'static str,
    id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Response<'a>>,
}

#[derive(Serialize)]
struct Response<'a> {
    status: u32,
    content_type: &'a str,
    /// The answer as it is, where it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// The message about an end.
pub(super) fn payload(id: &str, state: JobState, response: Option<&pb::Response>) -> Vec<u8> {
    let response = response.map(|response| {
        let body: Option<&RawValue> = serde_json::from_slice(&response.body).ok();
        Response {
            status: response.status,
            content_type: &response.content_type,
            body,
            body_base64: body.is_none().then(|| STANDARD.encode(&response.body)),
        }
    });
    let status = match state {
        JobState::Done => "done",
        JobState::Cancelled => "cancelled",
        JobState::Expired => "expired",
        JobState::Waiting => "waiting",
        JobState::Running => "running",
    };
    let payload = Payload { object: "deferred.response", id, status, response };
    // Texts, numbers and JSON that was read always become JSON.
    serde_json::to_vec(&payload).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn parsed(url: &str, allowed: &[&str]) -> Result<Endpoint, String> {
        let allowed = Allowed(allowed.iter().map(|text| text.parse().unwrap()).collect());
        let webhook = pb::Webhook { url: url.into(), secret: SECRET.into() };
        Endpoint::parse(&webhook, &allowed).map_err(|faults| faults.0[0].message.clone())
    }

    #[test]
    fn b2_signatures_are_those_of_the_specification() {
        let endpoint = parsed("https://example.com/hook", &[]).unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = endpoint.sign(id, 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_ne!(endpoint.sign(id, 1_614_265_331, br#"{"test": 2432232314}"#), signature);
    }

    #[test]
    fn b2_only_public_places_are_told_and_only_with_tls() {
        for good in
            ["https://example.com/x?y", "https://1.1.1.1:8443/", "https://[2606:4700::1111]/"]
        {
            assert!(parsed(good, &[]).is_ok(), "{good}");
        }
        for (bad, message) in [
            ("http://example.com/", "is not https"),
            ("ftp://example.com/", "is not https"),
            ("/path", "is not https"),
            ("https://user:pass@example.com/", "holds a user"),
            ("https://127.0.0.1/", "is at an address that is not public"),
            ("https://[::1]/", "is at an address that is not public"),
            ("https://[::ffff:10.0.0.1]/", "is at an address that is not public"),
            ("https://169.254.169.254/latest", "is at an address that is not public"),
            ("not a url", "is no URL"),
            ("", "is no URL"),
        ] {
            assert_eq!(parsed(bad, &[]).unwrap_err(), message, "{bad}");
        }
        // What is allowed by name needs no TLS, and nothing else is allowed with it.
        let loopback = ["127.0.0.0/8"];
        assert!(parsed("http://127.0.0.1:1/", &loopback).is_ok());
        assert!(parsed("https://127.0.0.1:1/", &loopback).is_ok());
        for bad in ["http://1.1.1.1/", "http://10.0.0.1/", "https://10.0.0.1/"] {
            assert_eq!(parsed(bad, &loopback).unwrap_err(), "is at an address that is not public");
        }
    }

    #[test]
    fn secrets_have_their_form() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        assert!(secret(&of(24)).is_some() && secret(&of(64)).is_some());
        for bad in [of(23), of(65), SECRET.trim_start_matches("whsec_").into(), "whsec_?".into()] {
            assert!(secret(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn b2_a_server_that_fails_is_told_again_for_a_day() {
        check(1, 0, Answer::Status(204), None);
        check(1, 0, Answer::Status(410), None);
        check(1, 0, Answer::Status(302), Some(5_000));
        check(2, 0, Answer::Status(500), Some(15_000));
        check(3, 0, Answer::None, Some(45_000));
        check(9, 0, Answer::None, Some(LONGEST_WAIT_MS));
        check(u64::MAX, 0, Answer::None, Some(LONGEST_WAIT_MS));
        check(1, GIVE_UP_MS, Answer::None, None);

        #[track_caller]
        fn check(attempt: u64, age_ms: u64, answer: Answer, again_ms: Option<u64>) {
            let endpoint = parsed("https://example.com/", &[]).unwrap();
            let webhook =
                Webhook { id: "i".into(), attempt, age_ms, payload: Bytes::new(), endpoint };
            let expected = match again_ms {
                Some(after_ms) => DeliveryOutcome::Again { after_ms },
                None => DeliveryOutcome::Over,
            };
            assert_eq!(webhook.outcome(answer), expected);
        }
    }

    #[test]
    fn answers_are_told_as_they_are() {
        let response = |body: &'static [u8]| pb::Response {
            status: 200,
            content_type: "application/json".into(),
            body: Bytes::from_static(body),
        };
        let text = |state, response: Option<&pb::Response>| {
            String::from_utf8(payload("def_1", state, response)).unwrap()
        };
        assert_eq!(
            text(JobState::Done, Some(&response(br#"{"a": 1.0,  "a":2}"#))),
            r#"{"object":"deferred.response","id":"def_1","status":"done","response":{"status":200,"content_type":"application/json","body":{"a": 1.0,  "a":2}}}"#
        );
        let broken = text(JobState::Done, Some(&response(b"{\xff")));
        assert!(broken.contains(r#""body_base64":"e/8=""#), "{broken}");
        let expired = text(JobState::Expired, None);
        assert_eq!(expired, r#"{"object":"deferred.response","id":"def_1","status":"expired"}"#);
    }
}
