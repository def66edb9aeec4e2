//! Being told levels by the control plane that works on degradations, and telling it what is seen here.

use std::{sync::Arc, time::Duration};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::{resource::degradation::Level, secret::Secret};
use sluicegate_proto::degrade::v1::{
    Levels as Word, WatchRequest, degrade_client::DegradeClient as Grpc,
};
use sluicegate_protocol::{
    breaker::State,
    degrade::{Directive, MAX_BREAKERS, Report, TargetBreaker},
};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

use super::{Levels, TimedOut};
use crate::{
    link::{Backoff, ControlPlanes, said, told},
    metrics::Metrics,
    policy::{Current, Policy},
};

/// How often what was seen is told.
const TELL: Duration = Duration::from_secs(1);
/// Breakers that have not changed are told again after this time. Milliseconds.
const AGAIN_MS: u64 = 5_000;
/// A report that nobody took for so long is given up. Milliseconds.
const GIVE_UP_MS: u64 = 60_000;
/// Longest wait for the answer to a report, and for the beginning of a watch.
const CALL: Duration = Duration::from_secs(3);

/// The running exchange; dropping it ends it.
#[derive(Debug)]
pub struct LevelsClient {
    _task: AbortOnDrop<()>,
}

/// Who tells, and of what.
#[derive(Debug)]
pub struct Teller {
    pub levels: Arc<Levels>,
    pub timed_out: Arc<TimedOut>,
    pub current: Arc<Current>,
    pub metrics: Arc<Metrics>,
    pub node_id: String,
    pub incarnation: u64,
}

/// The exchange with one control plane after the other.
#[derive(Debug)]
struct Link {
    teller: Teller,
    planes: ControlPlanes,
    sequence: u64,
    /// A report that was sent and not taken, and since when.
    pending: Option<(Report, u64)>,
    /// What was told of breakers, and when.
    breakers: Option<(Vec<TargetBreaker>, u64)>,
}

impl LevelsClient {
    /// Begins to tell and to be told, by the first of the control planes that works on degradations.
    pub fn start(teller: Teller, endpoints: &[Endpoint], token: &Secret) -> Self {
        let link = Link {
            teller,
            planes: ControlPlanes::new(endpoints, token),
            sequence: 0,
            pending: None,
            breakers: None,
        };
        Self { _task: AbortOnDrop(task::spawn("levels", link.run())) }
    }
}

impl Link {
    /// Follows one control plane after the other, for ever. What was not repeated is let go meanwhile,
    /// whether one is there or not.
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut ticks = interval(TELL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for turn in 0.. {
            let begun = Instant::now();
            let reason = match self.open(turn, &mut ticks).await {
                Ok((client, stream)) => self.follow(client, stream, &mut ticks).await,
                Err(reason) => reason,
            };
            tracing::debug!(reason, "no word of degradations; what is known holds for its time");
            self.ticking(sleep(backoff.after(begun)), &mut ticks).await;
        }
    }

    /// Waits for something, and lets go meanwhile.
    async fn ticking<T>(
        &self,
        wait: impl Future<Output = T>,
        ticks: &mut tokio::time::Interval,
    ) -> T {
        let mut wait = std::pin::pin!(wait);
        loop {
            tokio::select! {
                done = &mut wait => return done,
                _ = ticks.tick() => self.tidy(),
            }
        }
    }

    async fn open(
        &mut self,
        turn: usize,
        ticks: &mut tokio::time::Interval,
    ) -> Result<(Grpc<Channel>, Streaming<Word>), String> {
        let mut client = Grpc::new(self.planes.channel(turn)?);
        let node_id = self.teller.node_id.clone();
        let request = self.planes.request(WatchRequest { node_id })?;
        let opened = self.ticking(timeout(CALL, client.watch(request)), ticks).await;
        let opened = opened.map_err(|_| "no answer in time")?;
        let stream = opened.map_err(|status| said(&status))?.into_inner();
        // Another one may not know what was told of breakers.
        self.breakers = None;
        Ok((client, stream))
    }

