//! Answers, whole and streamed.

use serde_json::{Value, json};

use super::{CREATED, id};
use crate::providers::answer::{Answer, Finish, Usage};
use crate::providers::scene::Scene;
use crate::providers::stream::Events;
use crate::upstream::{Call, Step};

/// A whole answer.
pub(super) fn whole(call: &Call, answer: &Answer) -> Value {
    finished(call, &answer.text(), answer)
}

/// A stream. The last event says that it is the last.
pub(super) fn stream(scene: &Scene, call: &Call, answer: &Answer) -> Vec<Step> {
    let mut events = Events::default();
    // A call comes in an event of its own; without one, the last text is in the last event.
    let (last, pieces) = match (answer.calls.as_slice(), answer.text.split_last()) {
        ([], Some((last, before))) => (last.as_str(), before),
        _ => ("", answer.text.as_slice()),
    };
    let mut sent = 0_u64;
    for piece in pieces {
        let usage = Usage { output: sent, ..answer.usage };
        let mut frame = frame(call, piece, usage);
        frame["sentence_id"] = json!(sent);
        frame["is_end"] = json!(false);
        events.content(format!("data: {frame}\n\n"));
        sent += 1;
    }
    let mut frame = finished(call, last, answer);
    frame["sentence_id"] = json!(sent);
    frame["is_end"] = json!(true);
    events.content(format!("data: {frame}\n\n"));
    let head = Step::head(200, "text/event-stream; charset=utf-8");
    // An error is a line of JSON, not an event.
    events.steps(scene, head, answer.broken, |row| format!("{}\n", row.body).into())
}

fn finished(call: &Call, text: &str, answer: &Answer) -> Value {
    let mut frame = frame(call, text, answer.usage);
    frame["is_truncated"] = json!(answer.finish == Finish::Length);
    frame["finish_reason"] = json!(finish_word(&answer.finish));
    if answer.finish == Finish::Filter {
        frame["need_clear_history"] = json!(true);
        frame["ban_round"] = json!(-1);
        frame["flag"] = json!(1);
    }
    if let Some(made) = answer.calls.first() {
        frame["function_call"] = json!({
            "name": made.name, "arguments": made.text(), "thoughts": "I should call this.",
        });
    }
    frame
}

fn frame(call: &Call, text: &str, usage: Usage) -> Value {
    json!({
        "id": id(call), "object": "chat.completion", "created": CREATED, "result": text,
        "is_truncated": false, "need_clear_history": false, "finish_reason": "normal",
        "usage": {
            "prompt_tokens": usage.input, "completion_tokens": usage.output,
            "total_tokens": usage.total(),
        },
    })
}

fn finish_word(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "normal",
        Finish::Length => "length",
        Finish::Tools => "function_call",
        Finish::Filter => "content_filter",
        Finish::Word(word) => word,
    }
}
