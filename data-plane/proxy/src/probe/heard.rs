//! What came back of one call.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version, header};
use sluicegate_dialect::{
    Answer, Dialect, Fault, Framing, StreamEvent, StreamReader,
    frame::{Frame, Framer},
};
use sluicegate_model::{Outcome, Usage};

use super::shape::Chunks;

/// Largest stream that is listened to, in bytes.
const MAX_STREAM: usize = 1 << 20;

/// One call and what came of it.
#[derive(Debug)]
pub(super) struct Exchange {
    /// How long it took until a connection stood, where one did.
    pub(super) connected: Option<Duration>,
    /// `None`: no answer began.
    pub(super) head: Option<Head>,
    pub(super) said: Said,
}

#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
}

impl Head {
    /// The content type as it was said, capped; a dash where there is none.
    pub(super) fn content_type(&self) -> String {
        let said = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        said.map_or_else(|| "-".to_owned(), |said| said.chars().take(64).collect())
    }
}

/// What was said.
#[derive(Debug)]
pub(super) enum Said {
    /// All at once: the body as it came, and what it means.
    Answer(Bytes, Answer),
    Stream(Box<Streamed>),
    /// No answer: what the gateway takes it for, and the body as far as it came.
    Failed(Fault, Bytes),
    /// The call was not made, for this reason.
    Untried(String),
}

impl Exchange {
    pub(super) fn untried(why: impl Into<String>) -> Self {
        Self { connected: None, head: None, said: Said::Untried(why.into()) }
    }

    /// Did anybody listen there?
    pub(super) fn is_connected(&self) -> bool {
        self.connected.is_some() || self.head.is_some()
    }

    /// Did it bring an answer, whole or in part?
    pub(super) fn has_answered(&self) -> bool {
        match &self.said {
            Said::Answer(..) => true,
            Said::Stream(stream) => stream.failed.is_none() && stream.first_content.is_some(),
            Said::Failed(..) | Said::Untried(_) => false,
        }
    }

    /// Usage, where an answer came; `None`: there was no answer to look at.
    pub(super) fn usage(&self) -> Option<Option<Usage>> {
        match &self.said {
            Said::Answer(_, answer) => Some(answer.usage),
            Said::Stream(stream) => self.has_answered().then_some(stream.usage),
            Said::Failed(..) | Said::Untried(_) => None,
        }
    }
}

/// How a stream's body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In order.
    Clean,
    /// The connection broke.
    Broke,
    /// It had not ended when the time was over.
    Open,
    /// It was longer than anybody listens.
    TooLong,
}

/// What a stream showed. Times are since the call began.
#[derive(Debug)]
pub(super) struct Streamed {
    /// Events with data.
    pub(super) events: u32,
    /// What the events themselves look like.
    pub(super) chunks: Chunks,
    /// Until the first part of the answer.
    pub(super) first_content: Option<Duration>,
    /// Until the last event.
    pub(super) last: Duration,
    /// Lines end with carriage returns, too.
    pub(super) crlf: bool,
    /// The terminal event came.
    pub(super) done: bool,
    /// Every choice gave a finish reason.
    pub(super) complete: bool,
    pub(super) finish: Option<String>,
    pub(super) usage: Option<Usage>,
    /// A tool was called.
    pub(super) calls_tool: bool,
    pub(super) failed: Option<Fault>,
    pub(super) end: End,
}

/// Listens to one stream.
#[derive(Debug)]
pub(super) struct Listener {
    framing: Framing,
    framer: Framer,
    reader: Box<dyn StreamReader>,
    bytes: usize,
    heard: Streamed,
}

impl Listener {
    pub(super) fn new(dialect: &dyn Dialect, reader: Box<dyn StreamReader>) -> Self {
        let framing = dialect.framing();
        let heard = Streamed {
            events: 0,
            chunks: Chunks::default(),
            first_content: None,
            last: Duration::ZERO,
            crlf: false,
            done: false,
            complete: false,
            finish: None,
            usage: None,
            calls_tool: false,
            failed: None,
            end: End::Clean,
        };
        Self { framing, framer: framing.framer(), reader, bytes: 0, heard }
    }

    /// Takes the next bytes. False: there is no use in listening any longer.
    pub(super) fn push(&mut self, chunk: Bytes, at: Duration) -> bool {
        self.bytes += chunk.len();
        if self.bytes > MAX_STREAM {
            self.heard.end = End::TooLong;
            return false;
        }
        self.framer.push(chunk);
        loop {
            match self.framer.next_frame() {
                Ok(Some(frame)) => self.read(&frame, at),
                Ok(None) => return self.heard.failed.is_none(),
                Err(error) => {
                    let fault = Fault::new(Outcome::ProviderError, error.to_string());
                    self.heard.failed.get_or_insert(fault);
                    return false;
                }
            }
        }
    }

