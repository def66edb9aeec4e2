//! Both planes in one process, joined over gRPC on loopback.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use sluicegate_control_server::{Config, ControlPlane};
use sluicegate_model::{
    Kind,
    document::{Document, References},
    secret::{Secret, new_caller_key, random_token},
};
use sluicegate_proto::{
    admin::v1::{ApplyRequest, Change, ListRequest, change},
    resource::v1::{ApiKey, Resource, SecretSource, resource::Spec, secret_source::Source},
};
use sluicegate_proxy::sync::cache::Cache;
use sluicegate_store::embedded::EmbeddedStore;
use sluicegate_telemetry::task;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Request;

use super::{
    RunArgs,
    config_file::ConfigFile,
    control_plane,
    data_plane::{DataPlane, Setup},
    ledger,
    owned::Owned,
    prober::Calls,
    quickstart::{self, Quickstart},
    signal, state,
};
use crate::{
    client::{Client, Token},
    demo_upstream, output,
};

/// Longest wait for the data plane to take its first policy.
const READY: Duration = Duration::from_secs(10);
/// Deadline of each call to the control plane next door.
const CALL: Duration = Duration::from_secs(30);

/// Runs both planes in one process until a signal ends it.
///
/// # Errors
/// When it cannot start, or a part of it ends by itself.
pub(crate) async fn run(args: RunArgs) -> anyhow::Result<()> {
    let stop = signal::stop()?;
    let data = DataPlane::bind(&args.traffic).await?;
    let grpc = state::listen("admin", "--admin-listen", args.admin_listen).await?;
    let http = state::listen("control plane health", "--http-listen", args.http_listen).await?;
    let admin_address = loopback(&grpc)?;
    state::directory(&args.state_dir)?;

    // A file that makes no sense ends the start before anything is served.
    if let Some(file) = &args.config {
        crate::files::Files::load(std::slice::from_ref(file), References::Open)
            .map_err(|failure| anyhow::anyhow!("{failure}"))?;
    }
    let addresses = Addresses {
        traffic: data.traffic_address(),
        ops: data.ops_address(),
        admin: grpc.local_addr()?.to_string(),
        health: http.local_addr()?.to_string(),
    };
    let cache = args.state_dir.join("data-plane");
    // Opening the store takes the folder: before that nothing in it may be touched, since another
    // process may be using it.
    let file = control_plane::embedded(&args.state_dir)?;
    let damaged = file.damaged;
    let tokens = Tokens::prepare(&args.state_dir)?;
    let plane = start_control_plane(&args, file.store, &tokens).await?;
    let published = plane.publication().subscribe();
    let control_stop = CancellationToken::new();
    let control = {
        let stopped = control_stop.clone().cancelled_owned();
        task::spawn("control-plane", async move { plane.serve(grpc, http, None, stopped).await })
    };

    let server = format!("http://{admin_address}");
    let token = Token { secret: tokens.admin.clone(), from: "the admin token".into() };
    let mut client = Client::connect_as(&server, None, token, CALL)
        .await
        .map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let configured = if damaged && args.config.is_none() && Cache::is_there(&cache) {
        // The data plane still has what the store lost; a demo must not take its place.
        Configured::default()
    } else {
        configure(&args, &mut client, &stop).await?
    };

    // What was applied must be what the data plane is told first: ready means configured.
    let mut published = published;
    let told = published.wait_for(|head| head.revision >= configured.revision);
    tokio::time::timeout(READY, told)
        .await
        .context("the configuration was applied but not published in time")??;

    let setup = Setup {
        control_planes: vec![server],
        ca: None,
        token: tokens.node.clone(),
        node_id: "local".into(),
        advertise: None,
        zone: None,
        state_dir: cache,
    };
    let mut running = data.start(&args.traffic, setup, stop.clone())?;
    if !running.ready(READY).await {
        anyhow::bail!(
            "the data plane took no policy within {} s; see the log above",
            READY.as_secs()
        );
    }
    announce(&args, &addresses, &configured, damaged);
    if let Some(file) = configured.file {
        task::spawn("config-file", file.follow(client, stop.clone()));
    }

    // Traffic drains first: a data plane must be able to finish under the policy it has.
    let mut control = control;
    tokio::select! {
        () = running.ended() => {}
        ended = &mut control => {
            ended.context("the control plane ended by a panic")??;
            anyhow::bail!("the control plane ended by itself");
        }
    }
    control_stop.cancel();
    control.await.context("the control plane ended by a panic")??;
    Ok(())
}

