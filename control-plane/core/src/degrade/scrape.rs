//! Reading one source again and again.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::Uri;
use sluicegate_model::{Kind, Resource, ResourceRef};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{sleep, timeout},
};

use super::{
    board::{SourceKey, Wanted},
    exposition::{self, Sample},
};
use crate::state::State;

/// Largest body that is read, in bytes.
pub const MAX_BODY: usize = 4 * 1024 * 1024;
/// Longest wait for one. Where the interval is shorter, that.
const DEADLINE: Duration = Duration::from_secs(5);
/// Sources that are read at one time.
const AT_ONCE: usize = 16;
/// Results that wait to be taken in.
const QUEUE: usize = 64;

/// Fetches metrics: this plane's core opens no socket.
#[async_trait]
pub trait Scraper: Debug + Send + Sync {
    /// The body of a 200 answer to a GET of `url`, without redirects. Dropping it ends the call.
    ///
    /// # Errors
    /// In words for people: no connection, another status, or more than `limit` bytes.
    async fn scrape(&self, url: &Uri, limit: usize) -> Result<Bytes, String>;
}

/// What a source said.
pub(super) struct Scraped {
    pub(super) key: SourceKey,
    pub(super) samples: Vec<Sample>,
}

/// One task for each source.
#[derive(Debug)]
pub(super) struct Scrapes {
    scraper: Arc<dyn Scraper>,
    turns: Arc<Semaphore>,
    results: mpsc::Sender<Scraped>,
    running: BTreeMap<SourceKey, (Uri, Wanted, AbortOnDrop<()>)>,
}

impl Scrapes {
    /// Nothing is read yet. What will be comes out of the receiver.
    pub(super) fn new(scraper: Arc<dyn Scraper>) -> (Self, mpsc::Receiver<Scraped>) {
        let (results, receiver) = mpsc::channel(QUEUE);
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        (Self { scraper, turns, results, running: BTreeMap::new() }, receiver)
    }

    /// Reads these sources, and no others. Those that stay as they are keep their rhythm.
    pub(super) fn follow(&mut self, state: &State, wanted: BTreeMap<SourceKey, Wanted>) {
        let mut before = std::mem::take(&mut self.running);
        for (key, wanted) in wanted {
            let Some(url) = url(state, &key) else { continue };
            let kept = before.remove(&key).filter(|(of, as_of, _)| *of == url && *as_of == wanted);
            let running = kept.unwrap_or_else(|| {
                let task = self.start(key.clone(), url.clone(), wanted.clone());
                (url, wanted, task)
            });
            self.running.insert(key, running);
        }
    }

    fn start(&self, key: SourceKey, url: Uri, wanted: Wanted) -> AbortOnDrop<()> {
        let (scraper, turns) = (self.scraper.clone(), self.turns.clone());
        let results = self.results.clone();
        AbortOnDrop(task::spawn("metrics-scrape", async move {
            let mut failed = false;
            loop {
                let read = match turns.acquire().await {
                    Ok(_turn) => read(&*scraper, &url, &wanted).await,
                    Err(_) => return,
                };
                match read {
                    Ok(samples) => {
                        if std::mem::take(&mut failed) {
                            tracing::info!(provider = key.0, %url, "metrics can be read again");
                        }
                        if results.send(Scraped { key: key.clone(), samples }).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut failed, true) {
                            tracing::warn!(provider = key.0, %url, error, "metrics cannot be read");
                        }
                    }
                }
                sleep(jittered(wanted.interval)).await;
            }
        }))
    }
}

async fn read(scraper: &dyn Scraper, url: &Uri, wanted: &Wanted) -> Result<Vec<Sample>, String> {
    let deadline = DEADLINE.min(wanted.interval);
    let body = timeout(deadline, scraper.scrape(url, MAX_BODY)).await;
    let body = body.map_err(|_| format!("no answer within {} ms", deadline.as_millis()))??;
    if body.len() > MAX_BODY {
        return Err(format!("the answer has {} bytes, more than {MAX_BODY}", body.len()));
    }
    let is_wanted =
        |name: &str| wanted.metrics.binary_search_by(|metric| metric.as_str().cmp(name)).is_ok();
    exposition::samples(&body, is_wanted).map_err(|error| error.to_string())
}

/// The address of a source: the provider's host, without the path of its base URL.
fn url(state: &State, (provider, path): &SourceKey) -> Option<Uri> {
    let stored = state.resources.get(&ResourceRef::new(Kind::Provider, provider))?;
    let Resource::Provider(spec) = &stored.parsed else { return None };
    let url = Uri::builder()
        .scheme(spec.base_url.scheme.clone())
        .authority(spec.base_url.authority.clone())
        .path_and_query(path.as_str());
    url.build().ok()
}

/// A tenth more or less, so that sources are not read all at once.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + fastrand::f64() * 0.2)
}
