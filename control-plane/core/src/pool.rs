//! What the fleet knows of provider keys: reports of data planes come in, the ledger keeps them, every
//! data plane is told.
//!
//! Each replica has everything in memory and answers from there, so that a ledger that is away holds
//! up nothing. What the ledger lacks it is told again as soon as it answers.

mod board;
mod log;
mod status;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluicegate_model::{Kind, ResourceRef, Violation, Violations, path::Path};
use sluicegate_proto::{
    admin::v1::{self as admin, set_pool_state_request::State as Wanted},
    pool::v1 as pb,
    resource::v1::{SecretSource, resource::Spec},
};
use sluicegate_protocol::pool::{Cell, Change, Clear, LONGEST_MS, MAX_REASON, short};
use sluicegate_store::{
    StoreError,
    ledger::{Ledger, MAX_CELLS},
};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use self::board::Board;
use crate::{desired::Desired, error::CoreError, quota::standing::health, state::State};

/// How often the ledger is asked what other replicas were told.
const POLL: Duration = Duration::from_secs(1);
/// Cells and clears in one report.
const MAX_REPORT: usize = 2_000;
/// This replica's clock begins here, so that there is room for what began before.
const BEGINNING_MS: u64 = 1 << 40;

/// The provider keys of the fleet.
#[derive(Debug)]
pub struct Pool {
    desired: Arc<Desired>,
    ledger: Arc<dyn Ledger>,
    board: Mutex<Board>,
    /// Grows with each change.
    version: watch::Sender<u64>,
    origin: Instant,
}

impl Pool {
    /// Begins to keep the state, until the returned task is dropped.
    #[must_use]
    pub fn start(desired: Arc<Desired>, ledger: Arc<dyn Ledger>) -> (Arc<Self>, AbortOnDrop<()>) {
        let pool = Arc::new(Self {
            desired,
            ledger,
            board: Mutex::default(),
            version: watch::Sender::new(0),
            origin: Instant::now(),
        });
        let keeping = task::spawn("pool", pool.clone().keep());
        (pool, AbortOnDrop(keeping))
    }

    /// Takes in what a data plane saw. Others are told at once, whether the ledger answers or not.
    ///
    /// # Errors
    /// [`CoreError::Invalid`], with nothing done, when the request is none that a data plane makes.
    pub async fn report(&self, request: pb::ReportRequest) -> Result<pb::ReportReply, CoreError> {
        let changes = changes(request)?;
        Ok(pb::ReportReply { durable: self.take(changes).await })
    }

    /// Grows with each change of the state.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// What has changed since a version (0: everything), and the version that this leads to.
    pub fn since(&self, version: u64) -> (Vec<Cell>, u64) {
        let now_ms = self.now_ms();
        self.lock().since(version, now_ms)
    }

    /// How each credential stands.
    ///
    /// # Errors
    /// [`CoreError::NotFound`] for a credential or provider that is not there.
    pub fn status(
        &self,
        request: &admin::PoolStatusRequest,
    ) -> Result<admin::PoolStatusReply, CoreError> {
        let state = self.desired.snapshot();
        for (kind, name) in
            [(Kind::Credential, &request.credential), (Kind::Provider, &request.provider)]
        {
            if !name.is_empty() {
                known(&state, kind, name)?;
            }
        }
        let now_ms = self.now_ms();
        let board = self.lock();
        let credentials = status::credentials(&state)
            .filter(|spec| request.credential.is_empty() || spec.name == request.credential)
            .filter(|spec| request.provider.is_empty() || spec.provider == request.provider)
            .map(|spec| status::of(spec, board.cells.of(&spec.name, now_ms)))
            .collect();
        Ok(admin::PoolStatusReply { credentials, health: health(&self.ledger.health().borrow()) })
    }

    /// The state of each credential by name, for metrics.
    pub fn states(&self) -> Vec<(String, &'static str)> {
        let state = self.desired.snapshot();
        let now_ms = self.now_ms();
        let board = self.lock();
        status::credentials(&state)
            .map(|spec| {
                let cells = board.cells.of(&spec.name, now_ms);
                (spec.name.clone(), status::name(spec, &cells))
            })
            .collect()
    }

