//! The long-running roles: their options, and starting them.

mod config_file;
mod control_plane;
mod data_plane;
mod ledger;
mod owned;
mod prober;
mod quickstart;
mod run;
mod signal;
mod state;

use std::{convert::Infallible, net::SocketAddr, path::PathBuf, str::FromStr};

use clap::Args;
use sluicegate_model::address::Network;
use sluicegate_telemetry::log::LogFormat;

pub(crate) use control_plane::control_plane;
pub(crate) use data_plane::data_plane;
pub(crate) use run::run;

/// Logs of a process.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogArgs {
    /// Form of the process log on standard error: text or json
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// What is logged: a level, or target=level directives separated by commas
    #[arg(long, env = "SLUICEGATE_LOG", value_name = "FILTER", default_value = "info")]
    pub(crate) log: String,
}

/// Where access records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessLog {
    Stdout,
    None,
    /// Appended to.
    File(PathBuf),
}

impl FromStr for AccessLog {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "stdout" => Self::Stdout,
            "none" => Self::None,
            file => Self::File(file.into()),
        })
    }
}

/// How a data plane serves.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Traffic")]
pub(crate) struct TrafficArgs {
    /// Address for callers
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// Address of /healthz, /readyz and /metrics of the data plane
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub(crate) ops_listen: SocketAddr,
    /// How long running requests may finish after a stop signal, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub(crate) drain_ms: u64,
    /// Largest request body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 67_108_864)]
    pub(crate) max_body_bytes: usize,
    /// Largest size of the usage journal in bytes; when it is full, because nobody has counted what it
    /// holds, new requests are refused
    #[arg(long, value_name = "BYTES", default_value_t = 1_073_741_824)]
    pub(crate) usage_journal_bytes: u64,
    /// Memory that the process may use, in bytes: when most of it is used, less urgent requests are
    /// turned away. Default: its control group's limit, or the machine's memory
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_memory_bytes: Option<u64>,
    /// Where access records go, one JSON line a request: stdout, none, or a file
    #[arg(long, value_name = "WHERE", default_value = "stdout")]
    pub(crate) access_log: AccessLog,
}

/// Options of `sluicegate run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = concat!("\
Examples:
  sluicegate init && sluicegate run --config sluicegate.yaml
  sluicegate run --listen 0.0.0.0:8080            configured with 'sluicegate apply'

Environment:
  SLUICEGATE_ADMIN_TOKEN  admin token; without it one is made at the first start and left in
                          STATE_DIR/admin.token, where the other commands find it

