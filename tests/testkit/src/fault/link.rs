//! One proxied connection.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::{Flow, Flows};
use crate::net::reset;

/// What a connection needs to know.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) target: SocketAddr,
    pub(super) flows: watch::Receiver<Flows>,
    /// Counts the orders to cut.
    pub(super) cuts: watch::Receiver<usize>,
}

impl Link {
    /// For a new connection, which earlier cuts do not concern.
    pub(super) fn fresh(&self) -> Self {
        let mut link = self.clone();
        link.cuts.mark_unchanged();
        link
    }

    /// Moves bytes both ways until both sides have ended, one has failed, or a cut is ordered.
    pub(super) async fn serve(mut self, mut client: TcpStream) {
        let Ok(mut server) = TcpStream::connect(self.target).await else {
            return reset(client);
        };
        client.set_nodelay(true).ok();
        server.set_nodelay(true).ok();
        let in_order = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let up = pump(from_client, to_server, self.flows.clone(), |flows| flows.to_server);
            let down = pump(from_server, to_client, self.flows.clone(), |flows| flows.to_client);
            tokio::select! {
                moved = async { tokio::try_join!(up, down) } => moved.is_ok(),
                // The sender is gone when the proxy is, and then this task is being dropped.
                _ = self.cuts.changed() => false,
            }
        };
        if !in_order {
            reset(client);
            reset(server);
        }
    }
}

/// Moves bytes one way; an orderly end of the source is passed on as such.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut flows: watch::Receiver<Flows>,
    select: impl Fn(&Flows) -> Flow,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = from.read(&mut buffer).await?;
        let flow = select(&flows.borrow());
        if let Flow::Delay(delay) = flow {
            tokio::time::sleep(delay).await;
        }
        flows.wait_for(|flows| select(flows) != Flow::Stall).await.map_err(io::Error::other)?;
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..n]).await?;
    }
}
