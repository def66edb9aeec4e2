//! A caller's request, read once: which model, streamed or not, and where those words stand in the
//! bytes.

mod reader;

use std::ops::Range;

use bytes::Bytes;

use self::reader::Reader;
use crate::{
    json::{JsonError, Kind, Scanner},
    prompt::Prompt,
};

/// What is asked for. One pipeline serves them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    Chat,
    Completions,
    Embeddings,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Completions, Self::Embeddings];

    /// Stable name for records and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
        }
    }

    /// The path below `/v1` that callers use.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
            Self::Embeddings => "/embeddings",
        }
    }
}

/// A caller's request in OpenAI form. The body stays as it came.
#[derive(Debug, Clone)]
pub struct Call {
    pub endpoint: Endpoint,
    pub body: Bytes,
    /// The model that was asked for.
    pub model: String,
    /// Where the model's value stands, quotes included.
    pub model_span: Range<usize>,
    pub stream: bool,
    pub stream_options: StreamOptions,
    /// Just behind the body's opening brace, where a member may be put in.
    pub insert_at: usize,
    /// The caller's own name for its user, capped.
    pub user: Option<String>,
    /// Largest of the output caps that the caller set, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Members for an output cap whose values set none, such as null or -1.
    pub uncapped: Vec<Range<usize>>,
    /// The output cap that is put in where the caller set none, in tokens.
    pub send_cap: Option<u64>,
    /// How many choices a whole answer has: `n` for each prompt.
    pub choices: u64,
    /// How many choices are made to find the best: what is paid for.
    pub generated: u64,
    /// What becomes prompt.
    pub prompt: Prompt,
    /// Every member of the body, in order.
    pub members: Vec<Member>,
}

/// Where a member stands in its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name, quotes included.
    pub name: Range<usize>,
    pub value: Range<usize>,
}

impl Call {
    /// The member of this name, where it is spelt without escapes: its index and its value.
    pub fn member(&self, name: &str) -> Option<(usize, &[u8])> {
        let at = self.members.iter().position(|member| self.is_named(member, name))?;
        let span = self.members.get(at)?.value.clone();
        Some((at, self.body.get(span)?))
    }

    fn is_named(&self, member: &Member, name: &str) -> bool {
        let spelt = self.body.get(member.name.start + 1..member.name.end.saturating_sub(1));
        spelt == Some(name.as_bytes())
    }

    /// A rough count of prompt tokens from the size of the body, for clocks and never for bills:
    /// about four bytes a token, and long data URLs count as images do, by the piece.
    pub fn rough_prompt_tokens(&self) -> u64 {
        const IMAGE_CAP: u64 = 32_000;
        let by_size = self.body.len() as u64 / 4;
        if self.body.len() > 1 << 20 { by_size.min(IMAGE_CAP) } else { by_size }
    }
}

/// What the caller says about usage in its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamOptions {
    Absent,
    /// Present, but not an object; where its value stands.
    Other(Range<usize>),
    /// An object.
    Object {
        /// Just behind its opening brace.
        insert_at: usize,
        /// Has it no member at all?
        empty: bool,
        /// What `include_usage` says, and where.
        include_usage: Option<(bool, Range<usize>)>,
    },
}

impl StreamOptions {
    /// Did the caller ask for usage?
    pub fn wants_usage(&self) -> bool {
        matches!(self, Self::Object { include_usage: Some((true, _)), .. })
    }
}