/// Where the process listens.
struct Addresses {
    traffic: String,
    ops: String,
    admin: String,
    health: String,
}

/// The tokens of one machine. They are kept beside the state, so that the commands find them; the
/// store has only their hashes.
struct Tokens {
    admin: Secret,
    node: Secret,
}

impl Tokens {
    fn prepare(state_dir: &Path) -> anyhow::Result<Self> {
        let admin_file = state_dir.join("admin.token");
        let admin = match state::token_from_env("SLUICEGATE_ADMIN_TOKEN") {
            Some(token) => {
                state::write_private(&admin_file, token.expose())?;
                token
            }
            None => read_or_make(&admin_file, "sg-admin-")?,
        };
        let node = match state::token_from_env("SLUICEGATE_NODE_TOKEN") {
            Some(token) => token,
            None => read_or_make(&state_dir.join("node.token"), "sg-node-")?,
        };
        Ok(Self { admin, node })
    }
}

fn read_or_make(path: &Path, prefix: &str) -> anyhow::Result<Secret> {
    if let Some(token) = state::read_token(path)? {
        return Ok(token);
    }
    let token = random_token(prefix).context("the operating system gives no random numbers")?;
    state::write_private(path, token.expose())?;
    Ok(token)
}

async fn start_control_plane(
    args: &RunArgs,
    store: Arc<EmbeddedStore>,
    tokens: &Tokens,
) -> anyhow::Result<ControlPlane> {
    let seal_key = state::seal_key(&args.state_dir.join("seal.key"))?;
    let ledger = ledger::of(&store)?;
    let deferred = ledger::deferred_of(&store)?;
    let config = Config {
        admin_token: Some(tokens.admin.clone()),
        node_token: Some(tokens.node.clone()),
        reset_seal_key: args.reset_seal_key,
        prober: Some(Arc::new(Calls)),
        deferred: Some(deferred),
        webhook_allow: args.webhooks.webhook_allow.clone(),
        ..Config::new(store, ledger, seal_key, "local")
    };
    let (plane, _) = ControlPlane::start(config).await.context("the control plane cannot start")?;
    Ok(plane)
}

/// What is served, and how it is shown.
#[derive(Default)]
struct Configured {
    /// Revision that the data plane must have.
    revision: u64,
    /// Followed from now on.
    file: Option<ConfigFile>,
    /// Set when nothing was configured.
    quickstart: Option<(Quickstart, Secret)>,
}

/// Applies the file; without one, and with nothing configured before, what can be served at once.
async fn configure(
    args: &RunArgs,
    client: &mut Client,
    stop: &CancellationToken,
) -> anyhow::Result<Configured> {
    if let Some(path) = &args.config {
        let mut file = ConfigFile::new(path, &args.state_dir);
        let reply = file.apply(client).await.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        let revision = crate::change::revision(&reply);
        return Ok(Configured { revision, file: Some(file), quickstart: None });
    }
    if configured_by_hand(client).await? {
        return Ok(Configured::default());
    }
    let demo = TcpListener::bind("127.0.0.1:0").await.context("the demo provider")?;
    let demo_address = demo.local_addr().context("the demo provider")?;
    let start = quickstart::quickstart(
        |name| state::token_from_env(name).is_some(),
        &demo_address.to_string(),
    );
    if start.model == quickstart::DEMO {
        let stopped = stop.clone().cancelled_owned();
        task::spawn("demo-upstream", async move {
            if let Err(error) = demo_upstream::serve(demo, stopped).await {
                tracing::error!(%error, "the demo provider ended");
            }
        });
    }
    let key_file = args.state_dir.join("quickstart.key");
    let key = match state::read_token(&key_file)? {
        Some(key) => key,
        None => {
            let key = new_caller_key().context("the operating system gives no random numbers")?;
            state::write_private(&key_file, key.expose())?;
            key
        }
    };
    // A file that is given later takes the place of all this.
    let mut owned = Owned::load(&args.state_dir);
    let revision = apply_quickstart(client, &start, &key, &mut owned).await?;
    Ok(Configured { revision, file: None, quickstart: Some((start, key)) })
}

/// Is there a provider that an earlier start without configuration did not make?
async fn configured_by_hand(client: &mut Client) -> anyhow::Result<bool> {
    let request = ListRequest {
        kinds: vec![Kind::Provider.singular().to_owned()],
        page_size: 5000,
        ..ListRequest::default()
    };
    let reply = client
        .call(request, Duration::ZERO, async |admin, request: Request<ListRequest>| {
            admin.list(request).await
        })
        .await
        .map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let ours = |name: &str| quickstart::names().any(|known| known == name);
    Ok(reply
        .resources
        .iter()
        .filter_map(|entry| entry.resource.as_ref())
        .any(|resource| !ours(sluicegate_model::resource::name_of(resource))))
}

