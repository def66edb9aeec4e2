//! Whole answers under 200, as every dialect reads them, and as streams are made of them.

#![no_main]

use bytes::Bytes;
use http::HeaderMap;
use libfuzzer_sys::fuzz_target;
use sluicegate_dialect::{json::Scanner, openai_chat::restream};
use sluicegate_dialect_fuzz::{call, split};

fuzz_target!(|input: &[u8]| {
    let Some((dialect, kind, bytes)) = split(input) else { return };
    let call = call(kind);
    let body = Bytes::copy_from_slice(bytes);
    let Ok(answer) = dialect.answer(&call, &HeaderMap::new(), &body) else { return };
    let mut scanner = Scanner::lenient(&answer.body);
    let json = scanner.skip().and_then(|_| scanner.end());
    assert!(json.is_ok(), "{}: {:?}", dialect.name(), answer.body);
    restream::events(call.endpoint, &answer.body, kind & 4 != 0);
});
