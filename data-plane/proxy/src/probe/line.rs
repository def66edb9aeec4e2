//! Making the calls: one at a time, each with a deadline, nothing without bounds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use sluicegate_dialect::{Call, Destination, Endpoint, Fault, UpstreamCall};
use sluicegate_model::{Outcome, Profile};
use tokio::time::{Instant, timeout_at};

use super::{
    Subject,
    ask::Ask,
    heard::{End, Exchange, Head, Listener, Said},
    trail::Trail,
};
use crate::{
    attempt::send::{self, Outgoing},
    trace::Trace,
    upstream::{Use, decode::Decoded},
};

/// Largest answer that is read, in bytes: a server may repeat the largest prompt.
const MAX_ANSWER: usize = 4 << 20;
/// How long the end of a stream is waited for that has said everything.
const LINGER: Duration = Duration::from_secs(2);

/// The way to one upstream.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) subject: &'a Subject,
    deadline: Instant,
    /// What all the calls together showed.
    pub(super) trail: Trail,
}

/// A call and what the upstream is sent for it.
struct Translated {
    call: Call,
    sent: UpstreamCall,
}

impl<'a> Line<'a> {
    pub(super) fn new(subject: &'a Subject, deadline: Instant) -> Self {
        Self { subject, deadline, trail: Trail::default() }
    }

    /// Does the upstream see the wish for usage that this call makes, or with none the one that the
    /// format makes by itself?
    pub(super) fn differs(&self, ask: &Ask) -> bool {
        let body = |ask_usage| {
            let profile = Profile { ask_usage, ..Profile::default() };
            Some(self.translate(ask, &profile).ok()?.sent.body)
        };
        body(ask.usage.then_some(true)) != body(Some(false))
    }

    /// Makes one call.
    pub(super) async fn send(&mut self, ask: &Ask) -> Exchange {
        let started = Instant::now();
        if started >= self.deadline {
            return Exchange::untried("no time was left");
        }
        let profile = Profile { ask_usage: Some(ask.usage), ..Profile::default() };
        let translated = match self.translate(ask, &profile) {
            Ok(translated) => translated,
            Err(why) => return Exchange::untried(why),
        };
        let deadline = (started + ask.wait).min(self.deadline);
        let asked = Asked { started, deadline, wrong_key: ask.wrong_key };
        let (connected, response) = self.exchange(&translated, asked).await;
        let response = match response {
            Ok(response) => response,
            Err(fault) => {
                return Exchange { connected, head: None, said: Said::Failed(fault, Bytes::new()) };
            }
        };
        let (parts, body) = response.into_parts();
        let head = Head { status: parts.status, version: parts.version, headers: parts.headers };
        self.trail.note(&head);
        let said = self.hear(&translated, &head, body, asked).await;
        Exchange { connected, head: Some(head), said }
    }

    fn translate(&self, ask: &Ask, profile: &Profile) -> Result<Translated, String> {
        let body = Bytes::from(ask.body.to_string());
        let mut call = Call::parse(Endpoint::Chat, body).map_err(|fault| fault.to_string())?;
        call.send_cap = Some(ask.cap);
        // A model that is not there has the name that it was asked by.
        let to = Destination { model: &call.model, profile };
        let sent = self.subject.provider.dialect.request(&call, &to);
        let sent = sent.map_err(|unfit| format!("the format cannot say it: {unfit}"))?;
        Ok(Translated { call, sent })
    }

    /// How long it took to connect, and the head of the answer.
    async fn exchange(
        &mut self,
        translated: &Translated,
        asked: Asked,
    ) -> (Option<Duration>, Result<Response<Incoming>, Fault>) {
        let client = self.subject.provider.client.clone();
        let (connected, use_before, tried) = self.once(&client.pooled, translated, asked).await;
        let was_used = use_before.as_ref().is_some_and(|(_, used)| *used);
        match tried {
            Ok(response) => {
                if let Some((connection, used)) = use_before {
                    self.trail.went(used);
                    connection.answered();
                }
                (connected, Ok(response))
            }
            // A kept connection that the other end had just closed says nothing of the call.
            Err(_) if was_used && asked.started.elapsed() < send::STALE => {
                let (connected, _, tried) = self.once(&client.fresh, translated, asked).await;
                self.trail.went(false);
                (connected, tried)
            }
            Err(fault) => (connected, Err(fault)),
        }
    }

