//! Streams that are held open while their request waits: comments go out until there is something to say.
//!
//! What is sent fixes the status, so that a failure after it comes as an event, and headers that are known
//! late are not told. So it is done only for models that say so, and not before a request has waited for
//! a while.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body as _, Frame};
use sluicegate_dialect::sse::write_event;
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{
    sync::Notify,
    time::{Instant, Sleep, sleep, timeout},
};

use crate::{body::Body, respond};

/// Waits that are shorter end with a status and headers of their own.
const GRACE: Duration = Duration::from_secs(1);
/// Between two comments.
const BETWEEN: Duration = Duration::from_secs(5);
const COMMENT: &[u8] = b": waiting\n\n";

/// A response that is not there yet.
type Rest = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// The body of a response that began before it was known how it goes on.
pub struct Held {
    state: State,
    comment_at: Pin<Box<Sleep>>,
}

enum State {
    /// It goes on by itself, also while its caller takes nothing: a task of its own, whose deadlines hold.
    Waiting(AbortOnDrop<Response<Body>>),
    /// It goes on so.
    Body(Body),
    /// It was refused: the error is told as an event.
    Refused(Body),
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// The response, or where the request has been waiting for a while, the beginning of one. `waits` is told
/// when a stream begins to wait that may be held open.
pub(crate) async fn open(mut rest: Rest, waits: &Notify, request_id: &str) -> Response<Body> {
    tokio::select! {
        biased;
        response = &mut rest => return response,
        () = waits.notified() => {}
    }
    if let Ok(response) = timeout(GRACE, &mut rest).await {
        return response;
    }
    let comment_at = Box::pin(sleep(Duration::ZERO));
    let rest = AbortOnDrop(task::spawn("held", rest));
    let held = Held { state: State::Waiting(rest), comment_at };
    let mut response = Response::new(Body::Held(Box::new(held)));
    let headers = response.headers_mut();
    respond::common(headers, request_id, "text/event-stream");
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Held {
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match &mut self.state {
                State::Waiting(rest) => match Pin::new(&mut rest.0).poll(context) {
                    Poll::Ready(Ok(response)) => self.state = State::of(response),
                    // It has panicked, or the process ends: so does the stream.
                    Poll::Ready(Err(_)) => return Poll::Ready(None),
                    Poll::Pending => {
                        ready!(self.comment_at.as_mut().poll(context));
                        self.comment_at.as_mut().reset(Instant::now() + BETWEEN);
                        return Poll::Ready(Some(Bytes::from_static(COMMENT)));
                    }
                },
                State::Body(body) => return poll(body, context),
                State::Refused(body) => {
                    let error = ready!(poll(body, context));
                    return Poll::Ready(error.map(|error| write_event(None, &error)));
                }
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        match &self.state {
            State::Waiting(_) => false,
            State::Body(body) | State::Refused(body) => body.is_end_stream(),
        }
    }
}

impl State {
    fn of(response: Response<Body>) -> Self {
        let refused = response.status() != StatusCode::OK;
        let mut body = response.into_body();
        if refused {
            body.was_told_as(StatusCode::OK);
            Self::Refused(body)
        } else {
            Self::Body(body)
        }
    }
}

fn poll(body: &mut Body, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
    loop {
        let frame = ready!(pin!(&mut *body).poll_frame(context));
        match frame.map(|Ok(frame)| Frame::into_data(frame)) {
            Some(Ok(data)) => return Poll::Ready(Some(data)),
            // There are no trailers.
            Some(Err(_)) => {}
            None => return Poll::Ready(None),
        }
    }
}

/// Told when a stream begins to wait that may be held open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits(Option<Arc<Notify>>);

impl Waits {
    pub(crate) fn told(told: Arc<Notify>) -> Self {
        Self(Some(told))
    }

    pub(crate) fn begin(&self) {
        if let Some(told) = &self.0 {
            told.notify_one();
        }
    }
}
