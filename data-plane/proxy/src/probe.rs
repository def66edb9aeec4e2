//! Finding out how an upstream really behaves: a dozen small calls, one after the other, what each
//! of them showed, and what the gateway has to make up for.
//!
//! Calls go the way of requests: through the dialect, with the provider's own client, headers and
//! key. Where the upstream speaks OpenAI's shape, its own bytes are looked at as well.

mod answers;
mod ask;
mod finding;
mod heard;
mod line;
mod profile;
mod refusals;
mod shape;
mod streams;
mod tools;
mod trail;

use std::sync::Arc;

use sluicegate_model::{
    Profile,
    resource::{self, SecretSource},
    secret::Secret,
};
use tokio::{sync::mpsc, time::Instant};

pub use finding::{Check, Finding, Verdict};

use crate::{
    policy::{self, Credential, Provider},
    upstream::Clients,
};
use heard::Exchange;
use line::Line;

/// Whom a probe calls.
#[derive(Debug)]
pub struct Subject {
    provider: Provider,
    /// `None`: calls carry no key.
    credential: Option<Credential>,
    /// A key of the same form that opens nothing; `None` also where none can be made.
    wrong: Option<Credential>,
    key: Option<Secret>,
    /// As the provider calls it.
    model: String,
}

impl Subject {
    /// A provider, one of its keys or none, and a model as the provider calls it. Connections are
    /// shared with everyone who has the same `clients`.
    ///
    /// # Errors
    /// Why this build cannot call the provider so, in words for people.
    pub fn new(
        spec: &resource::Provider,
        key: Option<Secret>,
        model: String,
        clients: &Clients,
    ) -> Result<Self, String> {
        let ready = |key: &Secret| {
            let spec_of_key = resource::Credential {
                name: "the key".to_owned(),
                provider: spec.name.clone(),
                secret: SecretSource::Value(key.clone()),
                weight: 1,
                disabled: false,
                account: None,
            };
            policy::credential(spec, &spec_of_key, clients)
        };
        let credential = key.as_ref().map(&ready).transpose()?;
        let wrong = key.as_ref().and_then(ask::wrong_key).and_then(|key| ready(&key).ok());
        let provider = policy::provider(spec, Vec::<Arc<Credential>>::new(), clients)?;
        Ok(Self { provider, credential, wrong, key, model })
    }
}

/// How far a probe goes.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// What has not been tried by then is not.
    pub deadline: Instant,
    /// Also sends a prompt that is too large for most models.
    pub oversized: bool,
}

/// Why there is no profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    #[error("the provider could not be reached")]
    Unreachable,
    #[error("the provider answered neither a whole call nor a streamed one")]
    Unanswered,
    #[error("nobody listens any more")]
    Unheard,
}

/// Probes. Each finding is told as soon as it is made; one that nobody takes holds up the next call.
///
/// # Errors
/// Why nothing can be said about the provider. What was found out until then has been told.
pub async fn run(
    subject: &Subject,
    extent: Extent,
    found: &mpsc::Sender<Finding>,
) -> Result<Profile, Ended> {
    let line = Line::new(subject, extent.deadline);
    let mut probe = Probe { line, found, told: Vec::new() };

    let whole = probe.line.send(&ask::whole(&subject.model)).await;
    probe.tell(answers::reachable(&whole)).await?;
    if !whole.is_connected() {
        probe.skip_the_rest("no call gets through").await?;
        return Err(Ended::Unreachable);
    }
    probe.tell(answers::answer(&whole)).await?;
    probe.tell(answers::usage(&whole)).await?;

    let unasked = probe.line.send(&ask::streamed(&subject.model)).await;
    for finding in streams::course(&unasked) {
        probe.tell(finding).await?;
    }
    if !whole.has_answered() && !unasked.has_answered() {
        probe.skip_the_rest("no call was answered").await?;
        return Err(Ended::Unanswered);
    }
    let asks_by_default = probe.line.differs(&ask::streamed(&subject.model));
    let asked = probe.asked(&unasked, asks_by_default).await;
    probe.tell(streams::usage(&unasked, asked.as_ref())).await?;

    probe.tools().await?;
    probe.refusals(extent.oversized).await?;
    probe.tell(probe.line.trail.limits()).await?;
    probe.tell(probe.line.trail.kept()).await?;
    Ok(profile::of(&whole, &unasked, asked.as_ref(), asks_by_default))
}

struct Probe<'a> {
    line: Line<'a>,
    found: &'a mpsc::Sender<Finding>,
    told: Vec<Check>,
}

impl Probe<'_> {
    /// The stream again, with the wish for usage. `None`: there is no stream, the format has no
    /// such wish, or nobody has any need to ask.
    async fn asked(&mut self, unasked: &Exchange, asks_by_default: bool) -> Option<Exchange> {
        let ask = ask::streamed(&self.line.subject.model).asking_usage();
        let needless = !asks_by_default && unasked.usage().flatten().is_some();
        if !unasked.has_answered() || needless || !self.line.differs(&ask) {
            return None;
        }
        Some(self.line.send(&ask).await)
    }

    async fn tools(&mut self) -> Result<(), Ended> {
        let model = &self.line.subject.model;
        let (null, whole, streamed) =
            (ask::null_content(model), ask::tool(model, false), ask::tool(model, true));
        let exchange = self.line.send(&null).await;
        self.tell(tools::null_content(&exchange)).await?;
        let exchange = self.line.send(&whole).await;
        self.tell(tools::whole(&exchange)).await?;
        let exchange = self.line.send(&streamed).await;
        self.tell(tools::streamed(&exchange)).await
    }

    async fn refusals(&mut self, oversized: bool) -> Result<(), Ended> {
        let Subject { credential, wrong, model, .. } = self.line.subject;
        let finding = match (credential, wrong) {
            (None, _) => Finding::skipped(Check::WrongKey, "calls carry no key"),
            (Some(_), None) => Finding::skipped(Check::WrongKey, "no wrong key can be made of it"),
            (Some(_), Some(_)) => {
                refusals::wrong_key(&self.line.send(&ask::whole(model).with_wrong_key()).await)
            }
        };
        self.tell(finding).await?;
        let exchange = self.line.send(&ask::unknown_model()).await;
        self.tell(refusals::unknown_model(&exchange)).await?;
        let finding = if oversized {
            refusals::oversized(&self.line.send(&ask::oversized(model)).await)
        } else {
            Finding::skipped(Check::OversizedInput, "left out, as was asked")
        };
        self.tell(finding).await
    }

    async fn skip_the_rest(&mut self, why: &str) -> Result<(), Ended> {
        for check in Check::ALL {
            if !self.told.contains(&check) {
                self.tell(Finding::skipped(check, why)).await?;
            }
        }
        Ok(())
    }

    async fn tell(&mut self, finding: Finding) -> Result<(), Ended> {
        self.told.push(finding.check);
        let finding = finding.redacted(self.line.subject.key.as_ref());
        self.found.send(finding).await.map_err(|_| Ended::Unheard)
    }
}