/// Why a body is not a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCall {
    #[error("the request body is not valid UTF-8 (byte {0})")]
    NotUtf8(usize),
    #[error("the request body is not valid JSON: {0}")]
    NotJson(#[from] JsonError),
    #[error("the request body must be a JSON object")]
    NotObject,
    #[error("'{0}' is required")]
    Missing(&'static str),
    #[error("'{name}' must be {expected}")]
    WrongType { name: &'static str, expected: &'static str },
    #[error("'{0}' is given more than once")]
    Duplicate(&'static str),
}

impl InvalidCall {
    /// The member that is at fault.
    pub fn param(&self) -> Option<&'static str> {
        match self {
            Self::Missing(name) | Self::WrongType { name, .. } | Self::Duplicate(name) => {
                Some(name)
            }
            Self::NotUtf8(_) | Self::NotJson(_) | Self::NotObject => None,
        }
    }
}

/// Members that decide something here. Each may be given once: a reader that takes the first and
/// one that takes the last would otherwise see two requests.
const SELECTORS: [&str; 10] = [
    "model",
    "stream",
    "stream_options",
    "user",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "best_of",
    "n",
    "prompt",
];

/// Members that become prompt, besides `prompt`.
const PROMPT: [&str; 5] = ["messages", "input", "tools", "functions", "response_format"];

impl Call {
    /// Reads a request body.
    ///
    /// # Errors
    /// What is wrong with it, in words for the caller.
    pub fn parse(endpoint: Endpoint, body: Bytes) -> Result<Self, InvalidCall> {
        std::str::from_utf8(&body).map_err(|error| InvalidCall::NotUtf8(error.valid_up_to()))?;
        let mut reader = Reader::default();
        let mut scanner = Scanner::new(&body);
        if scanner.kind()? != Kind::Object {
            scanner.skip()?;
            return Err(InvalidCall::NotObject);
        }
        let mut fault = None;
        let mut members = Vec::with_capacity(16);
        let span = scanner.object(|scanner, name| {
            let place = members.len();
            scanner.kind()?;
            members.push(Member { name: scanner.span_of(name), value: scanner.at()..scanner.at() });
            let known = SELECTORS.into_iter().enumerate().find(|(_, known)| name.is(known));
            match known {
                None => {
                    let part = PROMPT.into_iter().any(|part| name.is(part));
                    let span = scanner.skip()?;
                    if part {
                        reader.prompt.add(span, name.is("messages") || name.is("input"));
                    }
                }
                Some((index, known)) if reader.seen & (1 << index) != 0 => {
                    fault.get_or_insert(InvalidCall::Duplicate(known));
                    scanner.skip()?;
                }
                Some((index, known)) => {
                    reader.seen |= 1 << index;
                    if let Err(found) = reader.member(known, scanner)? {
                        fault.get_or_insert(found);
                    }
                }
            }
            if let Some(member) = members.get_mut(place) {
                member.value.end = scanner.at();
            }
            Ok(())
        })?;
        scanner.end()?;
        if let Some(fault) = fault {
            return Err(fault);
        }
        let choices = reader.n.unwrap_or(1).max(1).saturating_mul(reader.prompts.max(1));
        let (model, model_span) = reader.model.ok_or(InvalidCall::Missing("model"))?;
        Ok(Self {
            endpoint,
            model,
            model_span,
            stream: reader.stream && endpoint != Endpoint::Embeddings,
            stream_options: reader.stream_options.unwrap_or(StreamOptions::Absent),
            insert_at: span.start + 1,
            user: reader.user,
            max_output_tokens: reader.max_output_tokens,
            uncapped: reader.uncapped,
            send_cap: None,
            choices,
            generated: choices.max(reader.best_of.saturating_mul(reader.prompts.max(1))),
            prompt: reader.prompt,
            members,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Call, InvalidCall> {
        Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn reads_selectors_where_they_stand() {
        let body = r#" { "x":[{"model":"no"}], "model" : "g\u0070t", "stream":true, "stream_options":{"include_usage":false}, "max_tokens":1, "max_completion_tokens":900 } "#;
        let call = parse(body).unwrap();
        assert_eq!(call.model, "gpt");
        assert_eq!(body.get(call.model_span.clone()), Some(r#""g\u0070t""#));
        assert!(call.stream && !call.stream_options.wants_usage());
        assert_eq!(body.get(..call.insert_at), Some(" {"));
        assert_eq!(call.max_output_tokens, Some(900));
    }

    #[test]
    fn choices_are_n_for_each_prompt() {
        let choices =
            |members: &str| parse(&format!(r#"{{"model":"m"{members}}}"#)).unwrap().choices;
        assert_eq!(choices(""), 1);
        assert_eq!(choices(r#","n":3"#), 3);
        assert_eq!(choices(r#","n":null"#), 1);
        assert_eq!(choices(r#","n":0"#), 1);
        assert_eq!(choices(r#","prompt":"a""#), 1);
        assert_eq!(choices(r#","prompt":["a","b"]"#), 2);
        assert_eq!(choices(r#","prompt":[1,2,3]"#), 1, "one prompt in tokens");
        assert_eq!(choices(r#","prompt":[[1,2],[3]],"n":2"#), 4);
        assert_eq!(choices(r#","prompt":["a","b"],"n":18446744073709551615"#), u64::MAX);
    }

    #[test]
    fn b3_output_caps_cannot_be_hidden() {
        let cap = |members: &str| {
            let call = parse(&format!(r#"{{"model":"m",{members}}}"#)).unwrap();
            (call.max_output_tokens, call.uncapped.len())
        };
        assert_eq!(cap(r#""max_tokens":1,"max_completion_tokens":9000"#), (Some(9000), 0));
        assert_eq!(cap(r#""max_tokens":1,"max_output_tokens":70"#), (Some(70), 0));
        assert_eq!(cap(r#""max_tokens":99999999999999999999999"#), (Some(u64::MAX), 0));
        assert_eq!(cap(r#""max_tokens":1e3"#), (Some(1000), 0));
        assert_eq!(cap(r#""max_tokens":-1"#), (None, 1));
        assert_eq!(cap(r#""max_tokens":null"#), (None, 1));
        assert_eq!(cap(r#""max_tokens":"5""#), (None, 1));
        let generated =
            |members: &str| parse(&format!(r#"{{"model":"m",{members}}}"#)).unwrap().generated;
        assert_eq!(generated(r#""n":"50""#), 50);
        assert_eq!(generated(r#""n":5e1"#), 50);
        assert_eq!(generated(r#""n":1,"best_of":"20""#), 20);
        assert_eq!(generated(r#""n":99999999999999999999999"#), u64::MAX);
        assert_eq!(generated(r#""n":2,"best_of":5"#), 5);
        assert_eq!(generated(r#""n":3,"prompt":["a","b"]"#), 6);
    }

    #[test]
    fn b3_every_member_that_becomes_prompt_is_measured() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"a":1}],"prompt":"xyz"}"#;
        let call = parse(body).unwrap();
        let expected = r#"[{"role":"user","content":"hi"}][{"a":1}]"xyz""#.len() as u64;
        assert_eq!(call.prompt.size(&call.body).text, expected);
    }

    #[test]
    fn faults_name_the_member() {
        check("", "not valid JSON", None);
        check("[1]", "must be a JSON object", None);
        check("{}", "'model' is required", Some("model"));
        check(r#"{"model":1}"#, "'model' must be a string", Some("model"));
        check(r#"{"model":""}"#, "non-empty", Some("model"));
        check(r#"{"model":"a","model":"b"}"#, "more than once", Some("model"));
        check(r#"{"model":"a","mod\u0065l":"b"}"#, "more than once", Some("model"));
        check(r#"{"model":"a","stream":false,"stream":true}"#, "more than once", Some("stream"));
        check(r#"{"model":"a","stream":"yes"}"#, "true or false", Some("stream"));
        check(r#"{"model":"a"} x"#, "something follows", None);
        check(
            &format!(r#"{{"model":"a","x":{}1{}}}"#, "[".repeat(200), "]".repeat(200)),
            "nested deeper",
            None,
        );

        #[track_caller]
        fn check(body: &str, message: &str, param: Option<&str>) {
            let fault = parse(body).unwrap_err();
            assert!(fault.to_string().contains(message), "{fault}");
            assert_eq!(fault.param(), param);
        }
        let fault = Call::parse(Endpoint::Chat, Bytes::from_static(b"{\"model\":\"\xc3\x28\"}"));
        assert_eq!(fault.unwrap_err(), InvalidCall::NotUtf8(10));
    }
}
