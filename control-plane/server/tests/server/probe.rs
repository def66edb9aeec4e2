//! Probes over the admin API, with somebody who makes no calls.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use sluicegate_control_server::{Extent, Prober, Subject};
use sluicegate_model::{Profile, StreamEnd};
use sluicegate_proto::admin::v1::{
    self as pb, probe_event::Event, probe_finding::Verdict as PbVerdict,
};
use tokio::sync::{Semaphore, mpsc};
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use crate::fixture::{Served, apply, credential, model, provider, soon};

const URL: &str = "http://127.0.0.1:9/v1";

/// Tells one finding, then waits to be let on.
#[derive(Debug)]
struct Scripted {
    go_on: Semaphore,
    ended: AtomicUsize,
    result: Result<Option<Profile>, String>,
}

impl Scripted {
    fn new(result: Result<Option<Profile>, String>) -> Arc<Self> {
        Arc::new(Self { go_on: Semaphore::new(0), ended: AtomicUsize::new(0), result })
    }
}

/// Counts the end of a probe, however it ends.
struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tonic::async_trait]
impl Prober for Scripted {
    async fn probe(
        &self,
        subject: &Subject,
        extent: Extent,
        found: &mpsc::Sender<pb::ProbeFinding>,
    ) -> Result<Option<Profile>, String> {
        let _ends = Ends(&self.ended);
        let key = subject.key.as_ref().map_or(0, |(_, key)| key.expose().len());
        let seen = format!("a key of {key} letters, oversized {}", extent.oversized);
        let finding = pb::ProbeFinding { check: "answer".into(), seen, ..Default::default() };
        drop(found.send(finding).await);
        self.go_on.acquire().await.unwrap().forget();
        self.result.clone()
    }
}

async fn served(prober: Arc<Scripted>) -> Served {
    let served = Served::probing(prober).await;
    let resources = vec![provider("p", URL), credential("p/k", "sk-secret"), model("m", "p")];
    apply(&mut served.admin().await, resources).await;
    served
}

fn request() -> pb::ProbeRequest {
    pb::ProbeRequest { provider: "p".into(), ..Default::default() }
}

async fn next(stream: &mut Streaming<pb::ProbeEvent>) -> Result<Option<Event>, Status> {
    Ok(soon(stream.message()).await?.map(|event| event.event.unwrap()))
}

#[tokio::test]
async fn a15_a_probe_tells_subject_findings_and_profile() {
    let profile = Profile { ask_usage: Some(false), fill_usage: true, stream_end: StreamEnd::Done };
    let prober = Scripted::new(Ok(Some(profile)));
    let served = served(prober.clone()).await;
    let mut admin = served.admin().await;
    let asked = pb::ProbeRequest { spare_oversized: true, ..request() };
    let mut stream = soon(admin.probe(asked)).await.unwrap().into_inner();
    let Some(Event::Subject(subject)) = next(&mut stream).await.unwrap() else { panic!() };
    assert_eq!((subject.credential.as_str(), subject.model.as_str()), ("p/k", "m"));
    let Some(Event::Finding(finding)) = next(&mut stream).await.unwrap() else { panic!() };
    assert_eq!(finding.seen, "a key of 9 letters, oversized false");
    assert_eq!(finding.verdict(), PbVerdict::Unspecified);

    // One at a time.
    let refused = soon(admin.probe(request())).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.get_details_error_info().unwrap().reason, "PROBE_RUNNING");

    prober.go_on.add_permits(1);
    let Some(Event::Profile(told)) = next(&mut stream).await.unwrap() else { panic!() };
    assert_eq!((told.ask_usage, told.fill_usage), (Some(false), true));
    assert_eq!(told.stream_end, "done");
    assert_eq!(next(&mut stream).await.unwrap(), None);

    // And the next may.
    prober.go_on.add_permits(1);
    let mut stream = soon(admin.probe(request())).await.unwrap().into_inner();
    while next(&mut stream).await.unwrap().is_some() {}
    assert_eq!(prober.ended.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a15_a_probe_ends_with_its_reader() {
    let prober = Scripted::new(Ok(None));
    let served = served(prober.clone()).await;
    let mut admin = served.admin().await;
    let mut stream = soon(admin.probe(request())).await.unwrap().into_inner();
    next(&mut stream).await.unwrap();
    drop(stream);
    // The turn is free again as soon as the server has noticed.
    let again = soon(async {
        loop {
            match admin.probe(request()).await {
                Ok(stream) => return stream.into_inner(),
                Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
            }
            tokio::task::yield_now().await;
        }
    });
    let mut stream = again.await;
    assert_eq!(prober.ended.load(Ordering::SeqCst), 1);
    prober.go_on.add_permits(1);
    let mut last = None;
    while let Some(event) = next(&mut stream).await.unwrap() {
        last = Some(event);
    }
    assert!(matches!(last, Some(Event::Finding(_))), "there is no profile: {last:?}");
}

#[tokio::test]
async fn a15_what_cannot_be_probed_says_why() {
    let prober = Scripted::new(Err("this build does not speak 'x'".into()));
    prober.go_on.add_permits(1);
    let served = served(prober).await;
    let mut admin = served.admin().await;
    let mut stream = soon(admin.probe(request())).await.unwrap().into_inner();
    let failed = loop {
        match next(&mut stream).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!(failed.code(), Code::FailedPrecondition);
    assert_eq!(failed.message(), "this build does not speak 'x'");

    let unknown = pb::ProbeRequest { provider: "pp".into(), ..Default::default() };
    let status = soon(admin.probe(unknown)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(status.get_details_resource_info().unwrap().description, "did you mean 'p'?");

    apply(&mut admin, vec![provider("q", URL)]).await;
    let bare = pb::ProbeRequest { provider: "q".into(), ..Default::default() };
    assert_eq!(soon(admin.probe(bare)).await.unwrap_err().code(), Code::InvalidArgument);

    let without = Served::new().await;
    let status = soon(without.admin().await.probe(request())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(!status.message().is_empty());
}
