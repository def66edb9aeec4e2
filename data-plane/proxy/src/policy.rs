//! Policy as requests use it: compiled off the hot path, immutable, one pointer away.

mod compile;
mod keys;
pub mod limits;

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri};
use sluicegate_dialect::{Dialect, Endpoint, Place};
use sluicegate_model::{
    Profile, TokenRates,
    resource::{
        Degradation, Fallback, LastResort, NamePattern, Priority, Retry, Routing, Timeouts,
        model::{OutputCap, Tokenizer, WhenUnavailable},
        provider::BaseUrl,
    },
    secret::{KeyHash, Secret},
};

pub use compile::{Compiled, Compiler};
pub(crate) use compile::{credential, provider};
pub use keys::{Holds, Keys, Known};
use sluicegate_protocol::{
    breaker::{CheckRules, Forces},
    pool::Waits,
};
use sluicegate_telemetry::clock;
use tokio::sync::watch;

use crate::{
    group::Group,
    target,
    upstream::{Client, auth::Signer},
};
use limits::Limits;

/// Everything that a request needs to know, as of one revision. A request takes one and keeps it.
#[derive(Debug, Default)]
pub struct Policy {
    /// Revision of the configuration.
    pub revision: u64,
    /// The history that it is a revision of.
    pub epoch: Bytes,
    callers: HashMap<KeyHash, Arc<Caller>>,
    /// The same by the name of the key.
    by_key_name: HashMap<String, KeyHash>,
    /// By public name and by exact alias.
    models: HashMap<String, Arc<Model>>,
    /// Aliases that match any ending, longest first.
    prefixes: Vec<(String, Arc<Model>)>,
    /// Every limit.
    pub limits: Limits,
    /// In the order of their names.
    pub degradations: Vec<Degradation>,
    /// When the last of them ends that an operator has set: milliseconds since the Unix epoch. `None`:
    /// none is set.
    pub degraded_by_hand_until: Option<u64>,
    /// Some model's streams are held open while they wait.
    pub holds_streams: bool,
    /// Until when nothing is tried again, by an operator's word: milliseconds since the Unix epoch.
    retries_off_until: Option<u64>,
    /// What operators want of targets.
    pub forces: Forces,
}

impl Policy {
    /// The caller whose key has this hash.
    pub fn caller(&self, hash: KeyHash) -> Option<&Arc<Caller>> {
        self.callers.get(&hash)
    }

    /// The hash of the key of this name.
    pub fn key_named(&self, key: &str) -> Option<KeyHash> {
        self.by_key_name.get(key).copied()
    }

    /// Every model, in no order.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.iter().filter(|(name, model)| **name == model.name).map(|(_, model)| model)
    }

    /// The model that answers to `name`: exactly, or by the longest declared prefix.
    pub fn model(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.get(name).or_else(|| {
            let (_, model) =
                self.prefixes.iter().find(|(prefix, _)| name.starts_with(prefix.as_str()))?;
            Some(model)
        })
    }

    /// Has an operator switched off that anything is tried again?
    pub fn retries_are_off(&self) -> bool {
        self.retries_off_until.is_some_and(|until| clock::unix_ms() < until)
    }

    /// Is it a model's own name or an exact alias?
    pub fn is_exact(&self, name: &str) -> bool {
        self.models.contains_key(name)
    }

    /// Every model, sorted by its own name.
    pub fn own_models(&self) -> Vec<&Arc<Model>> {
        let named = self.model_names().into_iter();
        named.filter(|(name, model)| *name == model.name).map(|(_, model)| model).collect()
    }

    /// Every name that can be asked for and its model, sorted by name.
    pub fn model_names(&self) -> Vec<(&str, &Arc<Model>)> {
        let mut names: Vec<_> =
            self.models.iter().map(|(name, model)| (name.as_str(), model)).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        names
    }
}

/// Who a key belongs to.
#[derive(Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the key.
    pub key: String,
    pub tenant: Option<String>,
    /// Among whom it shares what is full: its tenant, or itself.
    pub shares_as: Arc<str>,
    /// The share of that.
    pub weight: u32,
    pub priority: Priority,
    /// The tenant, then those above it.
    pub tenants: Vec<String>,
    pub user: Option<String>,
    /// Models it may use; empty: all.
    pub models: Vec<NamePattern>,
    pub expires_unix_ms: Option<u64>,
    pub disabled: bool,
    /// Its newest version cannot be read by this build; this is an older one.
    pub is_stale: bool,
}

impl Caller {
    /// May it use this model?
    pub fn may_use(&self, model: &Model) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| pattern.matches(&model.name))
    }
}