    async fn once(
        &self,
        client: &crate::upstream::Http,
        translated: &Translated,
        asked: Asked,
    ) -> (Option<Duration>, Option<(Use, bool)>, Result<Response<Incoming>, Fault>) {
        let Subject { provider, credential, wrong, .. } = self.subject;
        let credential = if asked.wrong_key { wrong.as_ref() } else { credential.as_ref() };
        let trace = Trace::take(&HeaderMap::new());
        let outgoing = Outgoing {
            provider,
            credential,
            call: &translated.call,
            translated: &translated.sent,
            trace: &trace,
        };
        let mut request = match outgoing.request(asked.deadline).await {
            Ok(request) => request,
            Err(fault) => return (None, None, Err(fault)),
        };
        let mut captured = capture_connection(&mut request);
        let begun = Instant::now();
        let mut connected = None;
        let mut use_before = None;
        let answer = async {
            let mut answering = std::pin::pin!(client.request(request));
            tokio::select! {
                biased;
                () = standing(&mut captured) => {
                    connected = Some(begun.elapsed());
                    use_before = used(&captured);
                    answering.await
                }
                answer = &mut answering => answer,
            }
        };
        let answer = match timeout_at(asked.deadline, answer).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(send::transport(&error)),
            Err(_) => Err(Fault::new(Outcome::Timeout, "no answer in time")),
        };
        (connected, use_before, answer)
    }

    async fn hear(
        &self,
        translated: &Translated,
        head: &Head,
        body: Incoming,
        asked: Asked,
    ) -> Said {
        let dialect = self.subject.provider.dialect;
        let body = match Decoded::new(&head.headers, body) {
            Ok(body) => body,
            Err(error) => {
                let fault = Fault::new(Outcome::ProviderError, error.to_string());
                return Said::Failed(fault, Bytes::new());
            }
        };
        if !head.status.is_success() {
            let body = send::error_body(body, asked.deadline).await;
            return Said::Failed(dialect.refusal(head.status, &head.headers, &body), body);
        }
        let Translated { call, sent } = translated;
        if call.stream && send::is_stream(&head.headers, dialect.framing()) {
            let reader = dialect.stream(call, &sent.sent, &head.headers);
            return listen(Listener::new(dialect, reader), body, asked).await;
        }
        match whole(body, asked.deadline).await {
            Ok(body) => match dialect.answer(call, &head.headers, &body) {
                Ok(answer) => Said::Answer(body, answer),
                Err(fault) => Said::Failed(fault, body),
            },
            Err(fault) => Said::Failed(fault, Bytes::new()),
        }
    }
}

/// When a call was made, until when it may go on, and with which key.
#[derive(Debug, Clone, Copy)]
struct Asked {
    started: Instant,
    deadline: Instant,
    wrong_key: bool,
}

/// Ends when the connection stands; never, if none comes to stand.
async fn standing(captured: &mut CaptureConnection) {
    if captured.wait_for_connection_metadata().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// The connection that a call goes over, and whether it brought an answer before.
fn used(captured: &CaptureConnection) -> Option<(Use, bool)> {
    let connection = captured.connection_metadata().as_ref().and_then(Use::of)?;
    let used = connection.has_answered();
    Some((connection, used))
}

async fn listen(mut listener: Listener, mut body: Decoded, asked: Asked) -> Said {
    let mut deadline = asked.deadline;
    let mut leaves = false;
    let end = loop {
        if !leaves && listener.may_leave() {
            leaves = true;
            deadline = deadline.min(Instant::now() + LINGER);
        }
        match timeout_at(deadline, body.next()).await {
            Err(_) => break End::Open,
            Ok(None) => break End::Clean,
            Ok(Some(Err(_))) => break End::Broke,
            Ok(Some(Ok(chunk))) => {
                if !listener.push(chunk, asked.started.elapsed()) {
                    break End::Open;
                }
            }
        }
    };
    Said::Stream(Box::new(listener.end(end, asked.started.elapsed())))
}

async fn whole(mut body: Decoded, deadline: Instant) -> Result<Bytes, Fault> {
    let mut read = BytesMut::new();
    loop {
        let chunk = timeout_at(deadline, body.next())
            .await
            .map_err(|_| Fault::new(Outcome::Timeout, "the answer did not end in time"))?;
        match chunk {
            None => return Ok(read.freeze()),
            Some(Ok(chunk)) if read.len() + chunk.len() <= MAX_ANSWER => {
                read.extend_from_slice(&chunk);
            }
            Some(Ok(_)) => {
                let message = "the answer is larger than a probe reads";
                return Err(Fault::new(Outcome::ProviderError, message));
            }
            Some(Err(_)) => {
                let message = "the connection broke within the answer";
                return Err(Fault::new(Outcome::Network, message));
            }
        }
    }
}
