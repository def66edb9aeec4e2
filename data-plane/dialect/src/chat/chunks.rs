//! A streamed answer in OpenAI's form: one chunk for each thing that a format's stream says.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::value::RawValue;
use sluicegate_model::Usage;

use super::reply::{
    BodyCall, BodyFunction, BodyUsage, Extra, ReasoningPart, new_call_id, new_id, now_s,
};
use crate::{
    call::Call,
    dialect::{StreamEvent, StreamReader},
};

/// Writes the chunks of one stream and keeps count of what passed.
#[derive(Debug)]
pub struct Chunks {
    /// `"id":…,"object":…,"created":…,"model":…`, written when the first chunk is.
    head: Option<Bytes>,
    id: Option<String>,
    model: String,
    include_usage: bool,
    out: BytesMut,
    choices: Vec<State>,
    asked: u64,
    /// As last reported; the reader puts it here.
    pub usage: Option<Usage>,
    /// The last finish reason as the upstream spelt it.
    pub finish_word: Option<String>,
    chars: u64,
    told_usage: bool,
}

/// How far one choice has come.
#[derive(Debug, Default, Clone)]
struct State {
    begun: bool,
    finished: bool,
    /// Tool calls that were begun.
    tools: usize,
    signed: bool,
}

#[derive(Serialize)]
struct Delta<'a> {
    index: usize,
    delta: Inner<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a RawValue>,
    finish_reason: Option<&'a str>,
}

