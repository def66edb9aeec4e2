//! The calls of probes, made from the control plane's process the way that data planes make theirs.

use async_trait::async_trait;
use sluicegate_control_server::{Extent, Prober, Subject};
use sluicegate_model::Profile;
use sluicegate_proto::admin::v1::{ProbeFinding, probe_finding};
use sluicegate_proxy::{
    probe::{self, Ended, Finding, Verdict},
    upstream::Clients,
};
use tokio::sync::mpsc;

/// Makes them.
#[derive(Debug)]
pub(super) struct Calls;

#[async_trait]
impl Prober for Calls {
    async fn probe(
        &self,
        subject: &Subject,
        extent: Extent,
        found: &mpsc::Sender<ProbeFinding>,
    ) -> Result<Option<Profile>, String> {
        // Connections of the probe's own: it is to be seen how one comes to stand.
        let clients = Clients::with_web_roots();
        let key = subject.key.as_ref().map(|(_, key)| key.clone());
        let called = probe::Subject::new(&subject.provider, key, subject.model.clone(), &clients)?;
        let extent = probe::Extent { deadline: extent.deadline, oversized: extent.oversized };
        let (told, mut findings) = mpsc::channel(1);
        // The sender goes with it: the findings end when it does.
        let probing = async move { probe::run(&called, extent, &told).await };
        let passing = async {
            while let Some(finding) = findings.recv().await {
                // A reader that is gone ends all of this.
                drop(found.send(wire(finding)).await);
            }
        };
        let (ended, ()) = tokio::join!(Box::pin(probing), passing);
        match ended {
            Ok(profile) => Ok(Some(profile)),
            Err(Ended::Unreachable | Ended::Unanswered | Ended::Unheard) => Ok(None),
        }
    }
}

fn wire(finding: Finding) -> ProbeFinding {
    let verdict = match finding.verdict {
        Verdict::Good => probe_finding::Verdict::Good,
        Verdict::Note => probe_finding::Verdict::Note,
        Verdict::Bad => probe_finding::Verdict::Bad,
        Verdict::Skipped => probe_finding::Verdict::Skipped,
    };
    ProbeFinding {
        check: finding.check.name().to_owned(),
        seen: finding.seen,
        verdict: verdict.into(),
        advice: finding.advice,
    }
}
