//! A streamed answer.

use bytes::Bytes;
use serde_json::{Value, json};

use super::CREATED;
use super::variant::{Calls, Fragments, NullUsage, Reasoning, UsageAt, Variant};
use super::whole::{add, call_id, finish_word, id, remove, thinking_part, usage};
use crate::providers::answer::{Answer, fragments};
use crate::providers::ask::Ask;
use crate::providers::rows::ErrorRow;
use crate::providers::scene::Scene;
use crate::providers::stream::Events;
use crate::upstream::{Call, Step};

pub(super) fn stream(
    scene: &Scene,
    variant: &Variant,
    call: &Call,
    ask: &Ask,
    answer: &Answer,
    usage_asked: bool,
) -> Vec<Step> {
    let mut writer = Writer { variant, call, ask, usage_asked, events: Events::default() };
    writer.write(answer);
    let head = Step::Head(
        200,
        vec![
            ("content-type".into(), "text/event-stream; charset=utf-8".into()),
            ("x-request-id".into(), format!("req_{}", call.number)),
        ],
    );
    writer.events.steps(scene, head, answer.broken, |row| error_event(variant, row))
}

struct Writer<'a> {
    variant: &'a Variant,
    call: &'a Call,
    ask: &'a Ask,
    usage_asked: bool,
    events: Events,
}

