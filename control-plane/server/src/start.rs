//! Putting the parts together.

use std::{path::PathBuf, sync::Arc, time::Duration};

use sluicegate_control_core::{
    Applier, Auth, Breakers, CoreError, Deferred, Degrade, Desired, Election, Fleet, History,
    Issued, LedgerClock, Limits, Pool, Publication, Quota, Remembered, Setback, Tokens, Usage,
    check_seal_key, deferred::webhook::Allowed, election::Timing, expiry::Expiry, probe::Subjects,
    quota::standing::Standing, secrets::watch::SecretWatch, usage::query::Totals,
};
use sluicegate_model::{address::Network, seal::SealKey, secret::Secret};
use sluicegate_protocol::policy::ServerConfig;
use sluicegate_store::{ConfigStore, deferred::Deferred as DeferredStore, ledger::Ledger};
use sluicegate_telemetry::task::{self, AbortOnDrop};

use crate::{
    ledger::Measured,
    metrics::Metrics,
    probe::{Prober, Probes},
    scrape::HttpScraper,
    webhook::Teller,
};

/// What a control plane is started with.
#[derive(Debug)]
pub struct Config {
    pub store: Arc<dyn ConfigStore>,
    /// Where limits and usage are counted; replicas share it.
    pub ledger: Arc<dyn Ledger>,
    /// Secrets are stored under it; replicas share it.
    pub seal_key: SealKey,
    /// Name of this replica.
    pub replica_id: String,
    /// `None`: the one in the store, or a new one.
    pub admin_token: Option<Secret>,
    /// `None`: the one in the store, or a new one.
    pub node_token: Option<Secret>,
    /// Makes a new admin token, unless one is given.
    pub reset_admin_token: bool,
    /// Takes the seal key though the store's secrets were sealed with another.
    pub reset_seal_key: bool,
    /// Where what is in the store is remembered, for a start while it is away. `None`: nowhere.
    pub remember: Option<PathBuf>,
    /// How long the store may take to answer.
    pub start_timeout: Duration,
    /// How policy streams wait; the replica's name is filled in.
    pub policy: ServerConfig,
    /// Makes the calls of probes; `None`: there are no probes.
    pub prober: Option<Arc<dyn Prober>>,
    /// Where requests that are run later are kept; replicas share it. `None`: none are taken.
    pub deferred: Option<Arc<dyn DeferredStore>>,
    /// Networks that ends of deferred requests are told in, beside public addresses.
    pub webhook_allow: Vec<Network>,
}

impl Config {
    /// The usual configuration.
    pub fn new(
        store: Arc<dyn ConfigStore>,
        ledger: Arc<dyn Ledger>,
        seal_key: SealKey,
        replica_id: impl Into<String>,
    ) -> Self {
        Self {
            store,
            ledger,
            seal_key,
            replica_id: replica_id.into(),
            admin_token: None,
            node_token: None,
            reset_admin_token: false,
            reset_seal_key: false,
            remember: None,
            start_timeout: Duration::from_secs(60),
            policy: ServerConfig::default(),
            prober: None,
            deferred: None,
            webhook_allow: Vec::new(),
        }
    }
}

/// A running control plane, to be served. It stops when it is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    pub(crate) desired: Arc<Desired>,
    pub(crate) applier: Arc<Applier>,
    pub(crate) history: History,
    pub(crate) publication: Arc<Publication>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) setback: Arc<Setback>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) policy: ServerConfig,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) quota: Arc<Quota>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) totals: Arc<Totals>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) election: Arc<Election>,
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) probes: Arc<Probes>,
    pub(crate) degrade: Arc<Degrade>,
    pub(crate) deferred: Option<Arc<Deferred>>,
    _telling: Option<AbortOnDrop<()>>,
    _remembering: Option<AbortOnDrop<()>>,
    _tasks: [AbortOnDrop<()>; 9],
}

