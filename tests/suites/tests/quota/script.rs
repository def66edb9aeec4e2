//! What the upstream does: the text of a request says it.

use serde_json::{Value, json};
use sluicegate_testkit::openai;
use sluicegate_testkit::upstream::{Call, Step};

/// An upstream failure whose words are about a machine, not about the caller.
pub(crate) const CUDA: &str = "cuda";
/// Nothing comes for a long time.
pub(crate) const HANG: &str = "hang";
/// A stream of words that does not end.
pub(crate) const TICKS: &str = "ticks";
/// An answer without usage.
pub(crate) const NO_USAGE: &str = "no-usage";

/// The answer to a call. Words of its text: one of the constants; `slow MS`; `usage INPUT OUTPUT`,
/// else 7 and 2. Embeddings have no output.
pub(crate) fn answer(call: &Call) -> Vec<Step> {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    let text = text_of(&body);
    let words: Vec<&str> = text.split(' ').collect();
    let after = |word: &str, n: usize| -> Option<u64> {
        let at = words.iter().position(|w| *w == word)?;
        words.get(at + n)?.parse().ok()
    };
    let mut steps = Vec::new();
    if let Some(ms) = after("slow", 1) {
        steps.push(Step::sleep_ms(ms));
    }
    if words.contains(&HANG) {
        steps.push(Step::sleep_ms(60_000));
    }
    if words.contains(&CUDA) {
        let error = json!({"error": {
            "message": "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)",
            "type": "server_error", "code": 500,
        }});
        steps.extend(Step::json(500, error.to_string()));
        return steps;
    }
    if words.contains(&TICKS) {
        let gap = std::time::Duration::from_millis(20);
        let bytes = openai::delta("word ").into();
        steps.extend([Step::event_stream(), Step::Repeat { times: 3_000, gap, bytes }, Step::End]);
        return steps;
    }
    let usage = (!words.contains(&NO_USAGE))
        .then(|| (after("usage", 1).unwrap_or(7), after("usage", 2).unwrap_or(2)));
    let streamed = body["stream"] == true;
    if call.target.ends_with("/embeddings") {
        steps.extend(Step::json(200, embedding(usage)));
    } else if call.target.ends_with("/chat/completions") {
        steps.extend(if streamed { chat_stream(usage) } else { Step::json(200, chat(usage)) });
    } else {
        steps.extend(if streamed { text_stream(usage) } else { Step::json(200, plain(usage)) });
    }
    steps
}

/// What a caller wrote, whichever endpoint it is for.
pub(crate) fn text_of(body: &Value) -> String {
    [body.pointer("/messages/0/content"), body.get("prompt"), body.get("input")]
        .into_iter()
        .find_map(|value| Some(value?.as_str()?.to_owned()))
        .unwrap_or_default()
}

fn usage_of((input, output): (u64, u64)) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}

fn with_usage(mut body: Value, usage: Option<(u64, u64)>) -> String {
    if let Some(usage) = usage {
        body["usage"] = usage_of(usage);
    }
    body.to_string()
}

fn chat(usage: Option<(u64, u64)>) -> String {
    let message = json!({"role": "assistant", "content": "one two three four"});
    let choices = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
    with_usage(
        json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "m1", "choices": choices}),
        usage,
    )
}

fn plain(usage: Option<(u64, u64)>) -> String {
    let choices = json!([{"index": 0, "text": "one two three four", "finish_reason": "stop"}]);
    with_usage(
        json!({"id": "c1", "object": "text_completion", "created": 1, "model": "m1", "choices": choices}),
        usage,
    )
}

fn embedding(usage: Option<(u64, u64)>) -> String {
    let data = json!([{"object": "embedding", "index": 0, "embedding": [0.5]}]);
    let mut body = json!({"object": "list", "model": "m1", "data": data});
    if let Some((input, _)) = usage {
        body["usage"] = json!({"prompt_tokens": input, "total_tokens": input});
    }
    body.to_string()
}

fn chat_stream(usage: Option<(u64, u64)>) -> Vec<Step> {
    let mut text = openai::delta("one two ") + &openai::delta("three four");
    text += &openai::finish("stop");
    if let Some(usage) = usage {
        let last = json!({
            "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1",
            "choices": [], "usage": usage_of(usage),
        });
        text += &format!("data: {last}\n\n");
    }
    vec![Step::event_stream(), Step::send(text + openai::DONE), Step::End]
}

fn text_stream(usage: Option<(u64, u64)>) -> Vec<Step> {
    let chunk = |choices: Value| json!({"id": "c1", "object": "text_completion", "created": 1, "model": "m1", "choices": choices});
    let mut text = String::new();
    for (words, finish) in [("one two ", None), ("three four", Some("stop"))] {
        let choice = json!([{"index": 0, "text": words, "finish_reason": finish}]);
        text += &format!("data: {}\n\n", chunk(choice));
    }
    if usage.is_some() {
        text += &format!("data: {}\n\n", with_usage(chunk(json!([])), usage));
    }
    vec![Step::event_stream(), Step::send(text + openai::DONE), Step::End]
}
