//! The data plane's role.

use std::{io::Write, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use sluicegate_journal::{Journal, Options};
use sluicegate_model::secret::Secret;
use sluicegate_proto::policy::v1::NodeIdentity;
use sluicegate_proxy::{
    Gateway,
    deferred::{Deferred, Runner},
    estimate::Learned,
    levels::{Levels, LevelsClient, Teller, TimedOut},
    media::Fetcher,
    metrics::Metrics,
    ops::{self, Ops},
    policy::Current,
    pool::{Pool, PoolClient},
    pressure::Watchman,
    quota::{Quota, QuotaClient},
    relay::Streams,
    report::Reporter,
    server,
    sync::{self, PolicySync, SyncConfig, cache::Cache},
    target::{self, Exchange, Guard, Outbox, TargetClient, Targets},
    upstream::Clients,
    usage::{self, Reporting, UsageLog},
};
use sluicegate_telemetry::{
    record::RecordSink,
    task::{self, AbortOnDrop},
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use super::{AccessLog, DataPlaneArgs, TrafficArgs, signal, state};
use crate::output;

/// How long a data plane that stops may take to report its last usage; the rest is sent after the
/// next start.
const LAST_REPORT: Duration = Duration::from_secs(2);

/// Runs a data plane until a signal ends it.
///
/// # Errors
/// When it cannot start.
pub(crate) async fn data_plane(args: DataPlaneArgs) -> anyhow::Result<()> {
    let token = match state::token_from_env("SLUICEGATE_NODE_TOKEN") {
        Some(token) => token,
        None => match &args.node_token_file {
            Some(path) => state::read_token(path)?
                .with_context(|| format!("there is no token in {}", path.display()))?,
            None => anyhow::bail!(
                "no node token: set SLUICEGATE_NODE_TOKEN or give --node-token-file; the control plane printed it at its first start"
            ),
        },
    };
    let ca = match &args.ca_file {
        Some(path) => {
            Some(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)
        }
        None => None,
    };
    let stop = signal::stop()?;
    let plane = DataPlane::bind(&args.traffic).await?;
    let setup = Setup {
        control_planes: args.control_plane.clone(),
        ca,
        token,
        node_id: args.node_id.clone(),
        advertise: args.advertise.clone(),
        zone: args.zone.clone(),
        state_dir: args.state_dir.clone(),
    };
    output::line(&format!(
        "sluicegate data plane {} '{}'",
        env!("CARGO_PKG_VERSION"),
        args.node_id
    ));
    output::line(&format!("  traffic        http://{}/v1", plane.traffic_address()));
    output::line(&format!(
        "  operations     http://{}  (/healthz /readyz /metrics)",
        plane.ops_address()
    ));
    output::line(&format!("  control plane  {}", args.control_plane.join(", ")));
    output::line(&format!("  state          {}", args.state_dir.display()));
    let running = plane.start(&args.traffic, setup, stop)?;
    running.ended().await;
    Ok(())
}

/// What a data plane needs besides its traffic options.
pub(super) struct Setup {
    pub(super) control_planes: Vec<String>,
    pub(super) ca: Option<Vec<u8>>,
    pub(super) token: Secret,
    pub(super) node_id: String,
    pub(super) advertise: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) state_dir: std::path::PathBuf,
}

/// A data plane whose ports are its own.
pub(super) struct DataPlane {
    traffic: TcpListener,
    ops: TcpListener,
}

impl DataPlane {
    /// Takes the ports.
    ///
    /// # Errors
    /// When one is in use.
    pub(super) async fn bind(args: &TrafficArgs) -> anyhow::Result<Self> {
        Ok(Self {
            traffic: state::listen("traffic", "--listen", args.listen).await?,
            ops: state::listen("operations", "--ops-listen", args.ops_listen).await?,
        })
    }

    pub(super) fn traffic_address(&self) -> String {
        address(&self.traffic)
    }

    pub(super) fn ops_address(&self) -> String {
        address(&self.ops)
    }

    /// Starts to serve.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub(super) fn start(
        self,
        args: &TrafficArgs,
        setup: Setup,
        stop: CancellationToken,
    ) -> anyhow::Result<Running> {
        let endpoints = setup
            .control_planes
            .iter()
            .map(|address| sync::endpoint(address, setup.ca.as_deref()))
            .collect::<Result<Vec<_>, _>>()?;
        let metrics = Arc::new(Metrics::new());
        let (sink, writer) = record_sink(&args.access_log)?;
        let cache = match Cache::open(&setup.state_dir) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::error!(%error, directory = %setup.state_dir.display(), "no saved policy: the state folder cannot be used");
                None
            }
        };
        let config = SyncConfig {
            endpoints,
            token: setup.token,
            node: NodeIdentity {
                node_id: setup.node_id,
                incarnation: u64::from_be_bytes(first_eight(uuid::Uuid::new_v4().into_bytes())),
                build: env!("CARGO_PKG_VERSION").to_owned(),
                address: setup.advertise.unwrap_or_else(|| self.traffic_address()),
                schema_min: 1,
                schema_max: sluicegate_proxy::sync::SCHEMA,
                capabilities: Vec::new(),
            },
        };
        let current = Arc::new(Current::default());
        let clients = Clients::with_web_roots();
        let (endpoints, token) = (config.endpoints.clone(), config.token.clone());
        let (node_id, incarnation) = (config.node.node_id.clone(), config.node.incarnation);
        let outbox = Outbox::new(target::Log::new(metrics.clone()));
        let targets = Targets::new(outbox.clone());
        let (sync, notices) = PolicySync::start(
            config,
            cache,
            current.clone(),
            clients,
            targets.clone(),
            metrics.clone(),
        );
        for notice in notices {
            tracing::warn!("{notice}");
        }
        let status = sync.status();
        let folder = setup.state_dir.join("usage");
        let mut options = Options::new(folder, node_id.clone(), incarnation);
        options.limit_bytes = args.usage_journal_bytes;
        let (journal, recovered) = Journal::open(options, usage::recovered_price)?;
        let log = UsageLog::new(journal, metrics.clone());
        let quota = Quota::new(metrics.clone(), log.clone());
        let exchange = QuotaClient::start(
            quota.clone(),
            current.clone(),
            &endpoints,
            &token,
            node_id.clone(),
            incarnation,
        );
        let pool = Pool::new(metrics.clone(), node_id.clone());
        let pooling = PoolClient::start(&pool, &endpoints, &token);
        let (levels, timed_out) = (Arc::new(Levels::default()), Arc::new(TimedOut::default()));
        let teller = Teller {
            levels: levels.clone(),
            timed_out: timed_out.clone(),
            current: current.clone(),
            metrics: metrics.clone(),
            node_id: node_id.clone(),
            incarnation,
        };
        let degrading = LevelsClient::start(teller, &endpoints, &token);
        let deferred = Deferred::new(&endpoints, &token, node_id.clone(), metrics.clone());
        let guard = Arc::new(Guard::default());
        let about = Exchange {
            targets,
            outbox,
            guard: guard.clone(),
            current: current.clone(),
            pool: pool.clone(),
            metrics: metrics.clone(),
            node_id: node_id.clone(),
            zone: setup.zone,
        };
        let healing = TargetClient::start(about, &endpoints, &token);
        let reporting = Reporting::start(&log, recovered, &endpoints, &token, node_id);
        let gateway = Arc::new(Gateway {
            fetcher: Fetcher::default(),
            current,
            quota: quota.clone(),
            pool,
            guard,
            watchman: Watchman::new(metrics.clone(), args.max_memory_bytes),
            learned: Learned::default(),
            usage: log.clone(),
            reporter: Reporter { sink, metrics: metrics.clone(), timed_out },
            deferred,
            max_body: args.max_body_bytes,
            cut: CancellationToken::new(),
            levels,
            streams: Streams::default(),
        });
        let watched = gateway.clone();
        let watching = AbortOnDrop(task::spawn("streams", async move {
            watched.streams.look_after(&watched.usage).await;
        }));
        let guarded = gateway.clone();
        let guarding = AbortOnDrop(task::spawn("pressure", async move {
            guarded.watchman.watch().await;
        }));
        let ops_stop = CancellationToken::new();
        let ops =
            Ops { metrics, status: status.clone(), quota: quota.clone(), draining: stop.clone() };
        task::spawn("ops", ops::serve(self.ops, ops, ops_stop.clone()));
        let drain = Duration::from_millis(args.drain_ms);
        let runner = Runner::start(gateway.clone(), stop.clone(), drain);
        let serving = task::spawn("traffic", async move {
            let told = stop.clone();
            let stopping = async {
                told.cancelled().await;
                sync.stopping();
            };
            tokio::join!(
                server::serve(self.traffic, gateway, drain, stop),
                runner.ended(),
                stopping
            );
            // What was used last is written down, and sent as far as there is time.
            tokio::join!(quota.hand_back(LAST_REPORT), log.flush(LAST_REPORT));
            drop((sync, watching, guarding, exchange, pooling, degrading, healing, reporting));
            ops_stop.cancel();
        });
        Ok(Running { status, serving, writer })
    }
}