impl Writer<'_> {
    fn write(&mut self, answer: &Answer) {
        let shape = self.variant.shape;
        if !shape.before.is_empty() {
            self.events.other(shape.before);
        }
        let call_first = answer.text.is_empty() && answer.reasoning.is_empty();
        let joins = !answer.calls.is_empty() && call_first && shape.first_call.is_some();
        if let (Some(first), false) = (shape.first, joins) {
            let chunk = self.chunk(parsed(first), None);
            self.events.other(self.event(chunk));
        }
        self.reasoning(answer);
        for piece in &answer.text {
            let mut delta = json!({});
            add(&mut delta, shape.with_text);
            delta["content"] = json!(piece);
            self.content(delta);
        }
        match shape.calls {
            Calls::Fragments(how) => self.fragments(how, answer, joins),
            Calls::Whole => {
                for n in 0..answer.calls.len() {
                    let mut delta = json!({});
                    add(&mut delta, shape.with_call);
                    delta["tool_calls"] = json!([self.whole_call(answer, n, true)]);
                    self.content(delta);
                }
            }
            Calls::InFinish => {}
        }
        self.finish(answer);
        let end = format!("data: [DONE]{0}{0}", shape.line);
        self.events.other(end);
    }

    fn reasoning(&mut self, answer: &Answer) {
        let shape = self.variant.shape;
        for piece in &answer.reasoning {
            let mut delta = json!({});
            add(&mut delta, shape.with_reasoning);
            match shape.reasoning {
                Reasoning::Hidden => return,
                Reasoning::Member(name) => delta[name] = json!(piece),
                Reasoning::Parts => delta["content"] = json!([thinking_part(piece)]),
            }
            self.content(delta);
        }
    }

    /// Calls in fragments: those of several alternate where each says which it is of.
    fn fragments(&mut self, how: Fragments, answer: &Answer, joins: bool) {
        let pieces: Vec<_> = answer.calls.iter().map(|made| fragments(&made.text(), 8)).collect();
        if how.index {
            for n in 0..answer.calls.len() {
                self.opening(how, answer, n, joins && n == 0);
            }
            for round in 0..pieces.iter().map(Vec::len).max().unwrap_or(0) {
                for (n, pieces) in pieces.iter().enumerate() {
                    if let Some(piece) = pieces.get(round) {
                        self.later(how, n, piece);
                    }
                }
            }
        } else {
            for (n, pieces) in pieces.iter().enumerate() {
                self.opening(how, answer, n, joins && n == 0);
                pieces.iter().for_each(|piece| self.later(how, n, piece));
            }
        }
        if how.trailing && !answer.calls.is_empty() {
            let last = answer.calls.len() - 1;
            let mut chunk = self.chunk(
                json!({"tool_calls": [
                    {"function": {"arguments": ""}, "index": last, "id": "", "type": "function"},
                ]}),
                None,
            );
            remove(&mut chunk["choices"][0], "finish_reason");
            self.events.other(self.event(chunk));
        }
    }

    fn opening(&mut self, how: Fragments, answer: &Answer, n: usize, joins: bool) {
        let shape = self.variant.shape;
        let mut delta = json!({});
        add(&mut delta, shape.with_call);
        if joins {
            add(&mut delta, shape.first_call.unwrap_or("{}"));
        }
        let mut item = self.whole_call(answer, n, how.index);
        match how.opens_empty {
            true => item["function"]["arguments"] = json!(""),
            false => remove(&mut item["function"], "arguments"),
        }
        delta["tool_calls"] = json!([item]);
        self.content(delta);
    }

    fn later(&mut self, how: Fragments, n: usize, piece: &str) {
        let mut delta = json!({});
        add(&mut delta, self.variant.shape.with_call);
        let mut item = match how.index {
            true => json!({"index": n}),
            false => json!({}),
        };
        add(&mut item, how.later);
        item["function"] = json!({"arguments": piece});
        delta["tool_calls"] = json!([item]);
        self.content(delta);
    }

    fn whole_call(&self, answer: &Answer, n: usize, index: bool) -> Value {
        let made = &answer.calls[n];
        let mut item =
            json!({"index": n, "id": call_id(self.variant, self.call, n), "type": "function"});
        if !index {
            remove(&mut item, "index");
        }
        item["function"] = json!({"name": made.name, "arguments": made.text()});
        item
    }

    fn finish(&mut self, answer: &Answer) {
        let shape = self.variant.shape;
        let mut delta = parsed(shape.last);
        let in_finish = matches!(shape.calls, Calls::InFinish) && !answer.calls.is_empty();
        if in_finish {
            let calls = (0..answer.calls.len()).map(|n| {
                let mut item = self.whole_call(answer, n, false);
                remove(&mut item, "type");
                item
            });
            delta = json!({"content": null, "tool_calls": calls.collect::<Vec<_>>()});
        }
        let mut chunk = self.chunk(delta, Some(&finish_word(&shape, &answer.finish)));
        add(&mut chunk["choices"][0], shape.last_choice);
        let told = usage(shape.counts, answer.usage);
        match shape.usage {
            UsageAt::Finish => chunk["usage"] = told.clone(),
            UsageAt::Choice => chunk["choices"][0]["usage"] = told.clone(),
            UsageAt::Asked | UsageAt::Never => {}
        }
        match in_finish {
            true => self.events.content(self.event(chunk)),
            false => self.events.other(self.event(chunk)),
        }
        if self.usage_asked && matches!(shape.usage, UsageAt::Asked | UsageAt::Choice) {
            let mut chunk = self.chunk(json!({}), None);
            chunk["choices"] = json!([]);
            chunk["usage"] = told;
            self.events.other(self.event(chunk));
        }
    }

    fn content(&mut self, delta: Value) {
        let chunk = self.chunk(delta, None);
        self.events.content(self.event(chunk));
    }

    fn chunk(&self, delta: Value, finish: Option<&str>) -> Value {
        let shape = &self.variant.shape;
        let mut choice = json!({"index": 0, "delta": delta});
        add(&mut choice, shape.choice);
        if finish.is_some() || !shape.absent_finish {
            choice["finish_reason"] = json!(finish);
        }
        let mut chunk = json!({
            "id": id(shape, self.call), "object": "chat.completion.chunk", "created": CREATED,
            "model": self.ask.model,
        });
        if shape.nameless {
            remove(&mut chunk, "id");
        }
        add(&mut chunk, shape.top);
        chunk["choices"] = json!([choice]);
        let null = match shape.null_usage {
            NullUsage::Always => true,
            NullUsage::WhenAsked => self.usage_asked,
            NullUsage::Never => false,
        };
        if null {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn event(&self, mut chunk: Value) -> Bytes {
        let shape = &self.variant.shape;
        if shape.obfuscated {
            let length = 1 + chunk.to_string().len() % 7;
            chunk["obfuscation"] = json!("x".repeat(length));
        }
        format!("data: {chunk}{0}{0}", shape.line).into()
    }
}

fn parsed(members: &str) -> Value {
    let mut value = json!({});
    add(&mut value, members);
    value
}

/// An error inside a stream. What has no `error` of its own is put into one.
fn error_event(variant: &Variant, row: &ErrorRow) -> Bytes {
    let shape = &variant.shape;
    let error = match serde_json::from_str::<Value>(row.body) {
        Ok(value) if value.get("error").is_some() => value,
        Ok(value) if value.is_object() => json!({"error": value}),
        _ => json!({"error": {"message": row.body}}),
    };
    let done = if shape.done_after_error { "data: [DONE]" } else { "" };
    let done = if done.is_empty() { String::new() } else { format!("{done}{0}{0}", shape.line) };
    format!("data: {error}{0}{0}{done}", shape.line).into()
}
