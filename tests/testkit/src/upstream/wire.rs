//! One accepted connection: requests in, bytes out, and always an eye on whether the caller left.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::call::{Call, Closed, Write};
use super::log::CallLog;
use crate::net::{PeerEnd, classify_read, find, find_header, parse_head};

/// The caller has closed the connection; the log says when and how.
#[derive(Debug)]
pub(super) struct Gone;

/// Longest text kept of a write.
const KEPT_OF_A_WRITE: usize = 4096;

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    inbox: BytesMut,
    connection: usize,
    log: Arc<CallLog>,
    /// Number of the call being answered, or the last one that was.
    call: Option<usize>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, connection: usize, log: Arc<CallLog>) -> Self {
        Self { stream, inbox: BytesMut::new(), connection, log, call: None }
    }

    /// Reads the next request whole and logs it. `None` when the caller leaves or sends no byte
    /// within `idle_limit`.
    pub(super) async fn next_call(&mut self, idle_limit: Option<Duration>) -> Option<Call> {
        if let (Some(limit), true) = (idle_limit, self.inbox.is_empty()) {
            timeout(limit, self.fill()).await.ok()?.ok()?;
        }
        let head = self.take_through(b"\r\n\r\n").await.ok()?;
        let arrived_at = Instant::now();
        let (request_line, headers) = parse_head(&head);
        let mut words = request_line.split(' ').map(str::to_owned);
        let method = words.next().unwrap_or_default();
        let target = words.next().unwrap_or_default();
        if find_header(&headers, "expect").is_some_and(|v| v.eq_ignore_ascii_case("100-continue")) {
            self.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        let body = self.take_body(&headers).await.ok()?;
        let call = self.log.add(Call {
            number: 0,
            connection: self.connection,
            method,
            target,
            headers,
            body,
            arrived_at,
            writes: Vec::new(),
            answered_at: None,
            closed: None,
        });
        self.call = Some(call.number);
        Some(call)
    }

    /// Writes `framed` to the socket at once and logs `text` as what was meant.
    pub(super) async fn write(&mut self, text: &Bytes, framed: &[u8]) -> Result<(), Gone> {
        let text = text.slice(..text.len().min(KEPT_OF_A_WRITE));
        self.note(|call| call.writes.push(Write { at: Instant::now(), text }));
        self.write_all(framed).await
    }

    /// Sleeps, unless the caller leaves meanwhile.
    pub(super) async fn sleep(&mut self, duration: Duration) -> Result<(), Gone> {
        let woken = tokio::time::sleep(duration);
        tokio::pin!(woken);
        loop {
            tokio::select! {
                () = &mut woken => return Ok(()),
                filled = self.fill() => filled?,
            }
        }
    }

    /// Notes that the script is over.
    pub(super) fn answered(&self) {
        self.note(|call| call.answered_at = Some(Instant::now()));
    }

    pub(super) fn reset(self) {
        crate::net::reset(self.stream);
    }

    async fn take_body(&mut self, headers: &[(String, String)]) -> Result<Bytes, Gone> {
        if find_header(headers, "transfer-encoding").is_some_and(|v| v.contains("chunked")) {
            let mut body = BytesMut::new();
            loop {
                let line = self.take_through(b"\r\n").await?;
                let line = String::from_utf8_lossy(&line);
                let size = line.split([';', '\r']).next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16).map_err(|_| Gone)?;
                let data = self.take(size + 2).await?;
                if size == 0 {
                    return Ok(body.freeze());
                }
                body.extend_from_slice(&data[..size]);
            }
        }
        let length = find_header(headers, "content-length").and_then(|v| v.parse().ok());
        self.take(length.unwrap_or(0)).await
    }

    async fn take(&mut self, n: usize) -> Result<Bytes, Gone> {
        while self.inbox.len() < n {
            self.fill().await?;
        }
        Ok(self.inbox.split_to(n).freeze())
    }

    async fn take_through(&mut self, end: &[u8]) -> Result<Bytes, Gone> {
        loop {
            if let Some(at) = find(&self.inbox, end) {
                return Ok(self.inbox.split_to(at + end.len()).freeze());
            }
            self.fill().await?;
        }
    }

    /// Reads what is there into the inbox. Cancel-safe.
    async fn fill(&mut self) -> Result<(), Gone> {
        self.inbox.reserve(64 * 1024);
        let read = self.stream.read_buf(&mut self.inbox).await;
        classify_read(read).map(drop).map_err(|how| self.gone(how))
    }

    /// Writes all bytes, and notices the caller's close even while the socket is full.
    async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let ready = match self.stream.ready(Interest::READABLE | Interest::WRITABLE).await {
                Ok(ready) => ready,
                Err(_) => return Err(self.gone(PeerEnd::Reset)),
            };
            if ready.is_readable() {
                match self.stream.try_read_buf(&mut self.inbox) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => drop(classify_read(read).map_err(|how| self.gone(how))?),
                }
            }
            if ready.is_writable() {
                match self.stream.try_write(bytes) {
                    Ok(n) => bytes = &bytes[n..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return Err(self.gone(PeerEnd::Reset)),
                }
            }
        }
        Ok(())
    }

    fn gone(&self, how: PeerEnd) -> Gone {
        self.note(|call| {
            call.closed.get_or_insert(Closed { at: Instant::now(), how });
        });
        Gone
    }

    fn note(&self, update: impl FnOnce(&mut Call)) {
        if let Some(number) = self.call {
            self.log.update(number, update);
        }
    }
}