#[derive(Serialize, Default)]
struct Inner<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<[ReasoningPart; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[BodyCall<'a>; 1]>,
}

impl Chunks {
    /// Chunks for the stream that answers `call`.
    pub fn new(call: &Call) -> Self {
        Self {
            head: None,
            id: None,
            model: call.model.clone(),
            include_usage: call.stream_options.wants_usage(),
            out: BytesMut::new(),
            choices: Vec::new(),
            asked: call.choices,
            usage: None,
            finish_word: None,
            chars: 0,
            told_usage: false,
        }
    }

    /// What the upstream calls the answer. Counts until the first chunk is written.
    pub fn set_id(&mut self, id: &str) {
        if self.id.is_none() && !id.is_empty() {
            self.id = Some(id.to_owned());
        }
    }

    /// What the upstream calls the model. Counts until the first chunk is written.
    pub fn set_model(&mut self, model: &str) {
        if self.head.is_none() && !model.is_empty() {
            model.clone_into(&mut self.model);
        }
    }

    /// The choice begins: a chunk that names the role, once.
    pub fn begin(&mut self, choice: usize) {
        if !self.state(choice).begun {
            self.state(choice).begun = true;
            let role = Some("assistant");
            self.delta(choice, Inner { role, content: Some("".into()), ..Inner::default() }, None);
        }
    }

    /// Text of the answer.
    pub fn text(&mut self, choice: usize, text: &str) {
        if !text.is_empty() {
            self.begin(choice);
            self.count(text);
            self.delta(choice, Inner { content: Some(text.into()), ..Inner::default() }, None);
        }
    }

    /// Text of a thought.
    pub fn reasoning(&mut self, choice: usize, text: &str) {
        if !text.is_empty() {
            self.begin(choice);
            self.count(text);
            let inner = Inner { reasoning_content: Some(text), ..Inner::default() };
            self.delta(choice, inner, None);
        }
    }

    /// A whole thought as a later turn must repeat it: its text was written before, piece by piece.
    pub fn reasoning_detail(&mut self, choice: usize, part: ReasoningPart) {
        self.begin(choice);
        self.state(choice).signed = true;
        self.delta(choice, Inner { reasoning_details: Some([part]), ..Inner::default() }, None);
    }

    /// A tool call begins. Returns its index among the calls of the choice. An empty id: one is made.
    pub fn tool(&mut self, choice: usize, id: &str, name: &str, signature: Option<&str>) -> usize {
        self.begin(choice);
        let index = self.state(choice).tools;
        self.state(choice).tools += 1;
        self.count(name);
        let made;
        let id = if id.is_empty() {
            made = new_call_id();
            made.as_str()
        } else {
            id
        };
        let call = BodyCall {
            index: Some(index),
            id: Some(id),
            kind: Some("function"),
            function: BodyFunction { name: Some(name), arguments: "" },
            extra_content: signature.map(Extra::new),
        };
        self.delta(choice, Inner { tool_calls: Some([call]), ..Inner::default() }, None);
        index
    }

    /// More of the arguments of a tool call.
    pub fn arguments(&mut self, choice: usize, tool: usize, piece: &str) {
        if !piece.is_empty() {
            self.count(piece);
            let call = BodyCall {
                index: Some(tool),
                id: None,
                kind: None,
                function: BodyFunction { name: None, arguments: piece },
                extra_content: None,
            };
            self.delta(choice, Inner { tool_calls: Some([call]), ..Inner::default() }, None);
        }
    }

    /// Log-probabilities of the text that was written last, in OpenAI's form.
    pub fn logprobs(&mut self, choice: usize, logprobs: &RawValue) {
        self.begin(choice);
        let inner = Inner { content: Some("".into()), ..Inner::default() };
        // A line end would end the line of the event, too. In JSON it is mere space.
        let on_one_line = logprobs.get().replace(['\n', '\r'], " ");
        self.write_choice(Delta {
            index: choice,
            delta: inner,
            logprobs: serde_json::from_str(&on_one_line).ok(),
            finish_reason: None,
        });
    }

    /// Has the choice called a tool?
    pub fn has_tools(&self, choice: usize) -> bool {
        self.choices.get(choice).is_some_and(|state| state.tools > 0)
    }

    /// The choice is finished, for this reason in OpenAI's words.
    pub fn finish(&mut self, choice: usize, reason: &str) {
        if !self.state(choice).finished {
            self.begin(choice);
            self.state(choice).finished = true;
            self.delta(choice, Inner::default(), Some(reason));
        }
    }

    /// Everything that was written since it was last taken, as an event for the relay.
    pub fn event(&mut self) -> StreamEvent {
        if self.out.is_empty() {
            return StreamEvent::Hidden;
        }
        let says = self.chars > 0 || self.choices.iter().any(|it| it.finished || it.signed);
        let out = self.out.split().freeze();
        if says { StreamEvent::Content(out) } else { StreamEvent::Preamble(out) }
    }

    /// Has every choice that began finished?
    pub fn complete(&self) -> bool {
        !self.choices.is_empty()
            && self.choices.iter().all(|it| it.finished || !it.begun)
            && self.choices.iter().any(|it| it.finished)
    }

    /// Have as many finished as were asked for?
    pub fn whole(&self) -> bool {
        let finished = self.choices.iter().filter(|state| state.finished).count() as u64;
        self.complete() && finished >= self.asked
    }

    /// The usage chunk, if the caller asked for it, and whatever was not taken yet.
    pub fn tail(&mut self) -> Option<Bytes> {
        if self.include_usage
            && !self.told_usage
            && let Some(usage) = self.usage
        {
            self.told_usage = true;
            self.open();
            self.out.put_slice(b"\"choices\":[],\"usage\":");
            self.write(&BodyUsage::from(usage));
            self.out.put_slice(b"}\n\n");
        }
        (!self.out.is_empty()).then(|| self.out.split().freeze())
    }

    /// Characters that passed.
    pub fn chars(&self) -> u64 {
        self.chars
    }

    fn state(&mut self, choice: usize) -> &mut State {
        // More choices than anyone asks for are all taken for the last.
        const MOST: usize = 128;
        let choice = choice.min(MOST - 1);
        if self.choices.len() <= choice {
            self.choices.resize(choice + 1, State::default());
        }
        // It was just made.
        self.choices.get_mut(choice).unwrap_or_else(|| unreachable!("the vector is long enough"))
    }

    fn count(&mut self, text: &str) {
        self.chars += text.chars().count() as u64;
    }

    fn delta(&mut self, index: usize, delta: Inner<'_>, finish_reason: Option<&str>) {
        self.write_choice(Delta { index, delta, logprobs: None, finish_reason });
    }

    fn write_choice(&mut self, choice: Delta<'_>) {
        self.open();
        self.out.put_slice(b"\"choices\":[");
        self.write(&choice);
        self.out.put_slice(if self.include_usage { b"],\"usage\":null}\n\n" } else { b"]}\n\n" });
    }

    /// The beginning of a chunk, up to where its choices stand.
    fn open(&mut self) {
        self.out.put_slice(b"data: {");
        let head = match self.head.take() {
            Some(head) => head,
            None => self.new_head(),
        };
        self.out.put_slice(&head);
        self.head = Some(head);
    }

    fn new_head(&mut self) -> Bytes {
        let id = self.id.take().unwrap_or_else(new_id);
        let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let head = format!(
            "\"id\":{},\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":{},",
            text(&id),
            now_s(),
            text(&self.model)
        );
        head.into()
    }

    fn write(&mut self, value: &impl Serialize) {
        let written = serde_json::to_writer((&mut self.out).writer(), value);
        debug_assert!(written.is_ok(), "memory takes whatever is written");
    }
}

/// The part of a [`StreamReader`] that is the same in every format which is translated by [`Chunks`].
pub trait Translates: std::fmt::Debug + Send {
    /// Understands the next frame, and writes what it says.
    fn translate(&mut self, frame: &crate::frame::Frame) -> StreamEvent;

    /// Where it is written.
    fn chunks(&self) -> &Chunks;

    /// The same, to write.
    fn chunks_mut(&mut self) -> &mut Chunks;
}

impl<T: Translates> StreamReader for T {
    fn read(&mut self, frame: &crate::frame::Frame) -> StreamEvent {
        match frame.mended() {
            Some(mended) => self.translate(&mended),
            None => self.translate(frame),
        }
    }

    fn complete(&self) -> bool {
        self.chunks().complete()
    }

    fn whole(&self) -> bool {
        self.chunks().whole()
    }

    fn tail(&mut self) -> Option<Bytes> {
        self.chunks_mut().tail()
    }

    fn usage(&self) -> Option<Usage> {
        self.chunks().usage
    }

    fn finish_reason(&self) -> Option<&str> {
        self.chunks().finish_word.as_deref()
    }

    fn output_chars(&self) -> u64 {
        self.chunks().chars()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Endpoint;

    #[test]
    fn log_probabilities_stay_on_the_line_of_their_event() {
        let call = Call::parse(Endpoint::Chat, Bytes::from_static(b"{\"model\":\"m\"}")).unwrap();
        let mut chunks = Chunks::new(&call);
        let raw = RawValue::from_string("{\"content\":\r\n[1.0]}".to_owned()).unwrap();
        chunks.text(0, "A");
        chunks.logprobs(0, &raw);
        let StreamEvent::Content(wire) = chunks.event() else { panic!("nothing was written") };
        let text = std::str::from_utf8(&wire).unwrap();
        assert!(
            text.contains(r#""delta":{"content":""},"logprobs":{"content":  [1.0]}"#),
            "{text}"
        );
        assert_eq!(text.matches("data: ").count(), text.matches('\n').count() / 2);
    }
}