    /// Does what an operator wants of a key.
    ///
    /// # Errors
    /// [`CoreError::NotFound`] for a credential that is not there, [`CoreError::Invalid`] for a rest
    /// of no or too long a time.
    pub async fn set(
        &self,
        request: admin::SetPoolStateRequest,
    ) -> Result<admin::SetPoolStateReply, CoreError> {
        let state = self.desired.snapshot();
        known(&state, Kind::Credential, &request.credential)?;
        let name = &request.credential;
        let fault = |field: &str, message: &str, hint: &str| {
            let violation = Violation::new(Path::parse(field), message).hint(hint);
            Err(CoreError::Invalid(violation.into()))
        };
        let changes: Vec<_> = match request.state {
            Some(Wanted::Rest(rest)) => {
                if rest.for_ms == 0 || rest.for_ms > LONGEST_MS {
                    return fault("rest.for_ms", "is no time to rest", "use 1 ms to 31 days");
                }
                if rest.comment.chars().count() > MAX_REASON {
                    return fault("rest.comment", "is too long", "use at most 200 characters");
                }
                let comment = short(&rest.comment);
                let cell = self.lock().cells.resting(name, &rest.model, rest.for_ms, comment);
                if let Err(bad) = cell.key.clone().checked() {
                    return fault("rest.model", &bad.to_string(), "name a model of an upstream");
                }
                vec![Change::Merge(cell)]
            }
            Some(Wanted::Enable(_)) => {
                self.lock().cells.enabling(name, true).into_iter().map(Change::Clear).collect()
            }
            None => return fault("state", "is missing", "set rest or enable"),
        };
        let cleared = changes.iter().filter(|change| matches!(change, Change::Clear(_))).count();
        tracing::info!(credential = name, ?changes, "an operator set the state of a provider key");
        let durable = self.take(changes).await;
        let request =
            admin::PoolStatusRequest { credential: name.clone(), provider: String::new() };
        let status = self.status(&request)?.credentials.pop();
        let cleared = u32::try_from(cleared).unwrap_or(u32::MAX);
        Ok(admin::SetPoolStateReply { status, cleared, durable })
    }

    /// Takes changes over; true: the ledger has them, too.
    async fn take(&self, changes: Vec<Change>) -> bool {
        let now_ms = self.now_ms();
        let version = {
            let mut board = self.lock();
            for change in &changes {
                let known = board.cells.get(change_key(change)).cloned();
                if board.change(change, now_ms) {
                    let now = board.cells.get(change_key(change));
                    log::changed(change_key(change), known.as_ref(), now, now_ms);
                }
            }
            board.version
        };
        self.announce(version);
        match self.ledger.cells(&changes).await {
            Ok(cells) => {
                self.learn(&cells);
                true
            }
            Err(error) => {
                unwell(&error);
                false
            }
        }
    }

    /// What the ledger tells.
    fn learn(&self, cells: &[Cell]) {
        let now_ms = self.now_ms();
        let version = {
            let mut board = self.lock();
            cells.iter().for_each(|cell| board.learn(cell, now_ms));
            board.version
        };
        self.announce(version);
    }