", signal::signals_help!()))]
pub(crate) struct RunArgs {
    /// Configuration file: applied at start and again whenever it changes
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for the configuration store, the last good policy and the tokens
    #[arg(long, env = "SLUICEGATE_STATE_DIR", value_name = "DIR", default_value = ".sluicegate")]
    pub(crate) state_dir: PathBuf,
    /// Address of the admin API (gRPC)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9180")]
    pub(crate) admin_listen: SocketAddr,
    /// Address of /healthz, /readyz and /metrics of the control plane
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9181")]
    pub(crate) http_listen: SocketAddr,
    /// Take the seal key in --state-dir though the stored secrets were sealed with another, which is
    /// lost; the provider keys must be applied again
    #[arg(long)]
    pub(crate) reset_seal_key: bool,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    #[command(flatten)]
    pub(crate) webhooks: WebhookArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// Options of `sluicegate control-plane`.
#[derive(Debug, Clone, Args)]
#[command(after_help = concat!("\
Examples:
  sluicegate control-plane                        one replica, with a store of its own
  sluicegate control-plane --etcd http://etcd-0:2379,http://etcd-1:2379 \\
      --redis redis://redis:6379/0 --listen 0.0.0.0:9180 \\
      --tls-cert cp.pem --tls-key cp.key --seal-key-file seal.key

Environment:
  SLUICEGATE_ADMIN_TOKEN    token of administrators
  SLUICEGATE_NODE_TOKEN     token of data planes
                            (without them they are made at the first start and printed once)
  SLUICEGATE_ETCD_PASSWORD  password of --etcd-user
  SLUICEGATE_REDIS_PASSWORD password of the Redis, or of the user in its URL

", signal::signals_help!()))]
pub(crate) struct ControlPlaneArgs {
    /// Address of the admin API, of the policy stream, of limits and usage (gRPC)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9180")]
    pub(crate) listen: SocketAddr,
    /// Address of /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9181")]
    pub(crate) http_listen: SocketAddr,
    /// Folder for the embedded store and ledger, and for the replica's own files
    #[arg(long, value_name = "DIR", default_value = ".sluicegate-control")]
    pub(crate) state_dir: PathBuf,
    /// Name of this replica; default: the host's name
    #[arg(long, value_name = "NAME", default_value_t = host_name(), hide_default_value = true)]
    pub(crate) replica_id: String,
    /// Certificate chain in PEM; with it the gRPC address speaks TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the key that secrets are stored under; replicas on one etcd must share it
    #[arg(long, value_name = "FILE")]
    pub(crate) seal_key_file: Option<PathBuf>,
    /// Make a new admin token and print it
    #[arg(long)]
    pub(crate) reset_admin_token: bool,
    /// Take the seal key though the stored secrets were sealed with another, which is lost; the
    /// provider keys must be applied again
    #[arg(long)]
    pub(crate) reset_seal_key: bool,
    #[command(flatten)]
    pub(crate) etcd: EtcdArgs,
    #[command(flatten)]
    pub(crate) redis: RedisArgs,
    #[command(flatten)]
    pub(crate) webhooks: WebhookArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// Who is told what came of deferred requests.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub(crate) struct WebhookArgs {
    /// Networks whose servers callers may have told of their deferred requests, also without TLS.
    /// Without it that is done with https at public addresses alone
    #[arg(long, value_name = "NETWORK,...", value_delimiter = ',')]
    pub(crate) webhook_allow: Vec<Network>,
}

/// The shared ledger.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Redis")]
pub(crate) struct RedisArgs {
    /// Redis that replicas share for limits, usage and deferred requests: redis://HOST:PORT/DB, or rediss:// for TLS; of
    /// several, which must be one Redis and its replicas, the one that takes writes is used. Without
    /// it they are kept in a file in --state-dir
    #[arg(long, env = "SLUICEGATE_REDIS", value_name = "URL,...", value_delimiter = ',')]
    pub(crate) redis: Vec<String>,
    /// Where the keys begin
    #[arg(long, value_name = "PREFIX", default_value = "sluicegate:", requires = "redis")]
    pub(crate) redis_prefix: String,
    /// Certificate authority in PEM, for rediss
    #[arg(long, value_name = "FILE", requires = "redis")]
    pub(crate) redis_ca_file: Option<PathBuf>,
    /// Client certificate in PEM
    #[arg(long, value_name = "FILE", requires = "redis_key")]
    pub(crate) redis_cert: Option<PathBuf>,
    /// Private key of the client certificate in PEM
    #[arg(long, value_name = "FILE", requires = "redis_cert")]
    pub(crate) redis_key: Option<PathBuf>,
}

/// The shared store.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "etcd")]
pub(crate) struct EtcdArgs {
    /// Members of the etcd that replicas share; without them the store is a file in --state-dir
    #[arg(long, env = "SLUICEGATE_ETCD", value_name = "URL,...", value_delimiter = ',')]
    pub(crate) etcd: Vec<String>,
    /// Where the keys begin
    #[arg(long, value_name = "PREFIX", default_value = "/sluicegate/", requires = "etcd")]
    pub(crate) etcd_prefix: String,
    /// User; the password is SLUICEGATE_ETCD_PASSWORD
    #[arg(long, value_name = "USER", requires = "etcd")]
    pub(crate) etcd_user: Option<String>,
    /// Certificate authority in PEM
    #[arg(long, value_name = "FILE", requires = "etcd")]
    pub(crate) etcd_ca_file: Option<PathBuf>,
    /// Client certificate in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// Private key of the client certificate in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub(crate) etcd_key: Option<PathBuf>,
}

/// Options of `sluicegate data-plane`.
#[derive(Debug, Clone, Args)]
#[command(after_help = concat!("\
Examples:
  sluicegate data-plane --control-plane https://cp.example.com:9180 --ca-file ca.pem \\
      --listen 0.0.0.0:8080 --node-token-file /run/secrets/node-token

Environment:
  SLUICEGATE_NODE_TOKEN  token that the control plane knows data planes by

", signal::signals_help!()))]
pub(crate) struct DataPlaneArgs {
    /// Control plane replicas, any of which will do
    #[arg(
        long,
        env = "SLUICEGATE_CONTROL_PLANE",
        value_name = "URL,...",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) control_plane: Vec<String>,
    /// PEM file with the certificate authority of https control planes
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// File with the node token, read when SLUICEGATE_NODE_TOKEN is not set
    #[arg(long, value_name = "FILE")]
    pub(crate) node_token_file: Option<PathBuf>,
    /// Name of this data plane; default: the host's name
    #[arg(long, env = "SLUICEGATE_NODE_ID", value_name = "NAME", default_value_t = host_name(),
          hide_default_value = true)]
    pub(crate) node_id: String,
    /// Where it is, such as a zone of a region: what fails in one zone alone is not left alone by all
    #[arg(long, env = "SLUICEGATE_ZONE", value_name = "NAME")]
    pub(crate) zone: Option<String>,
    /// Address that callers reach it at, as 'sluicegate nodes' shows it; default: --listen
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) advertise: Option<String>,
    /// Folder for the last good policy
    #[arg(long, value_name = "DIR", default_value = ".sluicegate-data")]
    pub(crate) state_dir: PathBuf,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// The host's name, or `localhost` when it does not say.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
