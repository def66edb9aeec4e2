//! Health and metrics over HTTP.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Map, Value, json};
use sluicegate_control_core::{Breakers, Deferred, Degrade, Desired, Fleet, Pool, Publication};
use sluicegate_store::ledger::{Ledger, LedgerHealth};
use sluicegate_telemetry::metric;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::{LedgerLevel, Levels, Metrics};

/// What the answers are about.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) desired: Arc<Desired>,
    pub(crate) publication: Arc<Publication>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) degrade: Arc<Degrade>,
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) deferred: Option<Arc<Deferred>>,
    pub(crate) replica_id: String,
    pub(crate) stopping: CancellationToken,
}

/// The paths.
pub(crate) fn router(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health)
}

/// Answers on the health port while a control plane is not there yet: alive, but not ready. Ends,
/// and lets go of the listener, when `started` fires.
///
/// # Errors
/// When the listener fails.
pub async fn serve_starting(
    listener: TcpListener,
    started: CancellationToken,
) -> std::io::Result<()> {
    let starting = async || {
        let body = json!({ "status": "starting", "store": "waiting for the first answer" });
        let kind = [(CONTENT_TYPE, "application/json")];
        (StatusCode::SERVICE_UNAVAILABLE, kind, format!("{body}\n"))
    };
    let app = Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(starting));
    axum::serve(listener, app).with_graceful_shutdown(started.cancelled_owned()).await
}

/// Ready from the first state on, also while the store or the ledger is away: streams and reads are
/// served, and data planes know what to do without a ledger.
async fn ready(State(health): State<Health>) -> Response {
    let state = health.desired.snapshot();
    let stopping = health.stopping.is_cancelled();
    let outage = health.desired.outage();
    let ledger = health.ledger.health().borrow().clone();
    let (ledger, ledger_error) = match ledger {
        LedgerHealth::Ready => ("available", None),
        LedgerHealth::Recovering => ("recovering", None),
        LedgerHealth::Away(reason) => ("unavailable", Some(reason)),
    };
    let body = json!({
        "status": match ledger {
            _ if stopping => "stopping",
            "available" => "ready",
            _ => "degraded",
        },
        "store": if outage.is_some() { "unavailable" } else { "available" },
        "store_error": outage,
        "ledger": ledger,
        "ledger_error": ledger_error,
        "revision": state.revision,
        "resources": state.resources.len(),
        "broken": broken(&health),
        "replica_id": health.replica_id,
    });
    let code = if stopping { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (code, [(CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

async fn metrics(State(health): State<Health>) -> Response {
    let state = health.desired.snapshot();
    let text = health.metrics.render(Levels {
        head: state.revision,
        resources: state.resources.len(),
        broken: broken(&health).len(),
        data_planes: health.fleet.connected(),
        store_up: health.desired.outage().is_none(),
        ledger: match &*health.ledger.health().borrow() {
            LedgerHealth::Ready => LedgerLevel::Ready,
            LedgerHealth::Recovering => LedgerLevel::Recovering,
            LedgerHealth::Away(_) => LedgerLevel::Away,
        },
        credentials: health.pool.states(),
        degradations: degradations(&health.degrade),
        targets: health.breakers.states(),
        deferred: health.deferred.as_ref().map(|all| all.counts()).unwrap_or_default(),
    });
    ([(CONTENT_TYPE, metric::CONTENT_TYPE)], text).into_response()
}

/// Each degradation with its level.
fn degradations(degrade: &Degrade) -> Vec<(String, u32)> {
    let levels = degrade.subscribe().borrow().clone();
    levels.iter().map(|(name, one)| (name.clone(), one.level.number())).collect()
}

/// Resources that are stored but not served, with the reason.
fn broken(health: &Health) -> Map<String, Value> {
    let state = health.desired.snapshot();
    let stored = state.broken.iter().map(|(name, broken)| (name.clone(), json!(broken.reason)));
    let unpublished = health.publication.broken().into_iter();
    stored.chain(unpublished.map(|(of, reason)| (of.to_string(), json!(reason)))).collect()
}
