//! What translation costs beside passing bytes: a request of a few thousand tokens with tools, a whole
//! answer, and a stream of 64 pieces, once where both sides speak OpenAI's format and once to and from
//! another. Ratios of one run are what counts.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use http::HeaderMap;
use sluicegate_dialect::{Call, Destination, Dialect, Endpoint, Sent, StreamEvent, registry};
use sluicegate_model::Profile;

const PIECES: usize = 64;

fn body() -> Bytes {
    let words = "The tide turns twice a day, and the harbour master writes it down. ".repeat(200);
    let turn = serde_json::json!([
        { "role": "system", "content": "You keep the harbour's book." },
        { "role": "user", "content": words },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "call_1", "type": "function", "function": { "name": "tide", "arguments": "{\"day\":\"today\"}" } } ] },
        { "role": "tool", "tool_call_id": "call_1", "content": "high at 6:12" },
        { "role": "user", "content": "And tomorrow?" }
    ]);
    let body = serde_json::json!({
        "model": "public", "stream": true, "temperature": 0.5, "max_tokens": 300, "messages": turn,
        "stream_options": { "include_usage": true },
        "tools": [{ "type": "function", "function": { "name": "tide", "description": "Tides of a day",
            "parameters": { "type": "object", "properties": { "day": { "type": "string" } } } } }],
    });
    body.to_string().into()
}

/// A stream in each format that says the same.
fn stream(dialect: &str) -> Bytes {
    let mut out = String::new();
    let mut event = |name: &str, data: serde_json::Value| {
        if !name.is_empty() {
            out.push_str(&format!("event: {name}\n"));
        }
        out.push_str(&format!("data: {data}\n\n"));
    };
    if dialect == "anthropic-messages" {
        event(
            "message_start",
            serde_json::json!({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":900,"output_tokens":1}}}),
        );
        event(
            "content_block_start",
            serde_json::json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
        );
        for _ in 0..PIECES {
            event(
                "content_block_delta",
                serde_json::json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"high water "}}),
            );
        }
        event("content_block_stop", serde_json::json!({"type":"content_block_stop","index":0}));
        event(
            "message_delta",
            serde_json::json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":130}}),
        );
        event("message_stop", serde_json::json!({"type":"message_stop"}));
        return out.into();
    }
    let chunk = |delta: serde_json::Value, finish: Option<&str>| serde_json::json!({"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":delta,"finish_reason":finish}]});
    event("", chunk(serde_json::json!({"role":"assistant","content":""}), None));
    for _ in 0..PIECES {
        event("", chunk(serde_json::json!({"content":"high water "}), None));
    }
    event("", chunk(serde_json::json!({}), Some("stop")));
    event(
        "",
        serde_json::json!({"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":900,"completion_tokens":130,"total_tokens":1030}}),
    );
    out.push_str("data: [DONE]\n\n");
    out.into()
}

fn answer(dialect: &str) -> Bytes {
    let text = "high water ".repeat(PIECES);
    let answer = if dialect == "anthropic-messages" {
        serde_json::json!({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":text}],"stop_reason":"end_turn","usage":{"input_tokens":900,"output_tokens":130}})
    } else {
        serde_json::json!({"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":text},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":130,"total_tokens":1030}})
    };
    answer.to_string().into()
}

fn read(dialect: &dyn Dialect, call: &Call, stream: Bytes) -> usize {
    let mut reader = dialect.stream(call, &Sent::default(), &HeaderMap::new());
    let mut framer = dialect.framing().framer();
    framer.push(stream);
    let mut bytes = 0;
    while let Some(frame) = framer.next_frame().unwrap() {
        match reader.read(&frame) {
            StreamEvent::Preamble(event) | StreamEvent::Content(event) => bytes += event.len(),
            StreamEvent::Hidden | StreamEvent::Done => {}
            StreamEvent::Failed(fault) => panic!("{fault:?}"),
        }
    }
    assert!(reader.complete());
    bytes + reader.tail().map_or(0, |tail| tail.len())
}

fn translate(criterion: &mut Criterion) {
    let profile = Profile::default();
    let to = Destination { model: "upstream-model", profile: &profile };
    let call = Call::parse(Endpoint::Chat, body()).unwrap();
    for (name, variant) in [("openai-chat", "openai"), ("anthropic-messages", "")] {
        let dialect = registry::find(name, variant).unwrap();
        let mut group = criterion.benchmark_group(name);
        group.bench_function("request", |bencher| {
            bencher.iter(|| dialect.request(&call, &to).unwrap());
        });
        let whole = answer(name);
        group.bench_function("answer", |bencher| {
            bencher.iter(|| dialect.answer(&call, &HeaderMap::new(), &whole).unwrap());
        });
        let events = stream(name);
        group.throughput(Throughput::Elements(PIECES as u64));
        group.bench_function("stream", |bencher| {
            bencher.iter_batched(
                || events.clone(),
                |events| read(dialect, &call, events),
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
    criterion.bench_function("parse", |bencher| {
        let body = body();
        bencher.iter(|| Call::parse(Endpoint::Chat, body.clone()).unwrap());
    });
}

criterion_group!(benches, translate);
criterion_main!(benches);