    /// Takes what is told and tells what is seen; ends with the reason.
    async fn follow(
        &mut self,
        mut client: Grpc<Channel>,
        mut stream: Streaming<Word>,
        ticks: &mut tokio::time::Interval,
    ) -> String {
        loop {
            tokio::select! {
                // A connection that has died is noticed by its keep-alive.
                message = stream.message() => match message {
                    Ok(Some(word)) => self.learn(word),
                    Ok(None) => return "the control plane ended the watch".to_owned(),
                    Err(status) => return said(&status),
                },
                _ = ticks.tick() => {
                    self.tidy();
                    if let Err(reason) = self.tell(&mut client).await {
                        return reason;
                    }
                }
            }
        }
    }

    fn learn(&self, word: Word) {
        let directives = word.levels.into_iter().map(Directive::try_from);
        let readable = directives.filter_map(|directive| match directive {
            Ok(directive) => Some(directive),
            Err(fault) => {
                tracing::debug!(%fault, "a level is left out");
                None
            }
        });
        for (degradation, level) in self.teller.levels.take(readable.collect()) {
            log(&degradation, level, "the control plane says so");
        }
        self.show();
    }

    fn tidy(&self) {
        for degradation in self.teller.levels.lapse() {
            log(&degradation, Level::Normal, "no control plane has repeated its level");
        }
        self.show();
    }

    fn show(&self) {
        let Some(policy) = self.teller.current.load() else { return };
        let all = self.teller.levels.all(&policy).into_iter();
        self.teller.metrics.degradations.set(all.map(|(name, level)| (name, level.number())));
    }

    /// Tells what there is to tell.
    async fn tell(&mut self, client: &mut Grpc<Channel>) -> Result<(), String> {
        let now_ms = boottime_ms();
        let sent = self.pending.take();
        let sent = sent.filter(|(_, at_ms)| now_ms.saturating_sub(*at_ms) <= GIVE_UP_MS);
        let next = sent.or_else(|| self.next(now_ms).map(|report| (report, now_ms)));
        let Some((report, at_ms)) = next else { return Ok(()) };
        let request = self.planes.request(report.to_proto())?;
        // Until it is known to be taken: the same report again counts once.
        self.pending = Some((report, at_ms));
        let answer =
            timeout(CALL, client.report(request)).await.map_err(|_| "no answer in time")?;
        told(answer)?;
        self.pending = None;
        Ok(())
    }

    /// What was seen since the report before. Nothing where no degradation asks for it.
    fn next(&mut self, now_ms: u64) -> Option<Report> {
        let timeouts = self.teller.timed_out.take(now_ms);
        let policy = self.teller.current.load().filter(|it| !it.degradations.is_empty())?;
        let breakers = breakers(&policy);
        let known = self.breakers.as_ref().is_some_and(|(told, at_ms)| {
            *told == breakers && now_ms.saturating_sub(*at_ms) < AGAIN_MS
        });
        if known && timeouts.is_empty() {
            return None;
        }
        if !known {
            self.breakers = Some((breakers.clone(), now_ms));
        }
        self.sequence += 1;
        Some(Report {
            node: self.teller.node_id.clone(),
            incarnation: self.teller.incarnation,
            sequence: self.sequence,
            timeouts,
            breakers: (!known).then_some(breakers),
        })
    }
}

/// How the targets of every model stand.
fn breakers(policy: &Policy) -> Vec<TargetBreaker> {
    let models = policy.own_models().into_iter();
    let targets = models.flat_map(|model| {
        model.targets.iter().map(|target| TargetBreaker {
            model: model.name.clone(),
            target: target.state.key.clone(),
            open: matches!(target.state.state(), State::Open | State::HalfOpen),
        })
    });
    targets.take(MAX_BREAKERS).collect()
}

fn log(degradation: &str, level: Level, why: &str) {
    let level = level.number();
    tracing::info!(degradation, level, why, "the level changes here");
}
