//! Listening, and stopping in order.

use std::{future::Future, io, sync::Arc, time::Duration};

use sluicegate_control_core::Role;
use sluicegate_proto::{
    FILE_DESCRIPTOR_SET, admin::v1::admin_server::AdminServer,
    deferred::v1::deferred_server::DeferredServer, degrade::v1::degrade_server::DegradeServer,
    health::v1::health_server::HealthServer, policy::v1::policy_stream_server::PolicyStreamServer,
    pool::v1::pool_server::PoolServer, quota::v1::quota_server::QuotaServer,
    usage::v1::usage_server::UsageServer,
};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{
    codec::CompressionEncoding,
    server::NamedService,
    transport::{
        Identity, Server, ServerTlsConfig,
        server::{Router, TcpIncoming},
    },
};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    admin::AdminService,
    auth::Guarded,
    deferred::DeferredService,
    degrade::DegradeService,
    health::HealthService,
    http::{self, Health},
    policy::PolicyService,
    pool::PoolService,
    quota::QuotaService,
    start::ControlPlane,
    usage::UsageService,
};

/// A connection that says nothing is asked this often whether it lives, and given up after this long.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest message that is taken, in bytes.
const MAX_MESSAGE: usize = 4 << 20;
/// How long stopping may take.
const STOP: Duration = Duration::from_secs(5);
/// How long the store may take to hear that this replica leads no more.
const RESIGN: Duration = Duration::from_secs(1);

type Admin = Guarded<AdminServer<AdminService>>;
type Policy = Guarded<PolicyStreamServer<PolicyService>>;
type Quota = Guarded<QuotaServer<QuotaService>>;
type Pool = Guarded<PoolServer<PoolService>>;
type Targets = Guarded<HealthServer<HealthService>>;
type Deferred = Guarded<DeferredServer<DeferredService>>;
type Degrade = Guarded<DegradeServer<DegradeService>>;
type Usage = Guarded<UsageServer<UsageService>>;

/// What health is told of, by name; the empty one is all of them.
const SERVICES: [&str; 9] = [
    "",
    Admin::NAME,
    Policy::NAME,
    Quota::NAME,
    Usage::NAME,
    Pool::NAME,
    Targets::NAME,
    Deferred::NAME,
    Degrade::NAME,
];

/// Certificate chain and private key, both in PEM.
#[derive(Clone)]
pub struct Tls {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(***)")
    }
}

