//! Error bodies, as every dialect reads them.

#![no_main]

use http::{HeaderMap, HeaderValue, StatusCode};
use libfuzzer_sys::fuzz_target;
use sluicegate_dialect::redact;
use sluicegate_dialect_fuzz::split;

const STATUSES: [u16; 12] = [400, 401, 402, 403, 404, 408, 413, 424, 429, 500, 503, 529];
const HEADERS: [&str; 4] =
    ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens", "x-amzn-errortype"];

fuzz_target!(|input: &[u8]| {
    let Some((dialect, kind, bytes)) = split(input) else { return };
    let mut headers = HeaderMap::new();
    // The first line may be a header's value.
    let (line, body) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if kind & 128 != 0 => bytes.split_at(end),
        _ => (&b""[..], bytes),
    };
    if let Ok(value) = HeaderValue::from_bytes(line) {
        headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("0"));
        headers.insert(HEADERS[usize::from(kind >> 4) % HEADERS.len()], value);
    }
    let status = STATUSES[usize::from(kind & 15) % STATUSES.len()];
    let status = StatusCode::from_u16(status).expect("the list has statuses");
    let fault = dialect.refusal(status, &headers, body);
    assert_eq!(fault.status, Some(status.as_u16()));
    if let Some(message) = fault.message {
        assert!(redact::message(&message).chars().count() <= 1000);
    }
    dialect.wants_new_token(&dialect.refusal(StatusCode::OK, &headers, body));
});