async fn apply_quickstart(
    client: &mut Client,
    start: &Quickstart,
    key: &Secret,
    owned: &mut Owned,
) -> anyhow::Result<u64> {
    let document = Document::parse("quickstart", &start.yaml, References::Closed)?;
    let mut resources: Vec<_> =
        document.resources.into_iter().map(|declared| declared.resource).collect();
    resources.push(Resource {
        spec: Some(Spec::ApiKey(ApiKey {
            name: quickstart::KEY.to_owned(),
            tenant: "default".to_owned(),
            secret: Some(SecretSource {
                source: Some(Source::Value(key.expose().to_owned())),
                ..SecretSource::default()
            }),
            ..ApiKey::default()
        })),
    });
    let named = resources
        .iter()
        .map(sluicegate_model::resource::reference_of)
        .collect::<Result<_, _>>()
        .map_err(|violation| anyhow::anyhow!("{violation}"))?;
    let puts: Vec<_> = resources
        .into_iter()
        .map(|resource| Change {
            change: Some(change::Change::Put(resource)),
            expect_version: None,
        })
        .collect();
    let request = |changes| ApplyRequest {
        changes,
        idempotency_key: uuid::Uuid::new_v4().to_string(),
        comment: "start without configuration".to_owned(),
        ..ApplyRequest::default()
    };
    // A provider whose key is no longer in the environment goes, and so does the demo, unless
    // something that was applied by hand needs it.
    let dropped = owned.dropped(&named);
    let all = puts.iter().cloned().chain(dropped.iter().cloned()).collect();
    let reply = match client.apply(request(all), Duration::ZERO).await {
        Ok(reply) => reply,
        Err(status) if dropped.is_empty() => {
            anyhow::bail!("{}", client.failure(&status));
        }
        Err(_) => client
            .apply(request(puts), Duration::ZERO)
            .await
            .map_err(|status| anyhow::anyhow!("{}", client.failure(&status)))?,
    };
    owned.remember(named);
    Ok(crate::change::revision(&reply))
}

fn announce(args: &RunArgs, addresses: &Addresses, configured: &Configured, damaged: bool) {
    let Addresses { traffic, ops, .. } = addresses;
    output::line(&format!("sluicegate {} runs both planes", env!("CARGO_PKG_VERSION")));
    output::line(&format!("  traffic     http://{traffic}/v1"));
    output::line(&format!("  operations  http://{ops}  (/healthz /readyz /metrics)"));
    output::line(&format!("  admin       http://{}  (gRPC)", addresses.admin));
    output::line(&format!(
        "  health      http://{}  (/healthz /readyz /metrics)",
        addresses.health
    ));
    output::line(&format!(
        "  state       {}  (store, tokens, last good policy)",
        args.state_dir.display()
    ));
    match (&configured.quickstart, &args.config) {
        (Some((start, key)), _) => {
            output::line(&format!("  serving     {}", start.served));
            output::line("\nTry it:");
            output::line(&format!(
                "  curl http://{traffic}/v1/chat/completions -H 'Authorization: Bearer {}' \\\n    -H 'Content-Type: application/json' \\\n    -d '{{\"model\":\"{}\",\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'",
                key.expose(),
                start.model
            ));
            output::line(
                "\nNext: 'sluicegate init' writes a file; 'sluicegate run --config sluicegate.yaml' serves it.",
            );
        }
        (None, Some(file)) => {
            output::line(&format!(
                "  configured  {}  (watched: each valid save is applied)",
                file.display()
            ));
            try_it_with_own_key(traffic);
        }
        (None, None) => {
            output::line("  configured  by 'sluicegate apply'");
            if damaged {
                output::line(
                    "  notice      the store was damaged; the last good policy is served until something is applied",
                );
            }
            try_it_with_own_key(traffic);
        }
    }
    output::line("ready");
}

fn try_it_with_own_key(traffic: &str) {
    output::line(&format!(
        "\nTry it ('sluicegate key create NAME' makes a key):\n  curl http://{traffic}/v1/models -H \"Authorization: Bearer $KEY\""
    ));
}

/// Where the process itself reaches a listener.
fn loopback(listener: &TcpListener) -> anyhow::Result<SocketAddr> {
    let mut address = listener.local_addr()?;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(address)
}
