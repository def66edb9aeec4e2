//! Telling callers' servers what came of their deferred requests.
//!
//! Each address that a name stands for is judged before the connection is made, and no redirect is
//! followed: who may name a server must not reach through us what we can reach. Whatever a server
//! does, it holds up others by no more than its share of the attempts that go on at one time.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
    vec,
};

use bytes::Bytes;
use http::{Request, header::CONTENT_TYPE, header::USER_AGENT};
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use sluicegate_control_core::{
    Deferred,
    deferred::webhook::{Allowed, Answer, DEADLINE, Webhook},
};
use sluicegate_store::deferred::DeliveryOutcome;
use sluicegate_telemetry::{
    clock,
    task::{self, AbortOnDrop},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tower_service::Service;

use crate::metrics::Metrics;

/// Attempts at one time.
const MOST: usize = 64;
/// And at one host: one that hangs holds up its own alone.
const MOST_OF_A_HOST: usize = 4;
/// When one that found its host busy has its turn again. Milliseconds.
const BUSY_MS: u64 = 2_000;
/// Between two looks at what is due, unless something ends.
const LOOK: Duration = Duration::from_secs(1);
/// How often requests are counted.
const COUNT: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(3);

type Connecting = HttpConnector<Judging>;

/// Tells ends.
#[derive(Debug)]
pub(crate) struct Teller {
    deferred: Arc<Deferred>,
    metrics: Arc<Metrics>,
    hosts: Hosts,
    encrypted: Client<HttpsConnector<Connecting>, Full<Bytes>>,
    plain: Client<Connecting, Full<Bytes>>,
}

/// How many attempts go on at each host.
#[derive(Debug, Clone, Default)]
struct Hosts(Arc<Mutex<HashMap<String, usize>>>);

/// A place at a host, given up when dropped.
#[derive(Debug)]
struct AtHost {
    hosts: Hosts,
    host: String,
}

impl Hosts {
    /// A place, if there is one.
    fn enter(&self, host: &str) -> Option<AtHost> {
        let mut hosts = self.lock();
        let under_way = hosts.entry(host.to_owned()).or_default();
        if *under_way >= MOST_OF_A_HOST {
            return None;
        }
        *under_way += 1;
        Some(AtHost { hosts: self.clone(), host: host.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AtHost {
    fn drop(&mut self) {
        let mut hosts = self.hosts.lock();
        if let Some(under_way) = hosts.get_mut(&self.host) {
            *under_way -= 1;
            if *under_way == 0 {
                hosts.remove(&self.host);
            }
        }
    }
}

impl Teller {
    /// Begins to tell, until the returned task is dropped.
    pub(crate) fn start(deferred: Arc<Deferred>, metrics: &Arc<Metrics>) -> AbortOnDrop<()> {
        let tls = rustls::ClientConfig::builder().with_webpki_roots().with_no_client_auth();
        let encrypted = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .wrap_connector(connecting(&deferred, true));
        let plain = connecting(&deferred, false);
        let mut client = Client::builder(TokioExecutor::new());
        client.timer(TokioTimer::new()).pool_max_idle_per_host(0);
        let teller = Self {
            encrypted: client.build(encrypted),
            plain: client.build(plain),
            metrics: metrics.clone(),
            hosts: Hosts::default(),
            deferred,
        };
        AbortOnDrop(task::spawn("webhooks", Arc::new(teller).run()))
    }

    async fn run(self: Arc<Self>) {
        let slots = Arc::new(Semaphore::new(MOST));
        let mut counted = None;
        loop {
            if counted.is_none_or(|at: Instant| at.elapsed() >= COUNT) {
                counted = Some(Instant::now());
                if let Err(error) = self.deferred.count().await {
                    tracing::debug!(%error, "deferred requests cannot be counted");
                }
            }
            // Asked also when nobody could tell: the store's time goes on with it.
            let due = match self.deferred.deliveries(slots.available_permits()).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::debug!(%error, "what callers are to be told is not known");
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            };
            if due.is_empty() {
                self.deferred.until_ended(Instant::now() + LOOK).await;
            }
            for webhook in due {
                let host = webhook.endpoint.uri().host().unwrap_or_default();
                let Some(place) = self.hosts.enter(host) else {
                    let later = DeliveryOutcome::Again { after_ms: BUSY_MS };
                    if let Err(error) = self.deferred.delivered(&webhook, later).await {
                        tracing::debug!(id = webhook.id, %error, "a webhook waits for its lease");
                    }
                    continue;
                };
                // There were as many as was asked for, and only this loop takes them.
                let Ok(slot) = slots.clone().acquire_owned().await else { return };
                let teller = self.clone();
                drop(task::spawn("webhook", async move {
                    teller.tell(&webhook).await;
                    drop((slot, place));
                }));
            }
        }
    }

    async fn tell(&self, webhook: &Webhook) {
        let answer = timeout(DEADLINE, self.send(webhook)).await.unwrap_or(Answer::None);
        let outcome = webhook.outcome(answer);
        let name = match (answer, outcome) {
            (Answer::Status(200..300), _) => "delivered",
            (_, DeliveryOutcome::Over) => "given_up",
            (_, DeliveryOutcome::Again { .. }) => "failed",
        };
        self.metrics.webhooks.get_or_create(&[("outcome", name)]).inc();
        let host = webhook.endpoint.uri().host();
        tracing::info!(id = webhook.id, host, attempt = webhook.attempt, ?answer, name, "webhook");
        if let Err(error) = self.deferred.delivered(webhook, outcome).await {
            tracing::warn!(id = webhook.id, %error, "a webhook may be told once more");
        }
    }

    async fn send(&self, webhook: &Webhook) -> Answer {
        let endpoint = &webhook.endpoint;
        let timestamp_s = clock::since_epoch().as_secs();
        let request = Request::post(endpoint.uri().clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &webhook.id)
            .header("webhook-timestamp", timestamp_s)
            .header("webhook-signature", endpoint.sign(&webhook.id, timestamp_s, &webhook.payload))
            .body(Full::new(webhook.payload.clone()));
        let Ok(request) = request else { return Answer::None };
        let answered = if endpoint.is_encrypted() {
            self.encrypted.request(request).await
        } else {
            self.plain.request(request).await
        };
        match answered {
            Ok(response) => Answer::Status(response.status().as_u16()),
            Err(error) => {
                tracing::debug!(id = webhook.id, %error, "no answer to a webhook");
                Answer::None
            }
        }
    }
}

fn connecting(deferred: &Deferred, encrypted: bool) -> Connecting {
    let allowed = deferred.allowed().clone();
    let mut tcp = HttpConnector::new_with_resolver(Judging { allowed, encrypted });
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp
}

/// Looks names up, and keeps the addresses that may be gone to.
#[derive(Debug, Clone)]
struct Judging {
    allowed: Allowed,
    encrypted: bool,
}

impl Service<Name> for Judging {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let judging = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let may = |address: &SocketAddr| judging.allowed.holds(address.ip(), judging.encrypted);
            let kept: Vec<_> = found.filter(may).collect();
            if kept.is_empty() {
                return Err(io::Error::other("the name stands for no address that may be told"));
            }
            Ok(kept.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b2_a_host_that_hangs_holds_up_its_own_alone() {
        let hosts = Hosts::default();
        let mut places: Vec<_> = (0..MOST_OF_A_HOST).map_while(|_| hosts.enter("hangs")).collect();
        assert_eq!(places.len(), MOST_OF_A_HOST);
        assert!(hosts.enter("hangs").is_none());
        assert!(hosts.enter("well").is_some());
        places.pop();
        assert!(hosts.enter("hangs").is_some());
        drop(places);
        assert!(hosts.lock().is_empty());
    }

    #[tokio::test]
    async fn b2_a_name_is_judged_by_what_it_stands_for() {
        let loopback = Allowed(vec!["127.0.0.0/8".parse().unwrap()]);
        for (allowed, encrypted, may) in [
            (Allowed::default(), true, false),
            (Allowed::default(), false, false),
            (loopback.clone(), true, true),
            (loopback, false, true),
        ] {
            let mut judging = Judging { allowed, encrypted };
            let found = judging.call("localhost".parse().unwrap()).await;
            let found = found.map(|addresses| addresses.collect::<Vec<_>>());
            assert_eq!(found.is_ok(), may, "{found:?}");
            assert!(found.into_iter().flatten().all(|address| address.is_ipv4()));
        }
    }
}
