//! A reply as the client saw it, and what the OpenAI format makes of it.

use serde_json::Value;
use tokio::time::Instant;

use crate::net::{PeerEnd, find_header};
use crate::sse::{Event, SseParser};

/// A reply, whole or as far as it came.
#[derive(Debug)]
pub struct Reply {
    /// When the request had been written.
    pub sent_at: Instant,
    /// When the end of the head was read.
    pub head_at: Option<Instant>,
    /// `None` when no head came.
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    /// Statuses of 1xx responses before the head.
    pub informational: Vec<u16>,
    /// Decoded if it came with a content coding.
    pub body: Vec<u8>,
    /// Time and length of each piece of the body, before decoding.
    pub reads: Vec<(Instant, usize)>,
    /// Present for an event stream.
    pub sse: Option<SseParser>,
    /// When the framing said that the body is complete; `None` for a reply cut short.
    pub complete_at: Option<Instant>,
    /// How the server closed the connection, if it did.
    pub peer_end: Option<(Instant, PeerEnd)>,
    /// When the client closed.
    pub closed_at: Option<Instant>,
    /// Faults in the framing or coding, and failures to send.
    pub problems: Vec<String>,
    /// Whether the client gave up waiting.
    pub timed_out: bool,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            sent_at: Instant::now(),
            head_at: None,
            status: None,
            headers: Vec::new(),
            informational: Vec::new(),
            body: Vec::new(),
            reads: Vec::new(),
            sse: None,
            complete_at: None,
            peer_end: None,
            closed_at: None,
            problems: Vec::new(),
            timed_out: false,
        }
    }
}

impl Reply {
    /// A reply that never came.
    pub(super) fn failed(problem: String) -> Self {
        Self { problems: vec![problem], ..Self::default() }
    }

    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// Whether the content type is `text/event-stream`, with whatever parameters.
    pub fn is_event_stream(&self) -> bool {
        self.has_media_type("text/event-stream")
    }

    /// Whether the content type is `application/json`, with whatever parameters.
    pub fn is_json(&self) -> bool {
        self.has_media_type("application/json")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Result<Value> {
        serde_json::from_slice(&self.body)
    }

    /// When the reply was over for the client: complete, or cut by the server.
    pub fn over_at(&self) -> Option<Instant> {
        self.complete_at.or(self.peer_end.map(|(at, _)| at))
    }

    /// Events that have data, with the data.
    pub fn data(&self) -> impl Iterator<Item = (&Event, &str)> {
        let events = self.sse.iter().flat_map(|sse| &sse.events);
        events.filter_map(|event| Some((event, event.data.as_deref()?)))
    }

    /// The data of each event except end markers; a string where it is not JSON.
    pub fn payloads(&self) -> impl Iterator<Item = Value> {
        self.data()
            .filter(|(_, data)| !is_done(data))
            .map(|(_, data)| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
    }

    /// Number of end markers.
    pub fn dones(&self) -> usize {
        self.data().filter(|(_, data)| is_done(data)).count()
    }

    /// Payloads that report an error in the middle of a stream.
    pub fn errors(&self) -> Vec<Value> {
        self.payloads()
            .filter(|payload| payload.get("error").is_some_and(Value::is_object))
            .collect()
    }

    /// When the first event whose data holds `text` was complete.
    pub fn event_at(&self, text: &str) -> Option<Instant> {
        self.data().find(|(_, data)| data.contains(text)).map(|(event, _)| event.at)
    }

    /// Every delta of the first choice, in order.
    pub fn deltas(&self) -> Vec<Value> {
        self.choices()
            .into_iter()
            .filter_map(|mut choice| Some(choice.get_mut("delta")?.take()))
            .collect()
    }

    /// The strings that one field of the delta had, in order. Empty and null ones are left out.
    pub fn delta_texts(&self, field: &str) -> Vec<String> {
        let text = |delta: Value| Some(delta.get(field)?.as_str()?.to_owned());
        self.deltas().into_iter().filter_map(text).filter(|text| !text.is_empty()).collect()
    }

    /// The answer's text, from a stream or from a complete answer.
    pub fn content(&self) -> Option<String> {
        match &self.sse {
            Some(_) => Some(self.delta_texts("content").concat()),
            None => {
                let message = self.json().ok()?;
                Some(message.pointer("/choices/0/message/content")?.as_str()?.to_owned())
            }
        }
    }

    /// The last finish reason of the first choice.
    pub fn finish(&self) -> Option<String> {
        let choices = match &self.sse {
            Some(_) => self.choices(),
            None => self.json().ok()?.pointer("/choices/0").cloned().into_iter().collect(),
        };
        let reason = |choice: &Value| Some(choice.get("finish_reason")?.as_str()?.to_owned());
        choices.iter().filter_map(reason).next_back()
    }

    /// Input and output tokens of the last usage object, if the client was shown one.
    pub fn usage(&self) -> Option<(u64, u64)> {
        let shown = match &self.sse {
            Some(_) => self.payloads().filter_map(|p| p.get("usage").cloned()).collect(),
            None => vec![self.json().ok()?.get("usage")?.clone()],
        };
        let usage = shown.into_iter().rfind(Value::is_object)?;
        let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        Some((count("prompt_tokens"), count("completion_tokens")))
    }

    fn choices(&self) -> Vec<Value> {
        self.payloads()
            .filter_map(|payload| payload.get("choices")?.as_array().cloned())
            .flatten()
            .filter(|choice| choice.get("index").is_none_or(|index| *index == 0))
            .collect()
    }

    fn has_media_type(&self, expected: &str) -> bool {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
    }
}

/// Whether the data is the end marker of a stream.
fn is_done(data: &str) -> bool {
    data.trim() == "[DONE]"
}
