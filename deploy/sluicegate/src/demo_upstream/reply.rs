//! What goes back: JSON, event streams, errors.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use serde_json::{Value, json};

/// An answer, whole or streamed.
pub(super) type Reply = Response<BoxBody<Bytes, Infallible>>;

/// Time from one event of a stream to the next.
const PACE: Duration = Duration::from_millis(20);

/// Something wrong with a request, for an error in OpenAI's form.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: StatusCode,
    pub(super) message: String,
    pub(super) param: Option<&'static str>,
    pub(super) code: Option<&'static str>,
    /// The one method that the path knows, when that is what is wrong.
    pub(super) allow: Option<&'static str>,
}

impl Fault {
    /// A request that makes no sense.
    pub(super) fn bad(message: impl Into<String>, param: Option<&'static str>) -> Self {
        let status = StatusCode::BAD_REQUEST;
        Self { status, message: message.into(), param, code: None, allow: None }
    }

    /// The wrong method.
    pub(super) fn method(method: &Method, allow: &'static str) -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            allow: Some(allow),
            ..Self::bad(format!("{method} is not allowed here, use {allow}"), None)
        }
    }
}

/// A whole answer.
pub(super) fn json(value: &Value) -> Reply {
    let body = Full::new(Bytes::from(value.to_string())).boxed();
    let mut reply = Response::new(body);
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// An error in OpenAI's form.
pub(super) fn error(fault: &Fault) -> Reply {
    let mut reply = json(&json!({ "error": {
        "message": fault.message,
        "type": "invalid_request_error",
        "param": fault.param,
        "code": fault.code,
    } }));
    *reply.status_mut() = fault.status;
    if let Some(allow) = fault.allow {
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    reply
}

/// A stream of events, one at a time, `[DONE]` at its end. A caller who leaves ends it.
pub(super) fn stream(events: Vec<Value>) -> Reply {
    let mut lines: VecDeque<String> =
        events.iter().map(|event| format!("data: {event}\n\n")).collect();
    lines.push_back("data: [DONE]\n\n".to_owned());
    let frames = futures_util::stream::unfold((lines, true), async |(mut lines, first)| {
        let line = lines.pop_front()?;
        if !first {
            tokio::time::sleep(PACE).await;
        }
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), (lines, false)))
    });
    let mut reply = Response::new(BodyExt::boxed(StreamBody::new(frames)));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}
