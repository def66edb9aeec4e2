//! A faulty network: a TCP proxy between any two parties that can be told to stall, delay, cut or
//! refuse while they talk.

mod link;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::link::Link;

/// Which way bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the side that connected.
    ToServer,
    /// From the side that was connected to.
    ToClient,
    Both,
}

/// What happens to bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Pass,
    /// Bytes are taken up only as far as one buffer goes, then the sender feels the back-pressure.
    Stall,
    /// Each piece waits so long before it is passed on.
    Delay(Duration),
}

/// The flow of each direction, as all links see it.
#[derive(Debug, Clone, Copy)]
struct Flows {
    to_server: Flow,
    to_client: Flow,
}

#[derive(Debug)]
enum Order {
    /// Close the listener, so that a connect is refused.
    Refuse,
    /// Listen again on the same port.
    Accept,
}

/// A proxy in front of one server. Dropping it cuts every connection.
///
/// Every method has taken effect when it returns.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    flows: watch::Sender<Flows>,
    cuts: watch::Sender<usize>,
    orders: mpsc::Sender<(Order, oneshot::Sender<std::io::Result<()>>)>,
    connections: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl FaultProxy {
    /// Listens on a free port of 127.0.0.1 and passes everything on to `target`.
    pub async fn start(target: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let flows = watch::Sender::new(Flows { to_server: Flow::Pass, to_client: Flow::Pass });
        let cuts = watch::Sender::new(0);
        let connections = Arc::new(AtomicUsize::new(0));
        let (orders, inbox) = mpsc::channel(1);
        let acceptor = Acceptor {
            address,
            listener: Some(listener),
            link: Link { target, flows: flows.subscribe(), cuts: cuts.subscribe() },
            connections: connections.clone(),
        };
        let server = tokio::spawn(acceptor.run(inbox));
        Ok(Self { address, flows, cuts, orders, connections, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Lets bytes through again, in both directions and without delay.
    pub fn pass(&self) {
        self.set(Direction::Both, Flow::Pass);
    }

    /// Stops moving bytes; connections stay open.
    pub fn stall(&self, direction: Direction) {
        self.set(direction, Flow::Stall);
    }

    /// Holds each piece back for `delay`.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.set(direction, Flow::Delay(delay));
    }

    /// Ends every open connection with RST, on both sides. New ones are welcome.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Refuses new connections. Open ones live on; see [`Self::cut`].
    pub async fn refuse(&self) -> anyhow::Result<()> {
        self.order(Order::Refuse).await
    }

    /// Accepts connections again.
    pub async fn accept(&self) -> anyhow::Result<()> {
        self.order(Order::Accept).await
    }

    fn set(&self, direction: Direction, flow: Flow) {
        self.flows.send_modify(|flows| {
            if direction != Direction::ToClient {
                flows.to_server = flow;
            }
            if direction != Direction::ToServer {
                flows.to_client = flow;
            }
        });
    }

    async fn order(&self, order: Order) -> anyhow::Result<()> {
        let (done, outcome) = oneshot::channel();
        self.orders.send((order, done)).await.context("the proxy has ended")?;
        outcome.await.context("the proxy has ended")?.context("listen again")
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Accepts connections and owns the tasks that serve them.
#[derive(Debug)]
struct Acceptor {
    address: SocketAddr,
    /// `None` while connections are refused.
    listener: Option<TcpListener>,
    link: Link,
    connections: Arc<AtomicUsize>,
}

impl Acceptor {
    async fn run(
        mut self,
        mut orders: mpsc::Receiver<(Order, oneshot::Sender<std::io::Result<()>>)>,
    ) {
        let mut links = JoinSet::new();
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    None => return,
                    // Nobody waits for the answer of an order whose caller was cancelled.
                    Some((order, done)) => drop(done.send(self.obey(order).await)),
                },
                accepted = accept(self.listener.as_ref()) => {
                    if let Ok((client, _)) = accepted {
                        self.connections.fetch_add(1, Ordering::SeqCst);
                        links.spawn(self.link.fresh().serve(client));
                    }
                }
                Some(_) = links.join_next() => {}
            }
        }
    }

    async fn obey(&mut self, order: Order) -> std::io::Result<()> {
        match order {
            Order::Refuse => self.listener = None,
            Order::Accept if self.listener.is_some() => {}
            Order::Accept => self.listener = Some(TcpListener::bind(self.address).await?),
        }
        Ok(())
    }
}

async fn accept(
    listener: Option<&TcpListener>,
) -> std::io::Result<(tokio::net::TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