    fn read(&mut self, frame: &Frame, at: Duration) {
        let heard = &mut self.heard;
        if self.framing == Framing::ServerSentEvents {
            heard.crlf |= frame.raw().windows(2).any(|pair| pair == b"\r\n");
        }
        if let Some(data) = frame.data() {
            heard.events = heard.events.saturating_add(1);
            heard.last = at;
            heard.chunks.look(&data);
        }
        match self.reader.read(frame) {
            StreamEvent::Content(wire) => {
                heard.first_content.get_or_insert(at);
                const CALLS: &[u8] = b"\"tool_calls\":";
                heard.calls_tool |= wire.windows(CALLS.len()).any(|part| part == CALLS);
            }
            StreamEvent::Preamble(_) | StreamEvent::Hidden => {}
            StreamEvent::Done => heard.done = true,
            StreamEvent::Failed(fault) => drop(heard.failed.get_or_insert(fault)),
        }
    }

    /// Has the upstream said that it is done, or proven that nothing is missing?
    pub(super) fn may_leave(&self) -> bool {
        self.heard.done || self.reader.whole()
    }

    /// The body ended so, unless that is known already.
    pub(super) fn end(mut self, end: End, at: Duration) -> Streamed {
        if self.heard.end == End::Clean {
            self.heard.end = end;
        }
        if self.heard.failed.is_none()
            && let Some(frame) = self.framer.finish()
        {
            self.read(&frame, at);
        }
        self.heard.complete = self.reader.complete();
        self.heard.finish = self.reader.finish_reason().map(str::to_owned);
        self.heard.usage = self.reader.usage();
        self.heard
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;
    use sluicegate_dialect::{Call, Endpoint, Sent, registry};

    use super::*;

    /// The exchange in which a stream said this and then ended so.
    pub(in crate::probe) fn stream(text: &str, end: End) -> Exchange {
        let dialect = registry::find("openai-chat", "").unwrap();
        let body = Bytes::from(json!({ "model": "m", "stream": true }).to_string());
        let call = Call::parse(Endpoint::Chat, body).unwrap();
        let reader = dialect.stream(&call, &Sent { hide_usage: true }, &HeaderMap::new());
        let mut listener = Listener::new(dialect, reader);
        let goes_on =
            listener.push(Bytes::copy_from_slice(text.as_bytes()), Duration::from_millis(5));
        assert_eq!(goes_on, listener.heard.failed.is_none());
        let streamed = listener.end(end, Duration::from_millis(9));
        exchange(200, "text/event-stream", Said::Stream(Box::new(streamed)))
    }

    /// The exchange that this body answered.
    pub(in crate::probe) fn body(status: u16, content_type: &str, body: &str) -> Exchange {
        let dialect = registry::find("openai-chat", "").unwrap();
        let call = Call::parse(Endpoint::Chat, Bytes::from(r#"{"model":"m"}"#)).unwrap();
        let body = Bytes::copy_from_slice(body.as_bytes());
        let headers = HeaderMap::new();
        let code = StatusCode::from_u16(status).unwrap();
        let said = if code.is_success() {
            match dialect.answer(&call, &headers, &body) {
                Ok(answer) => Said::Answer(body, answer),
                Err(fault) => Said::Failed(fault, body),
            }
        } else {
            Said::Failed(dialect.refusal(code, &headers, &body), body)
        };
        exchange(status, content_type, said)
    }

    /// An answer with this message, and usage where there is one.
    pub(in crate::probe) fn answer(message: serde_json::Value, usage: bool) -> Exchange {
        let mut whole =
            json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
        if usage {
            whole["usage"] = json!({ "prompt_tokens": 7, "completion_tokens": 2 });
        }
        body(200, "application/json", &whole.to_string())
    }

    fn exchange(status: u16, content_type: &str, said: Said) -> Exchange {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        let head = Some(Head { status, version: Version::HTTP_11, headers });
        Exchange { connected: Some(Duration::from_millis(1)), head, said }
    }

    #[test]
    fn a_stream_is_heard_to_its_end() {
        let text = concat!(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\r\n\r\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\n",
            "data: [DONE]"
        );
        let Said::Stream(heard) = stream(text, End::Clean).said else { panic!("a stream") };
        assert!(heard.crlf && heard.done && heard.complete && !heard.calls_tool, "{heard:?}");
        assert_eq!((heard.events, heard.finish.as_deref()), (3, Some("stop")));
        assert_eq!(heard.first_content, Some(Duration::from_millis(5)));
    }

    #[test]
    fn a_stream_without_end_is_left() {
        let dialect = registry::find("openai-chat", "").unwrap();
        let call = Call::parse(Endpoint::Chat, Bytes::from(r#"{"model":"m"}"#)).unwrap();
        let reader = dialect.stream(&call, &Sent::default(), &HeaderMap::new());
        let mut listener = Listener::new(dialect, reader);
        let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
        let chunk = Bytes::from(event.repeat(1000));
        let taken = (0..100).take_while(|_| listener.push(chunk.clone(), Duration::ZERO)).count();
        assert!(taken < 100, "{taken}");
        assert_eq!(listener.end(End::Open, Duration::ZERO).end, End::TooLong);
    }
}