    /// Keeps memory and ledger alike, and begins anew with keys whose secret was changed.
    async fn keep(self: Arc<Self>) {
        let mut states = self.desired.subscribe();
        let mut secrets = secrets(&states.borrow_and_update().clone());
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.compare().await,
                changed = states.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let state = states.borrow_and_update().clone();
                    secrets = self.follow(&state, secrets).await;
                }
            }
        }
    }

    async fn compare(&self) {
        let told = match self.ledger.cells(&[]).await {
            Ok(told) => told,
            Err(error) => return unwell(&error),
        };
        self.learn(&told);
        let lacking = {
            let now_ms = self.now_ms();
            let mut board = self.lock();
            board.tidy(now_ms);
            // A full one lacks what it has let go of.
            if told.len() < MAX_CELLS { board.cells.lacking(&told, now_ms) } else { Vec::new() }
        };
        if lacking.is_empty() {
            return;
        }
        tracing::info!(cells = lacking.len(), "the ledger lacks the state of provider keys");
        for some in lacking.chunks(MAX_REPORT) {
            if let Err(error) = self.ledger.cells(some).await {
                return unwell(&error);
            }
        }
    }

    /// What was known of a key does not hold for another in its place.
    async fn follow(&self, state: &State, before: Secrets) -> Secrets {
        let now = secrets(state);
        let replaced = now
            .iter()
            .filter(|(name, secret)| before.get(*name).is_some_and(|before| before != *secret));
        let clears: Vec<Clear> = {
            let board = self.lock();
            replaced.flat_map(|(name, _)| board.cells.enabling(name, false)).collect()
        };
        if !clears.is_empty() {
            tracing::info!(?clears, "keys were replaced and begin anew");
            self.take(clears.into_iter().map(Change::Clear).collect()).await;
        }
        now
    }

    fn announce(&self, version: u64) {
        self.version.send_if_modified(|known| {
            let news = *known < version;
            if news {
                *known = version;
            }
            news
        });
    }

    fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        BEGINNING_MS.saturating_add(passed)
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The secret of each credential, as it is stored.
type Secrets = HashMap<String, Option<SecretSource>>;

fn secrets(state: &State) -> Secrets {
    let of = |wire: &sluicegate_proto::resource::v1::Resource| match &wire.spec {
        Some(Spec::Credential(spec)) => Some((spec.name.clone(), spec.secret.clone())),
        _ => None,
    };
    state.resources.values().filter_map(|stored| of(&stored.wire)).collect()
}

fn known(state: &State, kind: Kind, name: &str) -> Result<(), CoreError> {
    let reference = ResourceRef::new(kind, name);
    if state.resources.contains_key(&reference) { Ok(()) } else { Err(state.not_found(&reference)) }
}

fn change_key(change: &Change) -> &sluicegate_protocol::pool::CellKey {
    match change {
        Change::Merge(cell) => &cell.key,
        Change::Clear(clear) => &clear.key,
    }
}

/// What a data plane saw, in the order in which it is to be taken over.
fn changes(request: pb::ReportRequest) -> Result<Vec<Change>, CoreError> {
    let mut found = Violations::default();
    let mut changes = Vec::new();
    if request.cells.len() + request.clears.len() > MAX_REPORT {
        let violation = Violation::new(Path::root().field("cells"), "are too many");
        found.0.push(violation.hint(format!("at most {MAX_REPORT} are taken at once")));
        return found.or(changes).map_err(CoreError::Invalid);
    }
    let at = |field: &str, index| Path::root().field(field).index(index);
    for (index, wire) in request.cells.into_iter().enumerate() {
        match Cell::try_from(wire) {
            // What operators say does not come from data planes.
            Ok(cell) if cell.key.operator => {}
            Ok(cell) => changes.push(Change::Merge(cell)),
            Err(fault) => {
                let violation = Violation::new(at("cells", index), fault.to_string());
                found.0.push(violation.hint("this build takes no such cell"));
            }
        }
    }
    for (index, wire) in request.clears.into_iter().enumerate() {
        match Clear::try_from(wire) {
            Ok(clear) => changes.push(Change::Clear(clear)),
            Err(fault) => {
                let violation = Violation::new(at("clears", index), fault.to_string());
                found.0.push(violation.hint("this build takes no such cell"));
            }
        }
    }
    found.or(changes).map_err(CoreError::Invalid)
}

fn unwell(error: &StoreError) {
    match error {
        // Its health says so already, once.
        StoreError::Unavailable { .. } => {
            tracing::debug!(%error, "provider keys are kept in memory")
        }
        _ => tracing::warn!(%error, "provider keys are kept in memory"),
    }
}