impl ControlPlane {
    /// Reads the configuration and keeps it current. Waits for a store that does not answer, for at
    /// most the configured time. Also returns the tokens that were made: nothing else ever shows them.
    ///
    /// # Errors
    /// When the store stays away or refuses, or a given token cannot be one.
    pub async fn start(config: Config) -> Result<(Self, Issued), CoreError> {
        let Config { store, seal_key, replica_id, .. } = config;
        let remembered =
            config.remember.map(|file| Remembered::open(store.clone(), file, seal_key.clone()));
        let store = remembered.clone().map_or(store, |remembered| remembered as _);
        let (desired, watching) = Desired::start(store.clone(), config.start_timeout).await?;
        let state = desired.snapshot();
        check_seal_key(&store, &state, &seal_key, config.reset_seal_key).await?;
        let tokens = Tokens {
            admin: config.admin_token,
            node: config.node_token,
            reset_admin: config.reset_admin_token,
        };
        let (auth, issued) = Auth::start(store.clone(), tokens).await?;
        let fleet = Fleet::new();
        let (publication, publishing) =
            Publication::start(desired.clone(), seal_key.clone(), fleet.clone());
        let deferred = config.deferred.map(|store| {
            let allowed = Allowed(config.webhook_allow);
            Arc::new(Deferred::new(store, seal_key.clone(), allowed))
        });
        let applier = Arc::new(Applier::new(store.clone(), desired.clone(), seal_key.clone()));
        let subjects = Subjects::new(desired.clone(), seal_key.clone());
        let secrets = SecretWatch::new(desired.clone(), applier.clone(), seal_key).start();
        let expiry = Expiry::new(desired.clone(), applier.clone()).start();
        let (limits, compiling) = Limits::start(&desired);
        let metrics = Arc::new(Metrics::new());
        let ledger: Arc<dyn Ledger> =
            Arc::new(Measured::new(config.ledger, metrics.ledger.clone()));
        let clock = Arc::new(LedgerClock::new(ledger.clone()));
        let (pool, keeping) = Pool::start(desired.clone(), ledger.clone());
        let (election, electing) = Election::start(store.clone(), &replica_id, Timing::default());
        let (breakers, breaking) =
            Breakers::start(desired.clone(), store.clone(), ledger.clone(), election.clone());
        let scraper = Arc::new(HttpScraper::new());
        let (degrade, degrading) = Degrade::start(&desired, scraper, election.leads());
        let telling = deferred.as_ref().map(|deferred| Teller::start(deferred.clone(), &metrics));
        let remembering = remembered.map(|remembered| {
            if remembered.started() {
                tracing::warn!(
                    "started without the configuration store: nothing can be changed yet"
                );
            }
            AbortOnDrop(task::spawn("remembering", remembered.keep(desired.clone())))
        });
        let state = desired.snapshot();
        tracing::info!(
            store = store.kind(),
            location = store.location(),
            revision = state.revision,
            resources = state.resources.len(),
            ledger = ledger.kind(),
            ledger_location = ledger.location(),
            "the configuration is loaded"
        );
        let control_plane = Self {
            desired,
            applier,
            setback: Arc::new(Setback::new(store.clone())),
            history: History::new(store),
            publication,
            fleet,
            auth: Arc::new(auth),
            metrics,
            policy: ServerConfig { replica_id, ..config.policy },
            quota: Arc::new(Quota::new(limits.clone(), ledger.clone(), clock.clone())),
            standing: Arc::new(Standing::new(limits, ledger.clone())),
            usage: Arc::new(Usage::new(ledger.clone(), clock.clone())),
            totals: Arc::new(Totals::new(ledger.clone(), clock)),
            pool,
            election,
            breakers,
            probes: Arc::new(Probes::new(subjects, config.prober)),
            degrade,
            deferred,
            _telling: telling,
            _remembering: remembering,
            ledger,
            _tasks: [
                watching, publishing, secrets, expiry, compiling, keeping, electing, breaking,
                degrading,
            ],
        };
        Ok((control_plane, issued))
    }

    /// The desired state.
    pub fn desired(&self) -> &Arc<Desired> {
        &self.desired
    }

    /// Changes the desired state, as the admin API does.
    pub fn applier(&self) -> &Arc<Applier> {
        &self.applier
    }

    /// What data planes are told.
    pub fn publication(&self) -> &Arc<Publication> {
        &self.publication
    }

    /// The data planes of this replica.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }
}