/// A data plane that serves.
pub(super) struct Running {
    status: watch::Receiver<sync::Status>,
    serving: tokio::task::JoinHandle<()>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Resolves once traffic can be sent here; `false` when it took longer than `patience`.
    pub(super) async fn ready(&mut self, patience: Duration) -> bool {
        let ready = self.status.wait_for(|status| status.ready());
        matches!(tokio::time::timeout(patience, ready).await, Ok(Ok(_)))
    }

    /// Resolves when everything is drained and every record is written.
    pub(super) async fn ended(self) {
        if self.serving.await.is_err() {
            tracing::error!("the traffic task ended by a panic");
        }
        let Some(writer) = self.writer else { return };
        // Connection tasks that were cut may hold the sink for a moment longer.
        let joined = tokio::task::spawn_blocking(move || writer.join().is_ok());
        if tokio::time::timeout(Duration::from_secs(2), joined).await.is_err() {
            tracing::warn!("the last access records may be missing");
        }
    }
}

type RecordWriter = (Option<RecordSink>, Option<std::thread::JoinHandle<()>>);

fn record_sink(access_log: &AccessLog) -> anyhow::Result<RecordWriter> {
    let out: Box<dyn Write + Send> = match access_log {
        AccessLog::None => return Ok((None, None)),
        AccessLog::Stdout => Box::new(std::io::stdout()),
        AccessLog::File(path) => Box::new(
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .with_context(|| format!("cannot open the access log {}", path.display()))?,
        ),
    };
    let (sink, writer) = RecordSink::start(out);
    Ok((Some(sink), Some(writer)))
}

fn address(listener: &TcpListener) -> String {
    listener.local_addr().map_or_else(|_| "?".to_owned(), |address: SocketAddr| address.to_string())
}

fn first_eight(bytes: [u8; 16]) -> [u8; 8] {
    bytes.first_chunk().copied().unwrap_or_default()
}
