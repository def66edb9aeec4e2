//! `POST /v1/chat/completions`.

use serde_json::{Value, json};

use super::{
    answer::{Answer, ToolCall, content_text, echo, limit, wanted_call, words},
    created, flag, id, model_name,
    reply::{self, Fault, Reply},
    wants_usage,
};

/// Answers a chat.
pub(super) fn reply(request: &Value) -> Result<Reply, Fault> {
    let head =
        Head { model: model_name(request)?, id: id("chatcmpl", request), created: created() };
    let answer = answer(request)?;
    Ok(if flag(request, "stream")? {
        reply::stream(head.chunks(&answer, wants_usage(request)))
    } else {
        reply::json(&head.whole(&answer))
    })
}

fn answer(request: &Value) -> Result<Answer, Fault> {
    let Some(messages) = request.get("messages").and_then(Value::as_array) else {
        return Err(Fault::bad("you must provide messages", Some("messages")));
    };
    let Some(last) = messages.last() else {
        return Err(Fault::bad("messages must not be empty", Some("messages")));
    };
    if messages.iter().any(|message| message.get("role").and_then(Value::as_str).is_none()) {
        return Err(Fault::bad("every message needs a role", Some("messages")));
    }
    if request.get("n").is_some_and(|n| !n.is_null() && n.as_u64() != Some(1)) {
        return Err(Fault::bad("the demo gives one choice", Some("n")));
    }
    let max = limit(request, &["max_completion_tokens", "max_tokens"])?;
    let text = |message: &Value| message.get("content").map(content_text).unwrap_or_default();
    let by =
        |message: &Value, role: &str| message.get("role").and_then(Value::as_str) == Some(role);
    let prompt_tokens = messages.iter().map(|message| words(&text(message)).len()).sum();

    if by(last, "tool") {
        // Never calls a tool again for the same wish: an agent's loop comes to an end.
        let content = format!("The tool answered: {}", text(last));
        return Ok(Answer::text(&content, prompt_tokens, max));
    }
    let said = messages.iter().rev().find(|message| by(message, "user")).map(text);
    let said = said.unwrap_or_default();
    Ok(match wanted_call(request, &said) {
        Some(call) => Answer::call(call, prompt_tokens),
        None => Answer::text(&echo(&said), prompt_tokens, max),
    })
}

/// What every event of an answer repeats.
struct Head<'a> {
    model: &'a str,
    id: String,
    created: u64,
}

impl Head<'_> {
    fn tool_calls(&self, call: &ToolCall, arguments: &str) -> Value {
        json!([{
            "index": 0,
            "id": self.id.replace("chatcmpl-", "call_"),
            "type": "function",
            "function": { "name": call.name, "arguments": arguments },
        }])
    }

    fn whole(&self, answer: &Answer) -> Value {
        let message = match &answer.tool_call {
            Some(call) => {
                let mut calls = self.tool_calls(call, &call.arguments);
                if let Some(call) = calls.get_mut(0).and_then(Value::as_object_mut) {
                    call.remove("index");
                }
                json!({ "role": "assistant", "content": null, "refusal": null, "tool_calls": calls })
            }
            None => json!({ "role": "assistant", "content": answer.content(), "refusal": null }),
        };
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": answer.finish_reason,
            }],
            "usage": answer.usage(),
        })
    }

    /// The events of a stream: the role first, then the words, then why it ends, then the usage.
    fn chunks(&self, answer: &Answer, usage: bool) -> Vec<Value> {
        let mut chunks = Vec::new();
        match &answer.tool_call {
            Some(call) => {
                chunks.push(self.chunk(
                    json!({
                        "role": "assistant",
                        "content": null,
                        "tool_calls": self.tool_calls(call, ""),
                    }),
                    None,
                ));
                for piece in pieces(&call.arguments) {
                    let part = json!([{ "index": 0, "function": { "arguments": piece } }]);
                    chunks.push(self.chunk(json!({ "tool_calls": part }), None));
                }
            }
            None => {
                chunks.push(self.chunk(json!({ "role": "assistant", "content": "" }), None));
                for piece in &answer.pieces {
                    chunks.push(self.chunk(json!({ "content": piece }), None));
                }
            }
        }
        chunks.push(self.chunk(json!({}), Some(answer.finish_reason)));
        if usage {
            for chunk in &mut chunks {
                chunk["usage"] = Value::Null;
            }
            let mut last = self.chunk(json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = answer.usage();
            chunks.push(last);
        }
        chunks
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }],
        })
    }
}

/// Encoded arguments in a few parts, as providers send them.
fn pieces(arguments: &str) -> Vec<String> {
    let characters: Vec<_> = arguments.chars().collect();
    characters.chunks(8).map(|part| part.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head<'static> {
        Head { model: "demo", id: "chatcmpl-demo1".into(), created: 1 }
    }

    fn user(content: &str) -> Value {
        json!({ "model": "demo", "messages": [{ "role": "user", "content": content }] })
    }

    #[test]
    fn a_stream_says_what_the_whole_answer_says() {
        let answer = answer(&user("hello  there")).unwrap();
        let whole = head().whole(&answer);
        let content = whole["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(content.starts_with("You said: hello there"), "{content}");

        let chunks = head().chunks(&answer, true);
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        let streamed: String = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(streamed, content);
        let [.., finish, usage] = chunks.as_slice() else { panic!("two chunks at the end") };
        assert_eq!(finish["choices"][0]["finish_reason"], "stop");
        assert_eq!(usage["choices"], json!([]));
        assert_eq!(usage["usage"], whole["usage"]);
        assert!(head().chunks(&answer, false).iter().all(|chunk| chunk.get("usage").is_none()));
    }

    #[test]
    fn tool_calls_stream_their_arguments_in_parts() {
        let mut request = user("call look");
        request["tools"] = json!([{ "type": "function", "function": { "name": "look",
            "parameters": { "type": "object", "required": ["where"],
                            "properties": { "where": { "type": "string" } } } } }]);
        let first = answer(&request).unwrap();
        let chunks = head().chunks(&first, false);
        let arguments: String = chunks
            .iter()
            .filter_map(|chunk| {
                chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
            })
            .collect();
        assert_eq!(arguments, r#"{"where":"demo"}"#);
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");

        let call = head().whole(&first)["choices"][0]["message"].clone();
        let messages = request["messages"].as_array_mut().unwrap();
        messages.push(call);
        messages.push(json!({ "role": "tool", "tool_call_id": "x", "content": "here" }));
        let second = answer(&request).unwrap();
        assert_eq!(second.content(), "The tool answered: here");
        assert_eq!(second.finish_reason, "stop");
    }

    #[test]
    fn bad_requests() {
        for bad in [
            json!({ "model": "m" }),
            json!({ "model": "m", "messages": [] }),
            json!({ "model": "m", "messages": [{ "content": "x" }] }),
            json!({ "model": "m", "messages": [{ "role": "user", "content": "x" }], "n": 2 }),
            json!({ "messages": [{ "role": "user", "content": "x" }] }),
        ] {
            assert!(reply(&bad).is_err(), "{bad}");
        }
    }
}
