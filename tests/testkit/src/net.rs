//! The two ways a TCP connection ends, and how to bring each about.

use std::io;

use tokio::net::TcpStream;

/// How the other side ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerEnd {
    /// An orderly end: FIN.
    Fin,
    /// An abort: RST, or an error that amounts to one.
    Reset,
}

/// Closes with RST, throwing away whatever is unsent.
pub fn reset(stream: TcpStream) {
    // On failure the socket is gone already, which is what the caller wants.
    stream.set_zero_linger().ok();
    drop(stream);
}

/// Closes with FIN. Unread bytes are taken first: the kernel answers a close that leaves some with RST.
pub fn close(stream: TcpStream) {
    let mut scrap = [0; 16 * 1024];
    while matches!(stream.try_read(&mut scrap), Ok(1..)) {}
    drop(stream);
}

/// Whether `haystack` has `needle` somewhere.
pub fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    find(haystack, needle).is_some()
}

/// Reads a head of CRLF lines: the first line, then `name: value` pairs with names as they came.
pub(crate) fn parse_head(head: &[u8]) -> (String, Vec<(String, String)>) {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    let headers = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.trim().to_owned(), value.trim().to_owned())
        })
        .collect();
    (first, headers)
}

/// The first header of that name, whatever its case.
pub(crate) fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Where `needle` first starts in `haystack`.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// One read: `Ok(Some(n))` bytes appended to `buffer`, or how the peer ended.
pub(crate) fn classify_read(read: io::Result<usize>) -> Result<usize, PeerEnd> {
    match read {
        Ok(0) => Err(PeerEnd::Fin),
        Ok(n) => Ok(n),
        Err(_) => Err(PeerEnd::Reset),
    }
}
