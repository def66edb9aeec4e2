//! Callers that do not stop while a test does something to the cluster.

use std::net::SocketAddr;

use sluicegate_suites::config::KEY;
use sluicegate_testkit::client::{Connection, Reply, exchange};
use sluicegate_testkit::cluster::Cluster;
use sluicegate_testkit::deadline::within;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::world::{LIMIT, LONG, LONG_MODEL, request, ticks};

/// One caller for each data plane, who asks again and again.
pub(crate) struct Callers {
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<Served>>,
}

/// What the callers saw.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) requests: usize,
    pub(crate) failures: Vec<String>,
}

impl Callers {
    pub(crate) fn start(planes: impl IntoIterator<Item = SocketAddr>) -> Self {
        let stop = watch::Sender::new(false);
        let call = |address| tokio::spawn(call(address, stop.subscribe()));
        let running = planes.into_iter().map(call).collect();
        Self { stop, running }
    }

    /// At every data plane.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self::start(cluster.data_planes.iter().map(|plane| plane.traffic()))
    }

    /// Lets everybody finish the present request.
    pub(crate) async fn stop(self) -> Served {
        self.stop.send_replace(true);
        let mut all = Served::default();
        for one in self.running {
            let one = one.await.unwrap();
            all.requests += one.requests;
            all.failures.extend(one.failures);
        }
        all
    }
}

impl Served {
    /// Checks that there was traffic and that nothing of it failed.
    pub(crate) fn all_well(&self) {
        assert!(self.requests >= 30, "only {} requests", self.requests);
        let (failed, all) = (self.failures.len(), self.requests);
        assert!(self.failures.is_empty(), "{failed} of {all} failed: {:#?}", self.failures);
    }
}

async fn call(address: SocketAddr, stop: watch::Receiver<bool>) -> Served {
    let mut served = Served::default();
    while !*stop.borrow() {
        let stream = served.requests % 2 == 1;
        let reply = exchange(address, &request(KEY, "m1", stream), &[], LIMIT).await;
        served.requests += 1;
        let whole = reply.complete_at.is_some() && reply.content().as_deref() == Some("ok");
        if reply.status != Some(200) || !whole || (stream && reply.dones() != 1) {
            let problems = &reply.problems;
            served.failures.push(format!("{:?} {problems:?} {}", reply.status, reply.text()));
        }
    }
    served
}

/// Streams that go on for [`LONG`].
pub(crate) struct Streams(Vec<Connection>);

impl Streams {
    /// Starts `n` streams, spread over the data planes, and waits until each has begun.
    pub(crate) async fn start(cluster: &Cluster, n: usize) -> Self {
        let mut streams = Vec::new();
        for plane in cluster.data_planes.iter().cycle().take(n) {
            let mut stream = Connection::open(plane.traffic()).await.unwrap();
            stream.send(&request(KEY, LONG_MODEL, true)).await;
            within(LIMIT, "the first event", stream.read_events(1)).await.unwrap();
            assert_eq!(stream.reply().status, Some(200), "{}", stream.reply().text());
            streams.push(stream);
        }
        Self(streams)
    }

    /// Reads each to its end and checks that nothing is missing.
    pub(crate) async fn all_whole(self) {
        for mut stream in self.0 {
            within(LONG + LIMIT, "the end of a stream", stream.read_to_end()).await.unwrap();
            let reply: Reply = stream.into_reply();
            let events = reply.delta_texts("content").len();
            assert_eq!(events, ticks(), "a stream was cut: {}", reply.text());
            assert_eq!((reply.finish().as_deref(), reply.dones()), (Some("stop"), 1));
            assert!(reply.complete_at.is_some(), "{:?}", reply.problems);
        }
    }
}
