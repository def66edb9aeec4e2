//! Probing providers for operators. The calls themselves are made by whoever the process brings for
//! it: this plane speaks no provider's format.

use std::{fmt::Debug, sync::Arc, time::Duration};

use sluicegate_control_core::probe::{Subject, Subjects};
use sluicegate_model::{Profile, StreamEnd};
use sluicegate_proto::{
    admin::v1::{self as pb, probe_event::Event},
    resource::v1 as resource,
};
use sluicegate_telemetry::task;
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::status;

/// How long a probe may take.
const LIMIT: Duration = Duration::from_secs(180);
/// How much sooner the prober is to be done, so that what it found is told in time.
const MARGIN: Duration = Duration::from_secs(5);
/// Findings that wait for a slow reader.
const QUEUE: usize = 16;

/// Makes the calls of a probe.
#[tonic::async_trait]
pub trait Prober: Debug + Send + Sync {
    /// Calls the subject and tells each finding as soon as it is made. `None`: the provider could
    /// not be reached, or answered nothing, and the findings say so. Dropping it ends the calls.
    ///
    /// # Errors
    /// Why the provider cannot be called by this build, in words for people.
    async fn probe(
        &self,
        subject: &Subject,
        extent: Extent,
        found: &mpsc::Sender<pb::ProbeFinding>,
    ) -> Result<Option<Profile>, String>;
}

/// How far a probe goes.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// What has not been tried by then is not.
    pub deadline: Instant,
    /// Also sends a prompt that is too large for most models.
    pub oversized: bool,
}

/// One probe at a time.
#[derive(Debug)]
pub(crate) struct Probes {
    subjects: Subjects,
    prober: Option<Arc<dyn Prober>>,
    turn: Arc<Semaphore>,
}

type Events = mpsc::Sender<Result<pb::ProbeEvent, Status>>;

impl Probes {
    pub(crate) fn new(subjects: Subjects, prober: Option<Arc<dyn Prober>>) -> Self {
        Self { subjects, prober, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Starts a probe. It ends when its reader is gone.
    ///
    /// # Errors
    /// Nobody makes calls here, another probe is running, or there is nothing to call.
    pub(crate) fn start(
        &self,
        request: &pb::ProbeRequest,
        stopping: CancellationToken,
    ) -> Result<ReceiverStream<Result<pb::ProbeEvent, Status>>, Status> {
        let prober = self.prober.clone().ok_or_else(status::no_prober)?;
        let subject = self
            .subjects
            .find(&request.provider, &request.credential, &request.model)
            .map_err(status::status)?;
        let turn = self.turn.clone().try_acquire_owned().map_err(|_| status::probing())?;
        let oversized = !request.spare_oversized;
        let (events, stream) = mpsc::channel(QUEUE);
        drop(task::spawn("probe", async move {
            let gone = events.clone();
            tokio::select! {
                () = run(&*prober, &subject, oversized, &events) => {}
                () = gone.closed() => {}
                () = stopping.cancelled() => drop(gone.try_send(Err(status::stopping()))),
            }
            drop(turn);
        }));
        Ok(ReceiverStream::new(stream))
    }
}

async fn run(prober: &dyn Prober, subject: &Subject, oversized: bool, events: &Events) {
    let end = Instant::now() + LIMIT;
    let extent = Extent { deadline: end - MARGIN, oversized };
    let failure = match timeout_at(end, told(prober, subject, extent, events)).await {
        Ok(Ok(())) => return,
        Ok(Err(why)) => status::cannot_probe(&why),
        Err(_) => status::probe_overdue(LIMIT),
    };
    // A reader that has taken nothing for so long learns of the end from the connection.
    drop(events.try_send(Err(failure)));
}

/// Lets the prober run and passes on what it finds, and at last the profile.
async fn told(
    prober: &dyn Prober,
    subject: &Subject,
    extent: Extent,
    events: &Events,
) -> Result<(), String> {
    let begun = pb::ProbeSubject {
        credential: subject.key.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
        model: subject.model.clone(),
    };
    // Whoever is gone is noticed by whoever runs this.
    let tell = async |what: Event| drop(events.send(Ok(event(what))).await);
    tell(Event::Subject(begun)).await;
    let (found, mut findings) = mpsc::channel(QUEUE);
    // The sender goes with it: the findings end when it does.
    let probing = async move { prober.probe(subject, extent, &found).await };
    let passing = async {
        while let Some(finding) = findings.recv().await {
            tell(Event::Finding(finding)).await;
        }
    };
    let (profile, ()) = tokio::join!(probing, passing);
    if let Some(profile) = profile? {
        tell(Event::Profile(wire(&profile))).await;
    }
    Ok(())
}

fn event(event: Event) -> pb::ProbeEvent {
    pb::ProbeEvent { event: Some(event) }
}

fn wire(profile: &Profile) -> resource::Profile {
    let end = match profile.stream_end {
        StreamEnd::Finish => "finish",
        StreamEnd::Done => "done",
        StreamEnd::Close => "close",
    };
    resource::Profile {
        ask_usage: profile.ask_usage,
        fill_usage: profile.fill_usage,
        stream_end: end.to_owned(),
    }
}
