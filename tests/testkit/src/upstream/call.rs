//! What the upstream knows about one call.

use bytes::Bytes;
use tokio::time::Instant;

use crate::net::{PeerEnd, find, find_header};

/// One request as received, and what became of it.
#[derive(Debug, Clone)]
pub struct Call {
    /// Position in the log, from 0.
    pub number: usize,
    /// Which connection it came on, from 0.
    pub connection: usize,
    pub method: String,
    /// The request target, with its query.
    pub target: String,
    /// In order, with names as they came.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// When the first byte of the head was read.
    pub arrived_at: Instant,
    /// What was written in answer; each entry is one write to the socket.
    pub writes: Vec<Write>,
    /// When the last step of the script was done.
    pub answered_at: Option<Instant>,
    /// When and how the caller closed the connection, if it did so before a further call.
    pub closed: Option<Closed>,
}

/// One write to the socket.
#[derive(Debug, Clone)]
pub struct Write {
    pub at: Instant,
    /// The text a step asked for, before chunk framing; at most its first 4 KiB.
    pub text: Bytes,
}

/// How a connection was closed by the caller.
#[derive(Debug, Clone, Copy)]
pub struct Closed {
    pub at: Instant,
    pub how: PeerEnd,
}

impl Call {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// The bearer token of `authorization`.
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    /// The first segment of the path.
    pub fn cell(&self) -> &str {
        self.target.split('/').nth(1).unwrap_or_default()
    }

    /// The second segment of the path.
    pub fn provider(&self) -> &str {
        self.target.split('/').nth(2).unwrap_or_default()
    }

    /// The target as a provider with a host of its own would see it: without the first two segments.
    pub fn provider_target(&self) -> String {
        let rest = self.target.splitn(4, '/').nth(3).unwrap_or_default();
        format!("/{rest}")
    }

    /// When the first write that holds `text` was made.
    pub fn written_at(&self, text: &str) -> Option<Instant> {
        self.writes.iter().find(|w| find(&w.text, text.as_bytes()).is_some()).map(|w| w.at)
    }
}
