//! A streamed answer.

use bytes::Bytes;
use serde_json::{Value, json};

use super::headers;
use super::whole::{call_id, input, message, stop_reason};
use crate::providers::answer::{Answer, fragments};
use crate::providers::ask::Ask;
use crate::providers::rows::ErrorRow;
use crate::providers::scene::Scene;
use crate::providers::signature::sign;
use crate::providers::stream::Events;
use crate::upstream::{Call, Step};

pub(super) fn stream(scene: &Scene, call: &Call, ask: &Ask, answer: &Answer) -> Vec<Step> {
    let mut events = Events::default();
    let mut start = message(call, ask);
    start["usage"] = input(answer.usage);
    start["usage"]["output_tokens"] = json!(1);
    events.other(event(&json!({"type": "message_start", "message": start})));

    let mut blocks = Blocks { events, index: 0, pinged: false };
    if !answer.reasoning.is_empty() {
        blocks.begin(&json!({"type": "thinking", "thinking": "", "signature": ""}));
        for piece in &answer.reasoning {
            blocks.content(&json!({"type": "thinking_delta", "thinking": piece}));
        }
        let signature = sign(&answer.reasoning());
        blocks.delta(&json!({"type": "signature_delta", "signature": signature}));
        blocks.end();
    }
    if !answer.text.is_empty() {
        blocks.begin(&json!({"type": "text", "text": ""}));
        for piece in &answer.text {
            blocks.content(&json!({"type": "text_delta", "text": piece}));
        }
        blocks.end();
    }
    for (n, made) in answer.calls.iter().enumerate() {
        let id = call_id(call, n);
        blocks.begin(&json!({"type": "tool_use", "id": id, "name": made.name, "input": {}}));
        blocks.delta(&json!({"type": "input_json_delta", "partial_json": ""}));
        if made.has_arguments() {
            for piece in fragments(&made.text(), 8) {
                blocks.content(&json!({"type": "input_json_delta", "partial_json": piece}));
            }
        }
        blocks.end();
    }

    let mut events = blocks.events;
    let mut usage = input(answer.usage);
    usage["output_tokens"] = json!(answer.usage.output);
    let delta = json!({"stop_reason": stop_reason(&answer.finish), "stop_sequence": null});
    events.other(event(&json!({"type": "message_delta", "delta": delta, "usage": usage})));
    events.other("event: message_stop\ndata: {\"type\":\"message_stop\"            }\n\n");
    let head = Step::Head(200, headers(call, "text/event-stream; charset=utf-8"));
    events.steps(scene, head, answer.broken, error_event)
}

/// The blocks of content, numbered as they come.
struct Blocks {
    events: Events,
    index: usize,
    pinged: bool,
}

impl Blocks {
    fn begin(&mut self, block: &Value) {
        let start = json!({
            "type": "content_block_start", "index": self.index, "content_block": block,
        });
        self.events.other(event(&start));
        if !std::mem::replace(&mut self.pinged, true) {
            self.events.other("event: ping\ndata: {\"type\": \"ping\"}\n\n");
        }
    }

    fn delta(&mut self, delta: &Value) {
        self.events.other(self.event(delta));
    }

    fn content(&mut self, delta: &Value) {
        self.events.content(self.event(delta));
    }

    fn event(&self, delta: &Value) -> Bytes {
        event(&json!({"type": "content_block_delta", "index": self.index, "delta": delta}))
    }

    fn end(&mut self) {
        // The padding is the provider's.
        let stop = format!(
            "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{}   }}\n\n",
            self.index
        );
        self.events.other(stop);
        self.index += 1;
    }
}

fn event(data: &Value) -> Bytes {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}

fn error_event(row: &ErrorRow) -> Bytes {
    format!("event: error\ndata: {}\n\n", row.body).into()
}
