//! Turns requests away before the process cannot stand any more.
//!
//! A task samples what may run short; requests look at what came of it, nothing else.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use sluicegate_flow::{
    Class,
    pressure::{
        Gauge, Pressure, Standing,
        lag::Lag,
        share,
        system::{Linux, Source},
    },
};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{metrics::Metrics, refusal::Refusal};

/// Between samples.
const ROUND: Duration = Duration::from_millis(100);
/// Tasks that usually run so late cannot be stood. Milliseconds.
const MOST_LAG_MS: u64 = 2_000;

/// How the process stands.
#[derive(Debug)]
pub struct Watchman {
    standing: ArcSwap<Standing>,
    metrics: Arc<Metrics>,
    /// Memory that the process may use, in bytes; `None`: what the system says.
    max_memory: Option<u64>,
}

impl Watchman {
    /// Nothing sampled yet: all is calm.
    pub fn new(metrics: Arc<Metrics>, max_memory: Option<u64>) -> Self {
        Self { standing: ArcSwap::default(), metrics, max_memory }
    }

    /// Lets a request in, or turns it away.
    ///
    /// # Errors
    /// What is short.
    pub fn admit(&self, class: Class) -> Result<(), Refusal> {
        self.standing.load().admit(class, fastrand::u64(..)).map_err(|shed| {
            self.metrics.shed(class);
            Refusal::Shed(shed)
        })
    }

    /// May requests be tried again?
    pub fn may_retry(&self) -> bool {
        self.standing.load().may_retry()
    }

    /// Samples for as long as it is polled.
    pub async fn watch(&self) {
        self.watch_with(&Linux::default()).await;
    }

    async fn watch_with(&self, source: &dyn Source) {
        let begun = Instant::now();
        let (mut pressure, mut lag) = (Pressure::default(), Lag::default());
        let mut ticks = interval(ROUND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = Instant::now() + ROUND;
            ticks.tick().await;
            let late = Instant::now().saturating_duration_since(due);
            lag.note(u64::try_from(late.as_millis()).unwrap_or(u64::MAX));
            let before = pressure.standing().level;
            let now_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let standing = pressure.sample(&self.gauges(source, &lag), now_ms);
            if standing.level != before {
                tracing::warn!(
                    from = ?before,
                    to = ?standing.level,
                    short_of = standing.gauge.name(),
                    share = standing.pressure,
                    "what the gateway turns away has changed"
                );
            }
            self.metrics.pressure(standing.pressure);
            self.standing.store(Arc::new(standing));
        }
    }

    fn gauges(&self, source: &dyn Source, lag: &Lag) -> [(Gauge, f64); 3] {
        let usage = source.usage();
        let memory = self.max_memory.unwrap_or(usage.memory_limit_bytes);
        [
            (Gauge::Memory, share(usage.memory_bytes, memory)),
            (Gauge::OpenFiles, share(usage.open_files, usage.open_files_limit)),
            (Gauge::Lag, share(lag.usual_ms(), MOST_LAG_MS)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sluicegate_flow::pressure::system::Usage;
    use tokio::time::sleep;

    use super::*;

    struct Scripted(AtomicU64);

    impl Source for Scripted {
        fn usage(&self) -> Usage {
            let memory_bytes = self.0.load(Ordering::Relaxed);
            Usage { memory_bytes, memory_limit_bytes: 100, ..Usage::default() }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn c10_batch_goes_first_and_critical_last() {
        let watchman = Watchman::new(Arc::new(Metrics::new()), None);
        let source = Scripted(AtomicU64::new(50));
        let admitted = || Class::ALL.map(|class| watchman.admit(class).is_ok());
        let check = async {
            for (memory, expected, retries) in [
                (50, [true, true, true, true], true),
                (75, [true, true, true, true], false),
                (85, [true, true, true, false], false),
                (97, [true, false, false, false], false),
            ] {
                source.0.store(memory, Ordering::Relaxed);
                sleep(ROUND * 3).await;
                assert_eq!((admitted(), watchman.may_retry()), (expected, retries), "{memory}");
            }
            source.0.store(10, Ordering::Relaxed);
            sleep(ROUND * 60).await;
            assert_eq!((admitted(), watchman.may_retry()), ([true; 4], true));
        };
        tokio::select! {
            () = watchman.watch_with(&source) => {}
            () = check => {}
        }
    }
}
