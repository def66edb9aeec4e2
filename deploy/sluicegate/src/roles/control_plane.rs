//! The control plane's role.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use sluicegate_control_server::{Config, ControlPlane, Tls, serve_starting};
use sluicegate_model::secret::Secret;
use sluicegate_store::{
    ConfigStore,
    deferred::Deferred,
    embedded::EmbeddedStore,
    etcd::{Credentials, EtcdConfig, EtcdStore, EtcdTls},
    ledger::Ledger,
};
use sluicegate_telemetry::task;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{ControlPlaneArgs, EtcdArgs, ledger, prober::Calls, signal, state};
use crate::output;

/// Runs a control plane until a signal ends it.
///
/// # Errors
/// When it cannot start, or a part of it ends by itself.
pub(crate) async fn control_plane(args: ControlPlaneArgs) -> anyhow::Result<()> {
    let stop = signal::stop()?;
    let grpc = state::listen("control plane", "--listen", args.listen).await?;
    let http = state::listen("control plane health", "--http-listen", args.http_listen).await?;
    let tls = tls(&args)?;
    state::directory(&args.state_dir)?;
    let seal_file = args.seal_key_file.clone().unwrap_or_else(|| args.state_dir.join("seal.key"));
    // An embedded store takes the folder; before that nothing in it may be touched.
    let Stores { store, ledger, deferred } = stores(&args).await?;
    let seal_key = state::seal_key(&seal_file)?;
    let location = format!("{} ({})", store.location(), store.kind());
    let ledger_location = format!("{} ({})", ledger.location(), ledger.kind());

    let scheme = if tls.is_some() { "https" } else { "http" };
    output::line(&format!(
        "sluicegate control plane {} '{}'",
        env!("CARGO_PKG_VERSION"),
        args.replica_id
    ));
    output::line(&format!("  admin, policy  {scheme}://{}", grpc.local_addr()?));
    output::line(&format!(
        "  health         http://{}  (/healthz /readyz /metrics)",
        http.local_addr()?
    ));
    output::line(&format!("  state          {location}"));
    output::line(&format!("  ledger         {ledger_location}"));
    output::line(&format!("  seal key       {}", seal_file.display()));
    if tls.is_none() && !args.listen.ip().is_loopback() {
        tracing::warn!(
            listen = %args.listen,
            "no TLS on an address that others reach: provider keys travel in the clear; give --tls-cert and --tls-key"
        );
    }

    let config = Config {
        admin_token: state::token_from_env("SLUICEGATE_ADMIN_TOKEN"),
        node_token: state::token_from_env("SLUICEGATE_NODE_TOKEN"),
        reset_admin_token: args.reset_admin_token,
        reset_seal_key: args.reset_seal_key,
        prober: Some(Arc::new(Calls)),
        deferred: Some(deferred),
        // The embedded store is a file of this replica's anyway.
        remember: (!args.etcd.etcd.is_empty()).then(|| args.state_dir.join("config.remembered")),
        webhook_allow: args.webhooks.webhook_allow.clone(),
        ..Config::new(store, ledger, seal_key, args.replica_id.clone())
    };
    let starting = CancellationToken::new();
    let waiting = {
        // The same socket, answered by another server until the control plane is there.
        let twin = http.into_std()?;
        let listener = TcpListener::from_std(twin.try_clone()?)?;
        let answering = serve_starting(listener, starting.clone());
        (TcpListener::from_std(twin)?, task::spawn("starting", answering))
    };
    let started = tokio::select! {
        started = ControlPlane::start(config) => started,
        () = stop.cancelled() => return Ok(()),
    };
    let (plane, issued) = started.context("the control plane cannot start")?;
    starting.cancel();
    let (http, answered) = waiting;
    answered.await??;
    if let Some(token) = &issued.admin {
        print_once("admin token", "SLUICEGATE_ADMIN_TOKEN", token);
    }
    if let Some(token) = &issued.node {
        print_once("node token, for data planes", "SLUICEGATE_NODE_TOKEN", token);
    }
    output::line("ready");
    plane.serve(grpc, http, tls, stop.cancelled_owned()).await?;
    Ok(())
}

