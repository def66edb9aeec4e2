//! What upstreams stream, as every dialect reads it.

#![no_main]

use http::HeaderMap;
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use sluicegate_dialect::{Dialect, Sent, StreamEvent};
use sluicegate_dialect_fuzz::{call, frames, split, stream};

fuzz_target!(|input: &[u8]| {
    let Some((dialect, kind, bytes)) = split(input) else { return };
    let call = call(kind);
    let sent = Sent { hide_usage: kind & 4 == 0 };
    let mut reader = dialect.stream(&call, &sent, &HeaderMap::new());
    let mut written = Vec::new();
    let bytes = stream(dialect.framing(), bytes);
    for frame in frames(dialect.framing(), &bytes, &[]) {
        match reader.read(&frame) {
            StreamEvent::Preamble(bytes) | StreamEvent::Content(bytes) => written.push(bytes),
            StreamEvent::Hidden => {}
            StreamEvent::Done | StreamEvent::Failed(_) => break,
        }
        assert!(reader.complete() || !reader.whole());
    }
    written.extend(reader.tail());
    for bytes in written {
        check(dialect, &bytes);
    }
});

/// What is written for callers is whole events; of formats that are translated, whole chunks.
fn check(dialect: &dyn Dialect, bytes: &[u8]) {
    assert!(bytes.is_empty() || bytes.ends_with(b"\n\n"), "{bytes:?}");
    if passes(dialect) {
        return;
    }
    let text = std::str::from_utf8(bytes).expect("chunks are text");
    for event in text.split_terminator("\n\n").filter(|event| !event.starts_with(':')) {
        let data = event.strip_prefix("data: ").expect("chunks are data");
        assert!(serde_json::from_str::<&RawValue>(data).is_ok(), "{data}");
    }
}

/// Formats that callers speak, too, pass as they come.
fn passes(dialect: &dyn Dialect) -> bool {
    matches!(dialect.name(), "openai-chat" | "azure-openai")
}
