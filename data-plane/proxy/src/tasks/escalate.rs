//! Whether a whole answer is good enough, or a stronger model is to answer.

use serde::{Deserialize, de::IgnoredAny};
use sluicegate_model::resource::routing::{Check, Escalation};

use super::decide::{By, Route};

#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
    function_call: Option<IgnoredAny>,
    audio: Option<IgnoredAny>,
}

impl Message {
    fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default().trim()
    }

    fn declines(&self) -> bool {
        self.refusal.as_deref().is_some_and(|refusal| !refusal.trim().is_empty())
    }

    fn acts(&self) -> bool {
        self.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
            || self.function_call.is_some()
            || self.audio.is_some()
    }
}

/// Where a request goes after a whole answer of `model`, in the callers' format; `json`: the caller
/// asked for JSON. `None`: the answer stands, because it is good enough, because no stronger model is
/// left, or because nothing can be read in it.
pub fn escalate<'a>(
    escalation: &'a Escalation,
    model: &str,
    json: bool,
    answer: &[u8],
) -> Option<Route<'a>> {
    let next = escalation.after(model)?;
    let check = failed(escalation, json, answer)?;
    Some(Route { model: next, by: By::Escalation(check) })
}

/// The first of the declared checks that no choice of the answer passes.
fn failed(escalation: &Escalation, json: bool, answer: &[u8]) -> Option<Check> {
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    let fails = |check: Check, choice: &Choice| match check {
        Check::Refusal => refuses(escalation, choice),
        Check::Length => choice.finish_reason.as_deref() == Some("length"),
        Check::InvalidJson => json && !choice.message.acts() && !is_json(choice.message.text()),
        Check::Empty => {
            let message = &choice.message;
            message.text().is_empty() && !message.acts() && !message.declines()
        }
    };
    let none_passes = |check: &Check| match answer.choices.as_slice() {
        [] => *check == Check::Empty,
        choices => choices.iter().all(|choice| fails(*check, choice)),
    };
    escalation.on.iter().copied().find(none_passes)
}

fn refuses(escalation: &Escalation, choice: &Choice) -> bool {
    if choice.message.declines() || choice.finish_reason.as_deref() == Some("content_filter") {
        return true;
    }
    // Case may change how long a text is; what is compared is short.
    let longest = escalation.refusal_phrases.iter().map(|phrase| phrase.chars().count()).max();
    let beginning: String =
        choice.message.text().chars().take(longest.unwrap_or_default()).collect();
    let beginning = beginning.to_lowercase();
    escalation.refusal_phrases.iter().any(|phrase| beginning.starts_with(phrase.as_str()))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn escalation(on: &[Check]) -> Escalation {
        Escalation {
            on: on.to_vec(),
            models: vec!["small".into(), "strong".into()],
            refusal_phrases: vec!["i cannot".into()],
        }
    }

    const ALL: [Check; 4] = [Check::Refusal, Check::Length, Check::InvalidJson, Check::Empty];

    #[track_caller]
    fn check(message: Value, finish: &str, json: bool, expected: Option<Check>) {
        let answer = json!({ "choices": [{ "message": message, "finish_reason": finish }] });
        let answer = answer.to_string();
        let escalation = escalation(&ALL);
        let found = escalate(&escalation, "small", json, answer.as_bytes());
        let by = expected.map(|check| Route { model: "strong", by: By::Escalation(check) });
        assert_eq!(found, by, "{answer}");
    }

    #[test]
    fn c8_answers_that_are_not_good_enough() {
        let call = json!([{ "id": "1" }]);
        check(json!({ "content": "fine" }), "stop", false, None);
        check(json!({ "content": "{\"a\":1}" }), "stop", true, None);
        check(json!({ "content": "```json\n{}\n```" }), "stop", true, Some(Check::InvalidJson));
        check(json!({ "content": "fine" }), "length", false, Some(Check::Length));
        check(json!({ "content": "{\"a\":" }), "length", true, Some(Check::Length));
        check(json!({ "content": " \n" }), "stop", false, Some(Check::Empty));
        check(json!({ "content": null }), "stop", true, Some(Check::InvalidJson));
        check(json!({ "content": null, "tool_calls": call }), "tool_calls", true, None);
        check(json!({ "content": null, "tool_calls": [] }), "stop", false, Some(Check::Empty));
        check(json!({ "content": null, "function_call": {} }), "function_call", false, None);
        check(json!({ "content": null, "refusal": "no" }), "stop", false, Some(Check::Refusal));
        check(json!({ "content": "" }), "content_filter", false, Some(Check::Refusal));
        check(json!({ "content": "I CANNOT do" }), "stop", false, Some(Check::Refusal));
        check(json!({ "content": "Well, I cannot" }), "stop", false, None);
    }

    #[test]
    fn c8_the_ladder_has_an_end_and_nonsense_stands() {
        let of = |model: &str, answer: &str| {
            let escalation = escalation(&[Check::Empty]);
            escalate(&escalation, model, false, answer.as_bytes()).map(|one| one.model.to_owned())
        };
        let empty = r#"{"choices":[]}"#;
        assert_eq!(of("other", empty).as_deref(), Some("small"));
        assert_eq!(of("small", empty).as_deref(), Some("strong"));
        assert_eq!(of("strong", empty), None);
        assert_eq!(of("small", "<html>"), None);
        assert_eq!(of("small", r#"{"error":{}}"#), None);
        let two = r#"{"choices":[{"message":{"content":""}},{"message":{"content":"x"}}]}"#;
        assert_eq!(of("small", two), None, "one of them is good");
    }
}
