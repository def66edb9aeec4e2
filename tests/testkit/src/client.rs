//! A client that sends exact bytes, times what it reads and holds the server to its framing.

mod connection;
mod framing;
mod reply;
mod request;

pub use self::connection::Connection;
pub use self::reply::Reply;
pub use self::request::Request;

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

/// What a client does once its request is sent. Without any step it reads the whole reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientStep {
    /// Reads until so many events with data have come.
    ReadEvents(usize),
    /// Does nothing, not even read.
    SleepMs(u64),
    /// Reads for so long, or to the end if that comes before, with a pause after each read.
    ReadSlowly { for_ms: u64, pause_ms: u64 },
    /// FIN.
    Close,
    /// RST.
    Rst,
}

/// Sends one request on a connection of its own and plays `steps`; all of it within `limit`.
///
/// A failure to connect or to write is not an error here: it is in [`Reply::problems`], as it is
/// the server's doing.
pub async fn exchange(
    server: SocketAddr,
    request: &Request,
    steps: &[ClientStep],
    limit: Duration,
) -> Reply {
    let mut connection = match Connection::open(server).await {
        Ok(connection) => connection,
        Err(error) => return Reply::failed(format!("connect: {error}")),
    };
    let played = tokio::time::timeout(limit, async {
        connection.send(request).await;
        if steps.is_empty() {
            connection.read_to_end().await;
        }
        for step in steps {
            match *step {
                ClientStep::ReadEvents(n) => connection.read_events(n).await,
                ClientStep::SleepMs(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                ClientStep::ReadSlowly { for_ms, pause_ms } => {
                    let (span, pause) =
                        (Duration::from_millis(for_ms), Duration::from_millis(pause_ms));
                    connection.read_slowly(span, pause).await;
                }
                ClientStep::Close => connection.close(),
                ClientStep::Rst => connection.reset(),
            }
        }
    });
    let timed_out = played.await.is_err();
    let mut reply = connection.into_reply();
    reply.timed_out = timed_out;
    reply
}
