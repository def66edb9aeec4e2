//! Translating a call, sending it, and reading the head of what comes back.

use std::{error::Error, sync::atomic::Ordering, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::capture_connection;
use sluicegate_dialect::{Call, Fault, Framing, UpstreamCall};
use sluicegate_model::Outcome;
use tokio::time::{Instant, timeout_at};

use super::Attempt;
use crate::{
    policy::{Credential, Provider},
    trace::Trace,
    upstream::{Use, decode::Decoded},
};

/// Longest error body that is read, in bytes.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// A connection that was closed while it lay idle shows it at once. What fails later was under way.
pub(crate) const STALE: Duration = Duration::from_secs(1);
/// How long the rest of an error body may take; the status has said enough by then.
const ERROR_BODY: Duration = Duration::from_secs(2);

pub(crate) const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("sluicegate/", env!("CARGO_PKG_VERSION")));

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The head of a 2xx answer, and its body still to come.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Decoded,
}

impl Head {
    /// Is it a stream of events?
    pub(super) fn is_stream(&self, framing: Framing) -> bool {
        is_stream(&self.headers, framing)
    }
}

/// Do the headers announce a stream of events? Parameters and case of the type do not matter.
pub(crate) fn is_stream(headers: &HeaderMap, framing: Framing) -> bool {
    let essence = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(framing.media_type()))
}

/// Sends the call.
///
/// # Errors
/// No connection, no head in time, a status other than 2xx, an unknown content coding.
pub(super) async fn send(attempt: &Attempt<'_>) -> Result<Head, Fault> {
    let choice = attempt.choice;
    let deadline = head_deadline(attempt);
    let response = exchange(attempt, deadline).await?;
    let (parts, body) = response.into_parts();
    let body = Decoded::new(&parts.headers, body)
        .map_err(|error| Fault::new(Outcome::ProviderError, error.to_string()))?;
    if parts.status.is_success() {
        return Ok(Head { status: parts.status, headers: parts.headers, body });
    }
    let error = error_body(body, deadline).await;
    Err(choice.provider.dialect.refusal(parts.status, &parts.headers, &error))
}

/// Sends the request and waits for the head of an answer. A request that a kept connection lost
/// because its other end had just closed it is sent once more, on a new one: that the upstream
/// closed an idle connection is nobody's failure.
async fn exchange(attempt: &Attempt<'_>, deadline: Instant) -> Result<Response<Incoming>, Fault> {
    let client = &attempt.choice.provider.client;
    let mut first = request(attempt, deadline).await?;
    let captured = capture_connection(&mut first);
    let begun = Instant::now();
    let too_late = |_| Fault::new(Outcome::Timeout, "no answer within the time for a first event");
    let chosen = if attempt.fresh { &client.fresh } else { &client.pooled };
    let error = match timeout_at(deadline, chosen.request(first)).await.map_err(too_late)? {
        Ok(response) => {
            if let Some(Some(connected)) = captured.connection_metadata().as_ref().map(Use::of) {
                connected.answered();
            }
            return Ok(response);
        }
        Err(error) => error,
    };
    let was_used = captured
        .connection_metadata()
        .as_ref()
        .and_then(Use::of)
        .is_some_and(|connection| connection.has_answered());
    if error.is_connect() || !was_used || begun.elapsed() > STALE {
        return Err(transport(&error));
    }
    tracing::debug!(
        provider = attempt.choice.provider.name,
        "a kept connection was closed; sending anew"
    );
    attempt.metrics.resends.inc();
    attempt.resent.store(true, Ordering::Relaxed);
    let again = client.fresh.request(request(attempt, deadline).await?);
    timeout_at(deadline, again).await.map_err(too_late)?.map_err(|error| transport(&error))
}

/// When the head, and with streams the first event, must be there.
pub(super) fn head_deadline(attempt: &Attempt<'_>) -> Instant {
    let timeouts = &attempt.choice.provider.timeouts;
    let wait = if attempt.call.stream {
        timeouts.first_event_for(attempt.call.rough_prompt_tokens())
    } else {
        timeouts.answer
    };
    (attempt.started + wait).min(attempt.total)
}

/// What goes to an upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) provider: &'a Provider,
    pub(crate) credential: Option<&'a Credential>,
    pub(crate) call: &'a Call,
    /// The call as the provider wants it.
    pub(crate) translated: &'a UpstreamCall,
    pub(crate) trace: &'a Trace,
}

impl Outgoing<'_> {
    /// The request. Nothing of the caller's headers goes along but what is named here.
    ///
    /// # Errors
    /// When the provider's URL is unusable, or the key cannot be proven in time.
    pub(crate) async fn request(self, deadline: Instant) -> Result<Request<Full<Bytes>>, Fault> {
        let Self { provider, call, .. } = self;
        let UpstreamCall { path, body, headers: special, .. } = self.translated;
        let unusable = || Fault::new(Outcome::ProviderError, "the provider's URL is unusable");
        let uri = provider.uri(call.endpoint, path.as_deref()).ok_or_else(unusable)?;
        let accept =
            if call.stream { provider.dialect.framing().media_type() } else { "application/json" };
        let mut request =
            Request::post(uri).body(Full::new(body.clone())).map_err(|_| unusable())?;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::USER_AGENT, USER_AGENT);
        for (name, value) in special {
            headers.insert(name, value.clone());
        }
        for (name, value) in &provider.headers {
            headers.append(name, value.clone());
        }
        self.trace.inject(headers);
        // OpenAI's own clients send it. Servers that do not know it pass over it.
        if provider.dialect.name() == "openai-chat"
            && let Some(key) = &self.trace.idempotency_key
        {
            headers.insert(IDEMPOTENCY_KEY, key.clone());
        }
        if let Some(credential) = self.credential {
            credential.signer.sign(&mut request, body, deadline).await?;
        }
        Ok(request)
    }
}

async fn request(attempt: &Attempt<'_>, deadline: Instant) -> Result<Request<Full<Bytes>>, Fault> {
    let outgoing = Outgoing {
        provider: &attempt.choice.provider,
        credential: attempt.choice.credential.as_deref(),
        call: attempt.call,
        translated: attempt.translated,
        trace: attempt.trace,
    };
    outgoing.request(deadline).await
}

/// What a failure below HTTP means.
pub(crate) fn transport(error: &hyper_util::client::legacy::Error) -> Fault {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::TimedOut
        {
            let fault = Fault::new(Outcome::Timeout, "no connection in time");
            return Fault { unsent: error.is_connect(), ..fault };
        }
        source = cause.source();
    }
    if error.is_connect() {
        let fault = Fault::new(Outcome::Network, "the connection could not be made");
        return Fault { unsent: true, ..fault };
    }
    Fault::new(Outcome::Network, "the connection broke before an answer")
}

/// As much of an error body as is worth reading; what breaks off counts as far as it came.
pub(crate) async fn error_body(mut body: Decoded, deadline: Instant) -> Bytes {
    let deadline = deadline.min(Instant::now() + ERROR_BODY);
    let mut read = BytesMut::new();
    while let Ok(Some(Ok(chunk))) = timeout_at(deadline, body.next()).await {
        let room = MAX_ERROR_BODY - read.len();
        read.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or(&[]));
        if read.len() == MAX_ERROR_BODY {
            break;
        }
    }
    read.freeze()
}
