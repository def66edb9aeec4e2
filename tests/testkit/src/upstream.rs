//! A scripted upstream: a server on raw sockets that answers each call with exact bytes at exact
//! moments, and keeps a log of what it received, what it wrote and when the caller went away.
//!
//! Paths have the form `/CELL/PROVIDER/...`, so one server can stand in for many providers at once;
//! which credential was used is read from `authorization`.

mod call;
mod log;
mod play;
mod step;
mod wire;

pub use self::call::{Call, Closed, Write};
pub use self::step::{AUTO, Step};

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use self::log::CallLog;
use self::play::Next;
use self::wire::Wire;
use crate::deadline::within;

/// Chooses the answer to a call.
pub type Script = dyn Fn(&Call) -> Vec<Step> + Send + Sync;

/// A running upstream. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    log: Arc<CallLog>,
    server: JoinHandle<()>,
}

impl Upstream {
    /// Listens on a free port of 127.0.0.1 and answers each call as `script` says.
    pub async fn start(
        script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Self::start_on(IpAddr::from(Ipv4Addr::LOCALHOST), script).await
    }

    /// The same on another address of this machine.
    pub async fn start_on(
        ip: IpAddr,
        script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((ip, 0)).await?;
        let address = listener.local_addr()?;
        let log = Arc::new(CallLog::default());
        let server = tokio::spawn(accept(listener, Arc::new(script), log.clone()));
        Ok(Self { address, log, server })
    }

    /// Answers every call alike.
    pub async fn fixed(steps: Vec<Step>) -> std::io::Result<Self> {
        Self::start(move |_| steps.clone()).await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every call so far that `select` accepts, in order of arrival.
    pub fn calls(&self, select: impl Fn(&Call) -> bool) -> Vec<Call> {
        self.log.read(|calls| calls.iter().filter(|call| select(call)).cloned().collect())
    }

    /// Number of calls so far, which is also the number the next call gets.
    pub fn count(&self) -> usize {
        self.log.read(<[Call]>::len)
    }

    /// Waits until the log satisfies `done`.
    pub async fn wait_until(
        &self,
        limit: Duration,
        awaited: &str,
        done: impl Fn(&[Call]) -> bool,
    ) -> anyhow::Result<()> {
        within(limit, awaited, self.log.wait_until(done)).await
    }

    /// Waits until `n` calls have been received whole.
    pub async fn wait_for_calls(&self, n: usize, limit: Duration) -> anyhow::Result<()> {
        self.wait_until(limit, &format!("{n} upstream calls"), |calls| calls.len() >= n).await
    }

    /// Waits until the caller has closed the connection of that call.
    pub async fn wait_for_close(&self, number: usize, limit: Duration) -> anyhow::Result<Closed> {
        let closed = |calls: &[Call]| calls.get(number).and_then(|call| call.closed);
        let awaited = format!("the close of upstream call {number}");
        self.wait_until(limit, &awaited, |calls| closed(calls).is_some()).await?;
        self.log.read(closed).ok_or_else(|| anyhow::anyhow!("{awaited} was unseen"))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Owns every connection task, so that aborting this one ends them all.
async fn accept(listener: TcpListener, script: Arc<Script>, log: Arc<CallLog>) {
    let mut connections = JoinSet::new();
    for connection in 0.. {
        // A failed accept concerns one connection only; the next one may succeed.
        if let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).ok();
            let wire = Wire::new(stream, connection, log.clone());
            connections.spawn(serve(wire, script.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Answers the calls of one connection, one after the other, until a script or the caller ends it.
async fn serve(mut wire: Wire, script: Arc<Script>) {
    let mut idle_limit = None;
    while let Some(call) = wire.next_call(idle_limit).await {
        let steps = script(&call);
        match Box::pin(play::play(&mut wire, &call, steps)).await {
            Ok(Next::Call { close_after }) => idle_limit = close_after,
            Ok(Next::Close) => break,
            Ok(Next::Reset) => return wire.reset(),
            // The log has the moment already.
            Err(wire::Gone) => return,
        }
    }
}
