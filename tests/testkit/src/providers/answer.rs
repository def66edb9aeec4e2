//! What a fake answers: decided once, then written in each dialect's own way.

use serde_json::{Value, json};

use super::ask::{Ask, Choice, Json, Media};
use super::dialect::Dialect;
use super::fit;
use super::rows::{self, ErrorRow, Meaning};

/// Number of pieces of a long answer.
pub const LONG: usize = 300;

/// Tokens that every request costs beside its words.
const BASE_TOKENS: u64 = 5;

/// Tokens that an image costs.
const MEDIA_TOKENS: u64 = 85;

/// An answer, in the pieces a stream sends.
#[derive(Debug, Default, Clone)]
pub(super) struct Answer {
    pub(super) reasoning: Vec<String>,
    pub(super) text: Vec<String>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
    pub(super) broken: Option<Break>,
}

#[derive(Debug, Clone)]
pub(super) struct ToolCall {
    pub(super) name: String,
    /// Always an object.
    pub(super) arguments: Value,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum Finish {
    #[default]
    Stop,
    Length,
    Tools,
    Filter,
    /// The dialect's own word.
    Word(String),
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Usage {
    /// All of the prompt, with what was read from the cache.
    pub(super) input: u64,
    pub(super) cached: u64,
    /// All of the answer, with the reasoning.
    pub(super) output: u64,
    pub(super) reasoning: u64,
}

/// How a stream breaks off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Break {
    /// Content events before it.
    pub(super) after: usize,
    pub(super) how: How,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Error(&'static ErrorRow),
    /// The body ends properly, too early.
    Eof,
    /// The connection ends inside the body.
    Cut,
}

impl Usage {
    pub(super) fn total(self) -> u64 {
        self.input + self.output
    }
}

impl ToolCall {
    /// The arguments as text; nothing at all for none.
    pub(super) fn text(&self) -> String {
        self.arguments.to_string()
    }

    pub(super) fn has_arguments(&self) -> bool {
        self.arguments.as_object().is_some_and(|object| !object.is_empty())
    }
}

impl Answer {
    /// What to answer, or the error that was asked for.
    pub(super) fn to(ask: &Ask, dialect: Dialect) -> Result<Self, &'static ErrorRow> {
        if let Some(name) = ask.word("fail:") {
            return Err(rows::named(dialect, name).unwrap_or(&rows::NO_SUCH_ROW));
        }
        if ask.model.starts_with("missing")
            && let Some(row) = rows::first_of(dialect, Meaning::ModelNotFound)
        {
            return Err(row);
        }
        let mut answer = Self { calls: calls(ask), ..Self::default() };
        if ask.thinks {
            answer.reasoning = pieces("Let me think about it.");
        }
        if answer.calls.is_empty() {
            answer.text = text(ask);
        } else {
            answer.finish = Finish::Tools;
            if ask.says("aloud") {
                answer.text = pieces("I shall look.");
            }
        }
        if let Some(word) = ask.word("finish:") {
            answer.end_as(word);
        }
        answer.cap(ask.cap);
        answer.usage = usage(ask, &answer);
        answer.broken = broken(ask, dialect)?;
        Ok(answer)
    }

    /// The whole text.
    pub(super) fn text(&self) -> String {
        self.text.concat()
    }

    /// The whole reasoning.
    pub(super) fn reasoning(&self) -> String {
        self.reasoning.concat()
    }

    fn end_as(&mut self, word: &str) {
        self.finish = match word {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "content_filter" => Finish::Filter,
            word => Finish::Word(word.to_owned()),
        };
        if matches!(self.finish, Finish::Length | Finish::Filter) {
            let half = self.text.len().div_ceil(2);
            self.text.truncate(half);
        }
    }

    /// Keeps to the most tokens that were asked for. Reasoning counts.
    fn cap(&mut self, cap: Option<u64>) {
        let cap = cap.and_then(|cap| usize::try_from(cap).ok()).unwrap_or(usize::MAX);
        if self.calls.is_empty() && self.reasoning.len() + self.text.len() > cap {
            self.reasoning.truncate(cap);
            self.text.truncate(cap - self.reasoning.len());
            self.finish = Finish::Length;
        }
    }
}

/// Cuts a text before its spaces, so that the pieces put together are the text.
pub(super) fn pieces(text: &str) -> Vec<String> {
    text.split_inclusive(' ').map(str::to_owned).collect()
}

/// Cuts a text into so many characters at a time.
pub(super) fn fragments(text: &str, length: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(length.max(1)).map(|piece| piece.iter().collect()).collect()
}

fn calls(ask: &Ask) -> Vec<ToolCall> {
    if ask.tools.is_empty() || !ask.results.is_empty() || ask.choice == Choice::Never {
        return Vec::new();
    }
    let named = |tool: &&super::ask::Tool| match &ask.choice {
        Choice::Named(name) => tool.name == *name,
        Choice::Auto | Choice::Never | Choice::Any => true,
    };
    let tools: Vec<_> = ask.tools.iter().filter(named).collect();
    let both = ask.says("both") && !ask.one_call;
    let wanted = tools.iter().cycle().take(if both { 2 } else { 1 }.min(tools.len() * 2));
    wanted
        .enumerate()
        .map(|(n, tool)| ToolCall {
            name: tool.name.clone(),
            arguments: match fit::fit(&tool.schema, n + 1) {
                object @ Value::Object(_) => object,
                _ => json!({}),
            },
        })
        .collect()
}

fn text(ask: &Ask) -> Vec<String> {
    if !ask.results.is_empty() {
        return pieces(&format!("The tool says: {}", ask.results.join(" and ")));
    }
    match &ask.json {
        Some(Json::Schema(schema)) => return fragments(&fit::fit(schema, 1).to_string(), 8),
        Some(Json::Any) => return fragments(r#"{"answer": "some JSON"}"#, 8),
        None => {}
    }
    if !ask.media.is_empty() {
        let told: Vec<_> = ask.media.iter().map(Media::told).collect();
        return pieces(&format!("I see {}", told.join(" and ")));
    }
    if ask.says("long") {
        return (0..LONG).map(|n| format!("piece {n} — 第{n}段 🙂\n")).collect();
    }
    let told = match ask.system.as_str() {
        "" => String::new(),
        system => format!(" (I was told: {system})"),
    };
    pieces(&format!("You said: {}{told}", ask.prompt))
}

fn usage(ask: &Ask, answer: &Answer) -> Usage {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let cached = ask.word("cached:").and_then(|n| n.parse().ok()).unwrap_or(0);
    let of_calls: usize =
        answer.calls.iter().map(|call| 1 + fragments(&call.text(), 8).len()).sum();
    let reasoning = count(answer.reasoning.len());
    Usage {
        input: BASE_TOKENS + ask.words + MEDIA_TOKENS * count(ask.media.len()) + cached,
        cached,
        output: reasoning + count(answer.text.len() + of_calls),
        reasoning,
    }
}

fn broken(ask: &Ask, dialect: Dialect) -> Result<Option<Break>, &'static ErrorRow> {
    let Some(word) = ask.word("break:") else { return Ok(None) };
    let (name, after) = word.split_once(':').unwrap_or((word, "2"));
    let how = match name {
        "eof" => How::Eof,
        "cut" => How::Cut,
        name => How::Error(rows::named(dialect, name).ok_or(&rows::NO_SUCH_ROW)?),
    };
    Ok(Some(Break { after: after.parse().unwrap_or(2), how }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::ask::Tool;

    #[test]
    fn pieces_are_the_text() {
        for text in ["", "a", "one two  three", " leading", "字 字"] {
            assert_eq!(pieces(text).concat(), text);
            assert_eq!(fragments(text, 2).concat(), text);
        }
    }

    #[test]
    fn the_most_tokens_are_kept_to_and_reasoning_counts() {
        let ask = |cap| Ask { prompt: "hi".into(), thinks: true, cap, ..Ask::default() };
        let whole = Answer::to(&ask(None), Dialect::OpenAi).unwrap();
        assert_eq!((whole.text().as_str(), &whole.finish), ("You said: hi", &Finish::Stop));
        let cut = Answer::to(&ask(Some(6)), Dialect::OpenAi).unwrap();
        assert_eq!((cut.usage.output, cut.usage.reasoning), (6, 5));
        assert_eq!((cut.text().as_str(), &cut.finish), ("You ", &Finish::Length));
    }

    #[test]
    fn two_calls_are_made_when_both_are_asked_for() {
        let tool = |name: &str| Tool { name: name.into(), schema: json!({"type": "object"}) };
        let ask = |prompt: &str| Ask {
            prompt: prompt.into(),
            tools: vec![tool("a"), tool("b")],
            ..Ask::default()
        };
        let names =
            |ask: &Ask| -> Vec<String> { calls(ask).into_iter().map(|call| call.name).collect() };
        assert_eq!(names(&ask("go")), ["a"]);
        assert_eq!(names(&ask("go both")), ["a", "b"]);
        assert_eq!(names(&Ask { one_call: true, ..ask("both") }), ["a"]);
        assert_eq!(names(&Ask { choice: Choice::Named("b".into()), ..ask("both") }), ["b", "b"]);
        assert!(names(&Ask { choice: Choice::Never, ..ask("both") }).is_empty());
        assert!(names(&Ask { results: vec!["1".into()], ..ask("both") }).is_empty());
    }

    #[test]
    fn an_error_without_a_row_is_no_error_of_the_provider() {
        let ask = Ask { prompt: "fail:nothing".into(), ..Ask::default() };
        assert_eq!(Answer::to(&ask, Dialect::OpenAi).unwrap_err().status, 501);
    }
}
