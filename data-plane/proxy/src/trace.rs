//! Request ids and W3C trace context: taken from the caller when they are well-formed, else made.

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

/// The request id, in and out.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Longest request id that is taken from a caller.
const MAX_ID: usize = 128;

/// Who this request is, across systems.
#[derive(Debug, Clone)]
pub struct Trace {
    pub request_id: HeaderValue,
    /// 32 hex digits.
    pub trace_id: String,
    /// The `traceparent` that goes upstream: same trace, a span of our own.
    pub traceparent: HeaderValue,
    /// Passed on as it came.
    pub tracestate: Option<HeaderValue>,
    /// The same whenever the same request is sent anew, for upstreams that know such keys.
    pub idempotency_key: Option<HeaderValue>,
}

impl Trace {
    /// Reads the caller's headers; whatever is missing or malformed is made anew.
    pub fn take(headers: &HeaderMap) -> Self {
        let request_id = headers
            .get(REQUEST_ID)
            .filter(|value| is_request_id(value))
            .cloned()
            .unwrap_or_else(|| ascii(&format!("req_{}", Uuid::now_v7().simple())));
        let parent = headers.get(TRACEPARENT).and_then(parse_traceparent);
        let (trace_id, flags) =
            parent.unwrap_or_else(|| (Uuid::new_v4().simple().to_string(), "01".to_owned()));
        let span = Uuid::new_v4().simple().to_string();
        let span = span.get(..16).unwrap_or("0000000000000001");
        let mut traceparent = String::with_capacity(55);
        // Writing into a string cannot fail.
        let _infallible = write!(traceparent, "00-{trace_id}-{span}-{flags}");
        let tracestate = headers
            .get(TRACEPARENT)
            .and_then(parse_traceparent)
            .and_then(|_| headers.get(TRACESTATE).cloned());
        let traceparent = ascii(&traceparent);
        Self { request_id, trace_id, traceparent, tracestate, idempotency_key: None }
    }

    /// The request id as text.
    pub fn request_id(&self) -> &str {
        self.request_id.to_str().unwrap_or("-")
    }

    /// Adds the headers that go upstream.
    pub fn inject(&self, headers: &mut HeaderMap) {
        headers.insert(REQUEST_ID, self.request_id.clone());
        headers.insert(TRACEPARENT, self.traceparent.clone());
        if let Some(state) = &self.tracestate {
            headers.insert(TRACESTATE, state.clone());
        }
    }
}

fn ascii(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
}

fn is_request_id(value: &HeaderValue) -> bool {
    (1..=MAX_ID).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
}

/// Trace id and flags of a version 00 `traceparent` (W3C Trace Context, section 3.2).
fn parse_traceparent(value: &HeaderValue) -> Option<(String, String)> {
    let text = value.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |part: &str, length: usize| {
        part.len() == length
            && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let sound =
        hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    (sound && !zero(trace) && !zero(span) && (version != "00" || parts.next().is_none()))
        .then(|| (trace.to_owned(), flags.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pairs: &[(&'static str, &str)]) -> Trace {
        let headers = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Trace::take(&headers)
    }

    #[test]
    fn a9_ids_are_taken_or_made() {
        assert_eq!(take(&[("x-request-id", "abc-1")]).request_id(), "abc-1");
        assert!(take(&[]).request_id().starts_with("req_"));
        assert!(take(&[("x-request-id", "a b")]).request_id().starts_with("req_"));
        assert!(take(&[("x-request-id", &"x".repeat(200))]).request_id().starts_with("req_"));
    }

    #[test]
    fn a_sound_parent_is_continued() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        let trace = take(&[
            ("traceparent", &format!("00-{id}-b7ad6b7169203331-00")),
            ("tracestate", "a=b"),
        ]);
        assert_eq!(trace.trace_id, id);
        let sent = trace.traceparent.to_str().unwrap();
        assert!(sent.starts_with(&format!("00-{id}-")) && sent.ends_with("-00"));
        assert!(!sent.contains("b7ad6b7169203331"));
        assert_eq!(trace.tracestate.unwrap(), "a=b");
    }

    #[test]
    fn a_malformed_parent_is_replaced() {
        for bad in [
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "x",
        ] {
            let trace = take(&[("traceparent", bad), ("tracestate", "a=b")]);
            assert_eq!(trace.trace_id.len(), 32);
            assert!(!bad.contains(&trace.trace_id));
            assert_eq!(trace.tracestate, None);
        }
    }
}