/// A public model.
#[derive(Debug)]
pub struct Model {
    pub name: String,
    /// By priority, lowest number first; those without weight are left out.
    pub targets: Vec<Target>,
    pub retry: Retry,
    pub fallback: Fallback,
    /// Which models answer in its place, by what a request looks like.
    pub routing: Option<Box<Routing>>,
    pub when_unavailable: WhenUnavailable,
    /// What its targets share.
    pub group: Arc<Group>,
    pub owned_by: String,
    /// Revision that last changed it, and with it its weights and prices.
    pub version: u64,
    pub units: TokenRates,
    pub prices: TokenRates,
    pub output_cap: OutputCap,
    pub tokenizer: Tokenizer,
}

/// One way to answer.
#[derive(Debug, Clone)]
pub struct Target {
    pub provider: Arc<Provider>,
    /// Name sent upstream; `None`: the model's, or where a pattern matched, the one asked for.
    pub model: Option<String>,
    pub weight: u32,
    pub priority: u32,
    /// How it stands. Names that callers make up share one.
    pub state: Arc<target::Target>,
}

/// A provider, ready to be called.
#[derive(Debug)]
pub struct Provider {
    pub name: String,
    pub dialect: &'static dyn Dialect,
    pub base_url: BaseUrl,
    /// Where each endpoint is; `None` where the dialect lacks it. In the order of [`Endpoint::ALL`].
    pub places: [Option<Location>; Endpoint::ALL.len()],
    pub timeouts: Timeouts,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub keyless: bool,
    /// How long keys are left alone that the upstream does not take.
    pub waits: Waits,
    /// What happens when none is left.
    pub last_resort: LastResort,
    /// Keys that may be used.
    pub credentials: Vec<Arc<Credential>>,
    pub client: Client,
    pub profile: Profile,
    /// Fetch images whose addresses the dialect does not take.
    pub fetch_images: bool,
    /// How its models are probed.
    pub health: Option<HealthCheck>,
}

/// How the models of a provider are probed.
#[derive(Debug)]
pub struct HealthCheck {
    pub rules: CheckRules,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// What to get; `None`: a completion of one token.
    pub uri: Option<Uri>,
}

/// Where an endpoint of a provider is.
#[derive(Debug, Clone)]
pub enum Location {
    Fixed(Uri),
    /// Each request says.
    PerCall,
}

impl Provider {
    /// Where this endpoint is.
    pub fn location(&self, endpoint: Endpoint) -> Option<&Location> {
        let index = Endpoint::ALL.iter().position(|known| *known == endpoint)?;
        self.places.get(index)?.as_ref()
    }

    /// The URL of one request. `None`: the parts make no URL.
    pub fn uri(&self, endpoint: Endpoint, path: Option<&str>) -> Option<Uri> {
        match (self.location(endpoint)?, path) {
            (_, Some(path)) => self.base_url.endpoint(path).ok(),
            (Location::Fixed(uri), None) => Some(uri.clone()),
            (Location::PerCall, None) => None,
        }
    }
}

impl Location {
    /// Where the dialect's place is below a base URL.
    ///
    /// # Errors
    /// When the parts do not make a URL.
    pub fn of(place: Place, base_url: &BaseUrl) -> Result<Self, http::Error> {
        match place {
            Place::At(path) => base_url.endpoint(path).map(Self::Fixed),
            Place::PerCall => Ok(Self::PerCall),
        }
    }
}

/// A provider key, ready to be used.
#[derive(Debug)]
pub struct Credential {
    pub name: String,
    pub signer: Signer,
    /// The key and its parts, to be taken out of whatever an upstream says.
    pub private: Vec<Secret>,
    pub weight: u32,
    /// The upstream's account, where several keys share one.
    pub account: Option<String>,
}

/// Where the current policy is; empty until the first one came.
#[derive(Debug, Default)]
pub struct Current {
    policy: ArcSwapOption<Policy>,
    keys: ArcSwapOption<Keys>,
    changed: watch::Sender<u64>,
}

impl Current {
    /// The policy for one request, for the whole of its life.
    pub fn load(&self) -> Option<Arc<Policy>> {
        self.policy.load_full()
    }

    /// Which keys hold, as far as the lane of keys has told; for a look, not to be kept.
    pub fn keys(&self) -> Guard<Option<Arc<Keys>>> {
        self.keys.load()
    }

    /// Requests that begin from now on are refused with keys that do not hold.
    pub fn store_keys(&self, keys: Arc<Keys>) {
        self.keys.store(Some(keys));
    }

    /// Requests that begin from now on use `policy`.
    pub fn store(&self, policy: Arc<Policy>) {
        let revision = policy.revision;
        self.policy.store(Some(policy));
        self.changed.send_replace(revision);
    }

    /// Tells whenever another policy is in force.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
