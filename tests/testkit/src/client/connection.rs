//! One client connection, on which requests follow one another.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::framing::{Framing, Part};
use super::reply::Reply;
use super::request::Request;
use crate::coding::{Coding, Decoder};
use crate::net::{PeerEnd, classify_read};
use crate::sse::SseParser;

/// A connection and the reply that is being read from it.
#[derive(Debug)]
pub struct Connection {
    /// `None` once this side has closed.
    stream: Option<TcpStream>,
    framing: Framing,
    decoder: Option<Decoder>,
    reply: Reply,
}

impl Connection {
    /// Connects.
    pub async fn open(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: Some(stream),
            framing: Framing::default(),
            decoder: None,
            reply: Reply::default(),
        })
    }

    /// Sends a request and starts a new reply. A failed write is noted there.
    pub async fn send(&mut self, request: &Request) {
        self.send_bytes(&request.to_bytes()).await;
        self.framing.answers(request.method());
    }

    /// Sends bytes as they are and starts a new reply.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.reply = Reply::default();
        self.framing.restart();
        self.decoder = None;
        self.send_more(bytes).await;
        self.reply.sent_at = Instant::now();
    }

    /// Reads until the reply is complete or the connection ends.
    pub async fn read_to_end(&mut self) {
        while self.read().await {}
    }

    /// Sends further bytes of the request whose reply is being read.
    pub async fn send_more(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.stream
            && let Err(error) = stream.write_all(bytes).await
        {
            // The server may well have answered before it stopped reading.
            self.reply.problems.push(format!("send: {error}"));
        }
    }

    /// Reads until a 1xx response has come, or the reply ends before.
    pub async fn read_informational(&mut self) {
        while self.reply.informational.is_empty() && self.read().await {}
    }

    /// Reads for `span`, or until the reply is over, with a pause after each read.
    pub async fn read_slowly(&mut self, span: Duration, pause: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until && self.read().await {
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads until `n` events with data have come, or the reply ends before.
    pub async fn read_events(&mut self, n: usize) {
        while self.reply.data().count() < n && self.read().await {}
    }

    /// FIN.
    pub fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            crate::net::close(stream);
            self.reply.closed_at = Some(Instant::now());
        }
    }

    /// RST.
    pub fn reset(&mut self) {
        if let Some(stream) = self.stream.take() {
            crate::net::reset(stream);
            self.reply.closed_at = Some(Instant::now());
        }
    }

    /// What has been read of the current reply.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Closes, unless that was done, and gives the reply.
    pub fn into_reply(mut self) -> Reply {
        self.close();
        self.reply
    }

    /// Reads once. `false` when the reply is over.
    async fn read(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let mut parts = self.framing.push(&[]);
        if parts.is_empty() && !self.framing.is_over() {
            let mut buffer = Vec::with_capacity(64 * 1024);
            let read = classify_read(stream.read_buf(&mut buffer).await);
            match read {
                Ok(_) => parts = self.framing.push(&buffer),
                Err(how) => {
                    self.reply.peer_end = Some((Instant::now(), how));
                    parts.extend(self.framing.close().filter(|_| how == PeerEnd::Fin));
                }
            }
        }
        let at = Instant::now();
        for part in parts {
            self.take(part, at).await;
        }
        !self.framing.is_over()
    }

    async fn take(&mut self, part: Part, at: Instant) {
        match part {
            Part::Informational(status) => self.reply.informational.push(status),
            Part::Problem(problem) => self.reply.problems.push(problem),
            Part::End => self.reply.complete_at = Some(at),
            Part::Head { status, headers } => {
                self.reply.head_at = Some(at);
                self.reply.status = Some(status);
                self.reply.headers = headers;
                self.reply.sse = self.reply.is_event_stream().then(SseParser::default);
                let coding = self.reply.header("content-encoding").unwrap_or("identity");
                self.decoder = Coding::from_token(coding).map(Decoder::new);
                if self.decoder.is_none() && !coding.eq_ignore_ascii_case("identity") {
                    self.reply.problems.push(format!("unknown content-encoding {coding:?}"));
                }
            }
            Part::Data(data) => {
                self.reply.reads.push((at, data.len()));
                let plain = match &mut self.decoder {
                    None => data.to_vec(),
                    Some(decoder) => decoder.push(&data).await.unwrap_or_else(|error| {
                        self.reply.problems.push(format!("the content coding is broken: {error}"));
                        Vec::new()
                    }),
                };
                if let Some(sse) = &mut self.reply.sse {
                    sse.push(&plain, at);
                }
                self.reply.body.extend_from_slice(&plain);
            }
        }
    }
}