fn print_once(what: &str, variable: &str, token: &Secret) {
    output::line(&format!("  {what} (shown this once; only its hash is kept):"));
    output::line(&format!("    export {variable}={}", token.expose()));
}

/// Where everything is kept.
struct Stores {
    store: Arc<dyn ConfigStore>,
    ledger: Arc<dyn Ledger>,
    deferred: Arc<dyn Deferred>,
}

/// The stores that the options name.
///
/// # Errors
/// When options make no sense, the embedded file is in use, or the Redis is not fit.
async fn stores(args: &ControlPlaneArgs) -> anyhow::Result<Stores> {
    let redis = match ledger::shared(&args.redis).await? {
        Some(ledger) => ledger::shared_deferred(&args.redis).await?.map(|jobs| (ledger, jobs)),
        None => None,
    };
    if args.etcd.etcd.is_empty() {
        let file = embedded(&args.state_dir)?;
        let (ledger, deferred) = match redis {
            Some(redis) => redis,
            None => (ledger::of(&file.store)?, ledger::deferred_of(&file.store)?),
        };
        return Ok(Stores { store: file.store, ledger, deferred });
    }
    let (ledger, deferred) = match redis {
        Some(redis) => redis,
        None => {
            let what = "limits and usage are counted in a file of this replica alone: with a second \
                 replica each would grant every limit in full; give --redis";
            tracing::warn!(state_dir = %args.state_dir.display(), "{what}");
            output::line(&format!("  notice: {what}"));
            let file = embedded(&args.state_dir)?;
            (ledger::of(&file.store)?, ledger::deferred_of(&file.store)?)
        }
    };
    Ok(Stores { store: etcd(&args.etcd).await?, ledger, deferred })
}

/// The etcd that the options name.
///
/// # Errors
/// When the options make no sense.
async fn etcd(etcd: &EtcdArgs) -> anyhow::Result<Arc<dyn ConfigStore>> {
    let mut config = EtcdConfig::new(etcd.etcd.iter().cloned());
    config.prefix.clone_from(&etcd.etcd_prefix);
    if let Some(user) = &etcd.etcd_user {
        let password = state::token_from_env("SLUICEGATE_ETCD_PASSWORD")
            .context("--etcd-user needs SLUICEGATE_ETCD_PASSWORD")?;
        config.credentials =
            Some(Credentials { user: user.clone(), password: password.expose().to_owned() });
    }
    if etcd.etcd_ca_file.is_some() || etcd.etcd_cert.is_some() {
        config.tls = Some(EtcdTls {
            ca: etcd.etcd_ca_file.clone(),
            identity: etcd.etcd_cert.clone().zip(etcd.etcd_key.clone()),
        });
    }
    Ok(Arc::new(EtcdStore::connect(config).await?))
}

/// The file that holds what a single machine has to keep.
pub(super) struct Embedded {
    pub(super) store: Arc<EmbeddedStore>,
    /// The file was damaged and the store begins anew.
    pub(super) damaged: bool,
}

/// The embedded store, with everything worth saying about it said.
///
/// # Errors
/// When the file is in use or the folder cannot be used.
pub(super) fn embedded(state_dir: &Path) -> anyhow::Result<Embedded> {
    let (store, notices) = EmbeddedStore::open(state_dir)?;
    let damaged = !notices.is_empty();
    for notice in notices {
        output::line(&format!("  notice: {notice}"));
        tracing::warn!("{notice}");
    }
    Ok(Embedded { store: Arc::new(store), damaged })
}

fn tls(args: &ControlPlaneArgs) -> anyhow::Result<Option<Tls>> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok(Some(Tls { certificate: read(certificate)?, key: read(key)? }))
}
