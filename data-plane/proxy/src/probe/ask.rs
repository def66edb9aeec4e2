//! What a probe asks.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_model::secret::Secret;

/// Most tokens of an answer that is words, and of one that calls a tool.
const WORDS: u64 = 32;
const TOOL: u64 = 256;
/// How long one call may take, and one that has much to carry.
const WAIT: Duration = Duration::from_secs(30);
const LONG_WAIT: Duration = Duration::from_secs(60);
/// Size of a prompt that is too large for most models, in bytes.
const OVERSIZED: usize = 2 << 20;
/// A model that nobody has.
const NO_MODEL: &str = "missing-model-of-a-probe";

/// One call, in OpenAI's form.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) body: Value,
    /// Most tokens of output.
    pub(super) cap: u64,
    /// Ask for usage in the stream.
    pub(super) usage: bool,
    pub(super) wrong_key: bool,
    /// How long it may take.
    pub(super) wait: Duration,
}

impl Ask {
    fn new(body: Value, cap: u64) -> Self {
        Self { body, cap, usage: false, wrong_key: false, wait: WAIT }
    }

    pub(super) fn asking_usage(self) -> Self {
        Self { usage: true, ..self }
    }

    pub(super) fn with_wrong_key(self) -> Self {
        Self { wrong_key: true, ..self }
    }
}

fn words(model: &str, text: &str, stream: bool) -> Value {
    let mut body = json!({ "model": model, "messages": [{ "role": "user", "content": text }] });
    if stream {
        body["stream"] = true.into();
    }
    body
}

/// A short answer at once.
pub(super) fn whole(model: &str) -> Ask {
    Ask::new(words(model, "Say OK.", false), WORDS)
}

/// A short answer as a stream.
pub(super) fn streamed(model: &str) -> Ask {
    Ask::new(words(model, "Count from one to five.", true), WORDS)
}

fn tools() -> Value {
    json!([{ "type": "function", "function": {
        "name": "get_weather",
        "description": "The weather in a city now.",
        "parameters": {
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        },
    }}])
}

const WEATHER: &str = "What is the weather in Paris now? Use the tool get_weather.";

/// A question that wants the tool.
pub(super) fn tool(model: &str, stream: bool) -> Ask {
    let mut body = words(model, WEATHER, stream);
    body["tools"] = tools();
    Ask::new(body, TOOL)
}

/// A conversation in which the model has called the tool and said nothing beside it: clients send
/// its turn back with `content: null`.
pub(super) fn null_content(model: &str) -> Ask {
    let body = json!({
        "model": model,
        "tools": tools(),
        "messages": [
            { "role": "user", "content": WEATHER },
            { "role": "assistant", "content": null, "tool_calls": [{
                // Nine letters and digits, as the strictest servers want them.
                "id": "probecall", "type": "function",
                "function": { "name": "get_weather", "arguments": "{\"city\":\"Paris\"}" },
            }]},
            { "role": "tool", "tool_call_id": "probecall", "content": "Sunny, 21 degrees." },
        ],
    });
    Ask::new(body, WORDS)
}

/// A model that is not there.
pub(super) fn unknown_model() -> Ask {
    whole(NO_MODEL)
}

/// A prompt that is too large.
pub(super) fn oversized(model: &str) -> Ask {
    let sentence = "The quick brown fox jumps over the lazy dog. ";
    let text = sentence.repeat(OVERSIZED / sentence.len() + 1);
    Ask { wait: LONG_WAIT, ..Ask::new(words(model, &text, false), 1) }
}

/// A key of the same form that opens nothing: each letter and digit becomes another. `None`: the key
/// has none.
pub(super) fn wrong_key(key: &Secret) -> Option<Secret> {
    let other = |c: char| match c {
        'X' | 'x' => 'y',
        '0' => '1',
        _ if c.is_ascii_uppercase() => 'X',
        _ if c.is_ascii_lowercase() => 'x',
        _ if c.is_ascii_digit() => '0',
        _ => c,
    };
    let wrong: String = key.expose().chars().map(other).collect();
    (wrong != key.expose()).then(|| Secret::new(wrong))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sluicegate_dialect::{Call, Endpoint};

    use super::*;

    #[test]
    fn every_ask_is_a_request() {
        let asks = [
            whole("m"),
            streamed("m\"n").asking_usage(),
            tool("m", true),
            null_content("m"),
            unknown_model(),
            oversized("m"),
        ];
        for ask in asks {
            let body = Bytes::from(ask.body.to_string());
            Call::parse(Endpoint::Chat, body).unwrap_or_else(|fault| panic!("{fault}"));
        }
        assert!(oversized("m").body.to_string().len() > OVERSIZED);
    }

    #[test]
    fn a_wrong_key_has_the_form_of_the_right_one() {
        let wrong = |key: &str| wrong_key(&Secret::new(key)).map(|key| key.expose().to_owned());
        assert_eq!(wrong("sk-Ab0:9x").as_deref(), Some("xx-Xx1:0y"));
        assert_eq!(wrong("--"), None);
    }
}