/// Why serving ended by itself, or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the certificate or its key cannot be used")]
    Tls(#[source] tonic::transport::Error),
    #[error("the gRPC server failed")]
    Grpc(#[source] tonic::transport::Error),
    #[error("the HTTP server failed")]
    Http(#[source] io::Error),
    #[error("the reflection service cannot read the wire definitions: {0}")]
    Reflection(String),
}

impl ControlPlane {
    /// Serves the admin API, the policy stream, limits, usage and deferred requests on `grpc`, health and metrics on `http`, until
    /// `shutdown` ends. Then data planes are asked to leave and calls may end, for at most five
    /// seconds.
    ///
    /// # Errors
    /// [`ServeError`]; none when it was told to stop.
    pub async fn serve(
        &self,
        grpc: TcpListener,
        http: TcpListener,
        tls: Option<Tls>,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let stopping = CancellationToken::new();
        let (health, router) = self.router(tls, &stopping).await?;
        let signal = stopping.clone();
        let _stopper = AbortOnDrop(task::spawn("control-plane-stop", async move {
            shutdown.await;
            for service in SERVICES {
                health.set_service_status(service, ServingStatus::NotServing).await;
            }
            signal.cancel();
        }));

        let incoming = TcpIncoming::from(grpc).with_nodelay(Some(true));
        let stop = stopping.clone().cancelled_owned();
        let grpc = async { router.serve_with_incoming_shutdown(incoming, stop).await };
        let app = http::router(Health {
            desired: self.desired.clone(),
            publication: self.publication.clone(),
            fleet: self.fleet.clone(),
            ledger: self.ledger.clone(),
            metrics: self.metrics.clone(),
            pool: self.pool.clone(),
            degrade: self.degrade.clone(),
            breakers: self.breakers.clone(),
            deferred: self.deferred.clone(),
            replica_id: self.policy.replica_id.clone(),
            stopping: stopping.clone(),
        });
        let stop = stopping.clone().cancelled_owned();
        let http = async { axum::serve(http, app).with_graceful_shutdown(stop).await };

        let both = async {
            tokio::try_join!(async { grpc.await.map_err(ServeError::Grpc) }, async {
                http.await.map_err(ServeError::Http)
            },)
        };
        let ended = tokio::select! {
            ended = both => ended.map(|((), ())| ()),
            () = overdue(&stopping) => {
                tracing::warn!("calls did not end within {STOP:?} and were cut off");
                Ok(())
            }
        };
        // Another replica need not wait until the leader's key ends by itself.
        drop(timeout(RESIGN, self.election.resign()).await);
        ended
    }

    async fn router(
        &self,
        tls: Option<Tls>,
        stopping: &CancellationToken,
    ) -> Result<(HealthReporter, Router), ServeError> {
        let admin = AdminServer::new(AdminService {
            desired: self.desired.clone(),
            applier: self.applier.clone(),
            history: self.history.clone(),
            fleet: self.fleet.clone(),
            standing: self.standing.clone(),
            totals: self.totals.clone(),
            pool: self.pool.clone(),
            degrade: self.degrade.clone(),
            deferred: self.deferred.clone(),
            breakers: self.breakers.clone(),
            probes: self.probes.clone(),
            metrics: self.metrics.clone(),
            replica_id: self.policy.replica_id.clone(),
            stopping: stopping.clone(),
        });
        let policy = PolicyStreamServer::new(PolicyService {
            publication: self.publication.clone(),
            desired: self.desired.clone(),
            fleet: self.fleet.clone(),
            setback: self.setback.clone(),
            metrics: self.metrics.clone(),
            config: self.policy.clone(),
            arrivals: Arc::default(),
            stopping: stopping.clone(),
        });
        let quota = QuotaServer::new(QuotaService {
            quota: self.quota.clone(),
            metrics: self.metrics.clone(),
        });
        let usage = UsageServer::new(UsageService {
            usage: self.usage.clone(),
            metrics: self.metrics.clone(),
        });
        let pool =
            PoolServer::new(PoolService { pool: self.pool.clone(), stopping: stopping.clone() });
        let degrade = DegradeServer::new(DegradeService {
            degrade: self.degrade.clone(),
            stopping: stopping.clone(),
        });
        let targets =
            HealthServer::new(HealthService::new(self.breakers.clone(), stopping.clone()));
        let deferred =
            DeferredService { deferred: self.deferred.clone(), stopping: stopping.clone() };
        let most = deferred.max_message(MAX_MESSAGE);
        let deferred = DeferredServer::new(deferred).max_decoding_message_size(most);
        let admin = admin
            .max_decoding_message_size(MAX_MESSAGE)
            .accept_compressed(CompressionEncoding::Zstd);
        let policy = policy
            .max_decoding_message_size(MAX_MESSAGE)
            .accept_compressed(CompressionEncoding::Zstd)
            .send_compressed(CompressionEncoding::Zstd);
        let quota = quota.max_decoding_message_size(MAX_MESSAGE);
        let pool = pool.max_decoding_message_size(MAX_MESSAGE);
        let degrade = degrade.max_decoding_message_size(MAX_MESSAGE);
        let targets = targets.max_decoding_message_size(MAX_MESSAGE);
        let usage = usage
            .max_decoding_message_size(MAX_MESSAGE)
            .accept_compressed(CompressionEncoding::Zstd);

        let (reporter, health) = tonic_health::server::health_reporter();
        for service in SERVICES {
            reporter.set_service_status(service, ServingStatus::Serving).await;
        }
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let unreadable =
            |error: tonic_reflection::server::Error| ServeError::Reflection(error.to_string());

        let mut server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
        if let Some(tls) = tls {
            let identity = Identity::from_pem(tls.certificate, tls.key);
            let config = ServerTlsConfig::new().identity(identity);
            server = server.tls_config(config).map_err(ServeError::Tls)?;
        }
        let router = server
            .add_service(Guarded::new(admin, self.auth.clone(), Role::Admin))
            .add_service(Guarded::new(policy, self.auth.clone(), Role::Node))
            .add_service(Guarded::new(quota, self.auth.clone(), Role::Node))
            .add_service(Guarded::new(usage, self.auth.clone(), Role::Node))
            .add_service(Guarded::new(pool, self.auth.clone(), Role::Node))
            .add_service(Guarded::new(degrade, self.auth.clone(), Role::Node))
            .add_service(Guarded::new(targets, self.auth.clone(), Role::Node))
            .add_service(Guarded::new(deferred, self.auth.clone(), Role::Node))
            .add_service(health)
            .add_service(reflection().build_v1().map_err(unreadable)?)
            .add_service(reflection().build_v1alpha().map_err(unreadable)?);
        Ok((reporter, router))
    }
}

/// Ends when stopping takes too long.
async fn overdue(stopping: &CancellationToken) {
    stopping.cancelled().await;
    drop(timeout(STOP, std::future::pending::<()>()).await);
}
