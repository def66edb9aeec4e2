//! What limits cost a request: finding those that are for it, taking from three leases, settling;
//! and sizing a prompt up. A control plane in the same process grants whatever is asked.

use std::{hint::black_box, sync::Arc};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_dialect::{Call, Endpoint};
use sluicegate_journal::{Journal, Options};
use sluicegate_model::{
    Resource, TokenRates,
    document::{Document, References},
    resource::model::{OutputCap, Tokenizer},
    secret::Secret,
};
use sluicegate_proto::quota::v1::{
    LeaseReply, LeaseRequest, LeaseState, LeaseStatus,
    quota_server::{Quota as Service, QuotaServer},
};
use sluicegate_proxy::{
    Policy,
    estimate::{Sizes, Stats},
    metrics::Metrics,
    policy::{
        Current,
        limits::{Limits, Who},
    },
    quota::{Actual, Ask, Quota, QuotaClient},
    usage::UsageLog,
};

const LIMITS: &str = r#"
limits:
  - { name: requests, scope: { key: "*" }, dimension: requests, rate: 1000000000/minute }
  - { name: tokens, scope: { tenant: "*" }, dimension: tokens, rate: 100000000000/minute }
  - { name: units, scope: { user: "*", model: "*" }, dimension: units, rate: 1000000000/minute }
"#;

/// Gives what is wanted.
struct Generous;

#[tonic::async_trait]
impl Service for Generous {
    async fn lease(
        &self,
        request: tonic::Request<LeaseRequest>,
    ) -> Result<tonic::Response<LeaseReply>, tonic::Status> {
        let states = request.into_inner().ops.into_iter().map(|op| LeaseState {
            status: LeaseStatus::Granted.into(),
            granted: op.wanted.max(op.granted),
            ttl_ms: 15_000,
            capacity: 1 << 50,
            holders: 1,
            ..LeaseState::default()
        });
        Ok(tonic::Response::new(LeaseReply { states: states.collect() }))
    }
}

fn policy() -> Policy {
    let document = Document::parse("bench", LIMITS, References::Open).expect("it is valid");
    let parsed: Vec<_> = document
        .resources
        .iter()
        .map(|declared| Resource::parse(&declared.resource).expect("it is valid"))
        .collect();
    let limits = parsed.iter().filter_map(|resource| match resource {
        Resource::Limit(limit) => Some(limit),
        _ => None,
    });
    let mut policy = Policy::default();
    policy.limits = Limits::new(limits, &[]);
    policy
}

fn limits(bench: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let policy = policy();
    let metrics = Arc::new(Metrics::new());
    let options = Options::new(folder.path(), "bench", 1);
    let (journal, _) = Journal::open(options, |_, _| Default::default()).expect("a journal");
    let usage = UsageLog::new(journal, metrics.clone());
    let quota = Quota::new(metrics, usage);
    let tenants = vec!["team".to_owned()];
    let who = Who { tenants: &tenants, key: "k", user: "u", model: "m", ..Who::default() };
    let body = r#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Tell me of rivers, locks and sluice gates in three sentences."}]}"#;
    let call = Call::parse(Endpoint::Chat, Bytes::from_static(body.as_bytes())).expect("a call");
    let stats = Stats::default();
    let cap = OutputCap { tokens: 4096, send: false };
    let sizes = |precise| Sizes::of(&call, "gpt-4o", Tokenizer::Auto, cap, &stats, precise);

    let _client = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let server = tonic::transport::Server::builder().add_service(QuotaServer::new(Generous));
        sluicegate_telemetry::task::spawn("server", server.serve_with_incoming(incoming));
        let endpoint = sluicegate_proxy::sync::endpoint(&address.to_string(), None).expect("valid");
        let token = Secret::new("t".to_owned());
        let current = Arc::new(Current::default());
        QuotaClient::start(quota.clone(), current, &[endpoint], &token, "bench".into(), 1)
    });
    let request = || async {
        let mut sizes = sizes(false);
        let mut ask = Ask {
            who,
            sizes: &mut sizes,
            units: TokenRates::units(None, 1.0),
            prices: TokenRates::prices(None),
            patient: true,
            deadline: None,
        };
        let mut taken = quota.reserve(&policy, &mut ask, false).await.expect("admitted");
        taken.settle(&Actual { requests: 1, tokens: 50, micro_units: 50, cost_nano: 0 });
    };
    // The first requests wait for their grants.
    runtime.block_on(async {
        for _ in 0..2_000 {
            request().await;
        }
    });
    bench.bench_function("three leased limits, taken and settled", |bencher| {
        bencher.iter(|| runtime.block_on(request()));
    });
    bench.bench_function("find the limits of a request", |bencher| {
        bencher.iter(|| black_box(policy.limits.matching(&who, false)).len());
    });
    bench.bench_function("size up 150 bytes by size", |bencher| {
        bencher.iter(|| black_box(sizes(false)));
    });
    bench.bench_function("size up 150 bytes with the tokeniser", |bencher| {
        bencher.iter(|| black_box(sizes(true)));
    });
}

criterion_group!(benches, limits);
criterion_main!(benches);
