//! Plays the steps of one answer.

use std::time::Duration;

use bytes::Bytes;

use super::call::Call;
use super::step::{AUTO, Step};
use super::wire::{Gone, Wire};
use crate::coding::{Coding, Encoder};
use crate::net::{find_header, parse_head};

/// What the connection does after an answer.
#[derive(Debug)]
pub(super) enum Next {
    /// Waits for another call, with FIN after so long without one.
    Call {
        close_after: Option<Duration>,
    },
    Close,
    Reset,
}

/// How the body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Chunked,
    Length,
    UntilClose,
}

/// Bytes sent in one go when a script repeats without a gap.
const BURST: usize = 64 * 1024;

pub(super) async fn play(wire: &mut Wire, call: &Call, steps: Vec<Step>) -> Result<Next, Gone> {
    let next = Player { wire, framing: Framing::UntilClose, gzip: None }.play(call, steps).await?;
    wire.answered();
    Ok(next)
}

#[derive(Debug)]
struct Player<'a> {
    wire: &'a mut Wire,
    framing: Framing,
    gzip: Option<Encoder>,
}

impl Player<'_> {
    async fn play(&mut self, call: &Call, steps: Vec<Step>) -> Result<Next, Gone> {
        let steps = encode_ahead(steps).await;
        let length: usize = steps.iter().map(Step::len).sum();
        let close_after = steps.iter().find_map(|step| match step {
            Step::CloseIdleAfter(limit) => Some(*limit),
            _ => None,
        });
        for step in steps {
            match step {
                Step::Head(status, headers) => self.head(status, headers, length).await?,
                Step::Raw(bytes) => self.raw(&bytes).await?,
                Step::Send(bytes) => self.send(&bytes).await?,
                Step::SendBytewise(bytes, gap) => {
                    for i in 0..bytes.len() {
                        self.send(&bytes.slice(i..=i)).await?;
                        self.wire.sleep(gap).await?;
                    }
                }
                Step::Repeat { times, gap, bytes } => self.repeat(times, gap, &bytes).await?,
                Step::GzipIfAccepted => {
                    let accepted = call.header("accept-encoding").unwrap_or_default();
                    self.gzip = accepted.contains("gzip").then(|| Encoder::new(Coding::Gzip));
                }
                Step::Sleep(duration) => self.wire.sleep(duration).await?,
                Step::End => return self.end(close_after).await,
                Step::Fin => return Ok(Next::Close),
                Step::Rst => return Ok(Next::Reset),
                Step::CloseIdleAfter(_) | Step::SendCoded(..) => {}
            }
        }
        Ok(Next::Close)
    }

    async fn head(
        &mut self,
        status: u16,
        mut headers: Vec<(String, String)>,
        length: usize,
    ) -> Result<(), Gone> {
        if self.gzip.is_some() {
            headers.push(("content-encoding".into(), "gzip".into()));
        }
        for (_, value) in headers.iter_mut().filter(|(_, value)| value == AUTO) {
            *value = length.to_string();
        }
        self.framing = Framing::Length;
        if find_header(&headers, "content-length").is_none() {
            self.framing = Framing::Chunked;
            headers.push(("transfer-encoding".into(), "chunked".into()));
        }
        let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
        for (name, value) in &headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let head = Bytes::from(head);
        self.wire.write(&head, &head).await
    }

    async fn raw(&mut self, bytes: &Bytes) -> Result<(), Gone> {
        if bytes.starts_with(b"HTTP/") {
            let (_, headers) = parse_head(bytes);
            self.framing = if find_header(&headers, "transfer-encoding").is_some() {
                Framing::Chunked
            } else if find_header(&headers, "content-length").is_some() {
                Framing::Length
            } else {
                Framing::UntilClose
            };
        }
        self.wire.write(bytes, bytes).await
    }

    async fn send(&mut self, bytes: &Bytes) -> Result<(), Gone> {
        let framed = match &mut self.gzip {
            // Encoding into memory does not fail.
            Some(encoder) => self.framing.frame(&encoder.push(bytes).await.unwrap_or_default()),
            None => self.framing.frame(bytes),
        };
        self.wire.write(bytes, &framed).await
    }

    async fn repeat(&mut self, times: usize, gap: Duration, bytes: &Bytes) -> Result<(), Gone> {
        if gap.is_zero() {
            let frame = self.framing.frame(bytes);
            let burst = (BURST / frame.len().max(1)).max(1);
            let mut left = times;
            while left > 0 {
                let n = burst.min(left);
                self.wire.write(bytes, &frame.repeat(n)).await?;
                left -= n;
            }
            return Ok(());
        }
        for _ in 0..times {
            self.send(bytes).await?;
            self.wire.sleep(gap).await?;
        }
        Ok(())
    }

    async fn end(&mut self, close_after: Option<Duration>) -> Result<Next, Gone> {
        if let Some(mut encoder) = self.gzip.take() {
            let rest = encoder.finish().await.unwrap_or_default();
            let framed = self.framing.frame(&rest);
            self.wire.write(&Bytes::new(), &framed).await?;
        }
        match self.framing {
            Framing::Chunked => self.wire.write(&Bytes::new(), b"0\r\n\r\n").await?,
            Framing::Length => {}
            Framing::UntilClose => return Ok(Next::Close),
        }
        Ok(Next::Call { close_after })
    }
}

impl Framing {
    /// The bytes as they go over the wire. Nothing for nothing: an empty chunk would end the body.
    fn frame(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Chunked if bytes.is_empty() => Vec::new(),
            Self::Chunked => {
                let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
                framed.extend_from_slice(bytes);
                framed.extend_from_slice(b"\r\n");
                framed
            }
            Self::Length | Self::UntilClose => bytes.to_vec(),
        }
    }
}

/// Turns coded sends into plain ones, so that lengths are known before the head is written.
async fn encode_ahead(steps: Vec<Step>) -> Vec<Step> {
    let mut encoded = Vec::with_capacity(steps.len());
    for step in steps {
        encoded.push(match step {
            Step::SendCoded(coding, bytes) => {
                Step::Send(coding.encode(&bytes).await.unwrap_or_default().into())
            }
            step => step,
        });
    }
    encoded
}
