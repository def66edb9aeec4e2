//! Deferred requests over the wire, on the embedded store.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::IntoResponse,
    routing::post,
};
use sluicegate_control_core::deferred::webhook::{Allowed, Endpoint};
use sluicegate_proto::{admin::v1 as admin_pb, deferred::v1 as pb};
use sluicegate_telemetry::task;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep, timeout},
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::fixture::{ADMIN, Deferred, NODE, Served, soon};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn caller(tenant: &str, key: &str) -> Option<pb::Caller> {
    Some(pb::Caller { tenant: tenant.into(), key: key.into() })
}

fn request(queue: &str) -> pb::PutRequest {
    pb::PutRequest {
        caller: caller("t", "k"),
        queue: queue.into(),
        body: "what the caller wrote".into(),
        note: "what the data plane noted".into(),
        ..pb::PutRequest::default()
    }
}

async fn put(deferred: &mut Deferred, request: pb::PutRequest) -> pb::PutReply {
    soon(deferred.put(request)).await.unwrap().into_inner()
}

async fn get(deferred: &mut Deferred, id: &str) -> pb::GetReply {
    let request = pb::GetRequest { caller: caller("t", "k"), id: id.into() };
    soon(deferred.get(request)).await.unwrap().into_inner()
}

fn claim(call: &str, queue: &str, wait_ms: u64) -> pb::ClaimRequest {
    let queues = vec![pb::QueueClaim { queue: queue.into(), most: 5 }];
    pb::ClaimRequest {
        node_id: "n".into(),
        call: call.into(),
        queues,
        wait_ms,
        ..pb::ClaimRequest::default()
    }
}

async fn claimed(deferred: &mut Deferred, call: &str, queue: &str) -> Vec<pb::Claimed> {
    soon(deferred.claim(claim(call, queue, 0))).await.unwrap().into_inner().requests
}

fn answer(body: &str) -> Option<pb::Response> {
    let body = Bytes::from(body.to_owned());
    Some(pb::Response { status: 200, content_type: "application/json".into(), body })
}

async fn finish(deferred: &mut Deferred, id: &str, attempt: u64, body: &str) -> pb::FinishStatus {
    let request = pb::FinishRequest { id: id.into(), attempt, response: answer(body) };
    let reply = soon(deferred.finish(request)).await.unwrap().into_inner();
    assert!(reply.durable);
    reply.status()
}

#[tokio::test]
async fn b2_a_request_is_kept_run_and_fetched_by_its_caller_alone() {
    let served = Served::new().await;
    let mut deferred = served.deferred(Some(NODE)).await;
    let keyed = pb::PutRequest { idempotency_key: "i".into(), ..request("p/m") };
    let stored = put(&mut deferred, keyed.clone()).await;
    assert!(stored.durable && !stored.existing && stored.id.starts_with("def_"), "{stored:?}");
    let again = put(&mut deferred, keyed.clone()).await;
    assert!(again.existing && again.id == stored.id, "{again:?}");
    let others = pb::PutRequest { caller: caller("t", "other"), ..keyed };
    assert_ne!(put(&mut deferred, others).await.id, stored.id);
    let id = stored.id;
    let waiting = get(&mut deferred, &id).await;
    assert_eq!((waiting.state(), waiting.ahead), (pb::State::Waiting, 0));
    assert!(waiting.left_ms > 86_000_000 && waiting.left_ms <= 86_400_000, "{waiting:?}");

    let run = claimed(&mut deferred, "1", "p/m").await;
    assert_eq!(run.len(), 2);
    assert_eq!((&*run[0].id, run[0].attempt), (&*id, 1));
    assert_eq!(run[0].caller, caller("t", "k"));
    assert_eq!((&*run[0].body, &*run[0].note), (&*request("").body, &*request("").note));
    let extend = pb::ExtendRequest { id: id.clone(), attempt: 1, lease_ms: 0 };
    assert!(soon(deferred.extend(extend.clone())).await.unwrap().into_inner().held);
    let release = pb::ReleaseRequest { id: id.clone(), attempt: 1, after_ms: 0 };
    assert!(soon(deferred.release(release)).await.unwrap().into_inner().released);
    assert!(!soon(deferred.extend(extend)).await.unwrap().into_inner().held);
    assert_eq!(claimed(&mut deferred, "2", "p/m").await[0].attempt, 2);
    assert_eq!(finish(&mut deferred, &id, 2, "{}").await, pb::FinishStatus::Recorded);
    assert_eq!(finish(&mut deferred, &id, 1, "late").await, pb::FinishStatus::Already);
    assert_eq!(finish(&mut deferred, "def_x", 1, "{}").await, pb::FinishStatus::Unknown);
    let done = get(&mut deferred, &id).await;
    assert_eq!((done.state(), done.response), (pb::State::Done, answer("{}")));
    assert_eq!(done.note, request("").note);

    for wrong in [caller("t", "other"), caller("other", "k"), caller("", "t/k")] {
        let asked = pb::GetRequest { caller: wrong.clone(), id: id.clone() };
        assert_eq!(soon(deferred.get(asked)).await.unwrap_err().code(), Code::NotFound);
        let asked = pb::CancelRequest { caller: wrong, id: id.clone() };
        let status = soon(deferred.cancel(asked)).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.get_details_resource_info().unwrap().resource_name, id);
    }
    let asked = pb::CancelRequest { caller: caller("t", "k"), id: id.clone() };
    assert!(!soon(deferred.cancel(asked)).await.unwrap().into_inner().cancelled, "it had ended");
    let other = put(&mut deferred, request("p/m")).await.id;
    let asked = pb::CancelRequest { caller: caller("t", "k"), id: other.clone() };
    assert!(soon(deferred.cancel(asked)).await.unwrap().into_inner().cancelled);
    assert_eq!(get(&mut deferred, &other).await.state(), pb::State::Cancelled);
}

#[tokio::test]
async fn b2_nothing_of_a_request_is_readable_on_disk() {
    let served = Served::new().await;
    let mut deferred = served.deferred(Some(NODE)).await;
    let body = "the canary of the caller ".repeat(20);
    let webhook =
        Some(pb::Webhook { url: "https://canary.example.com/".into(), secret: SECRET.into() });
    let secretive = pb::PutRequest {
        body: body.into(),
        note: "canary".into(),
        webhook,
        ..request("visible/m")
    };
    let id = put(&mut deferred, secretive).await.id;
    assert_eq!(claimed(&mut deferred, "1", "visible/m").await.len(), 1);
    let also = put(&mut deferred, request("visible/m")).await.id;
    finish(&mut deferred, &also, 1, "{\"canary\":1}").await;
    assert_ne!(id, also);
    let file = served.file();
    let has = |text: &[u8]| file.windows(text.len()).any(|window| window == text);
    assert!(has(b"visible/m"), "the file is read");
    assert!(!has(b"canary") && !has(&SECRET.as_bytes()[6..]));
}

#[tokio::test]
async fn b2_a_claim_waits_for_what_comes() {
    let mut served = Served::new().await;
    let mut deferred = served.deferred(Some(NODE)).await;
    let mut other = served.deferred(Some(NODE)).await;
    let waiting = task::spawn("claim", async move { other.claim(claim("1", "q", 20_000)).await });
    put(&mut deferred, request("elsewhere")).await;
    sleep(Duration::from_millis(50)).await;
    let at = Instant::now();
    let id = put(&mut deferred, request("q")).await.id;
    let reply = soon(waiting).await.unwrap().unwrap().into_inner();
    assert_eq!(reply.requests[0].id, id);
    assert!(at.elapsed() < Duration::from_millis(900), "at once, after {:?}", at.elapsed());

    let at = Instant::now();
    let reply = soon(deferred.claim(claim("2", "q", 150))).await.unwrap().into_inner();
    assert_eq!(reply.requests, []);
    assert!(at.elapsed() >= Duration::from_millis(150));

    let mut other = served.deferred(Some(NODE)).await;
    let waiting = task::spawn("claim", async move { other.claim(claim("3", "q", 20_000)).await });
    sleep(Duration::from_millis(50)).await;
    drop(served.stop());
    let status = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn only_nodes_defer_and_faults_name_the_field() {
    let served = Served::new().await;
    for token in [None, Some(ADMIN)] {
        let status = served.deferred(token).await.put(request("q")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    let mut deferred = served.deferred(Some(NODE)).await;
    let webhook = |url: &str, secret: &str| {
        let webhook = pb::Webhook { url: url.into(), secret: secret.into() };
        pb::PutRequest { webhook: Some(webhook), ..request("q") }
    };
    for (bad, field) in [
        (pb::PutRequest { caller: None, ..request("q") }, "caller.key"),
        (pb::PutRequest { caller: caller("\n", "k"), ..request("q") }, "caller.tenant"),
        (request(""), "queue"),
        (pb::PutRequest { idempotency_key: "x".repeat(257), ..request("q") }, "idempotency_key"),
        (pb::PutRequest { note: vec![0; 8_193].into(), ..request("q") }, "note"),
        (pb::PutRequest { expires_ms: u64::MAX, ..request("q") }, "expires_ms"),
        (pb::PutRequest { keep_ms: u64::MAX, ..request("q") }, "keep_ms"),
        (webhook("https://10.0.0.1/", SECRET), "webhook.url"),
        (webhook("https://example.com/", "secret"), "webhook.secret"),
    ] {
        let status = soon(deferred.put(bad)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        let details = status.get_details_bad_request().unwrap();
        assert_eq!(details.field_violations[0].field, field);
        assert!(!details.field_violations[0].description.contains(SECRET));
    }
    let huge = pb::PutRequest { body: vec![0; 8 << 20].into(), ..request("q") };
    let status = soon(deferred.put(huge)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.get_details_error_info().unwrap().reason, "DEFERRED_TOO_LARGE");
    for bad in [
        pb::ClaimRequest { call: String::new(), ..claim("1", "q", 0) },
        pb::ClaimRequest { lease_ms: 1, ..claim("1", "q", 0) },
        claim("1", "q", 20_001),
        claim("1", "", 0),
    ] {
        let status = soon(deferred.claim(bad)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    let status = soon(deferred.finish(pb::FinishRequest::default())).await.unwrap_err();
    assert_eq!(
        status.get_details_bad_request().unwrap().field_violations[0].field,
        "response.status"
    );
}

/// What a caller's server was told.
type Told = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A server that first points elsewhere and then takes everything.
async fn server() -> (String, Told) {
    let told = Told::default();
    let hearing = told.clone();
    let hear = async move |headers: HeaderMap, body: Bytes| {
        let mut told = hearing.lock().unwrap();
        told.push((headers, body));
        if told.len() == 1 {
            (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/elsewhere")]).into_response()
        } else {
            StatusCode::NO_CONTENT.into_response()
        }
    };
    let elsewhere = async || -> StatusCode { panic!("a redirect was followed") };
    let app = Router::new().route("/hook", post(hear)).route("/elsewhere", post(elsewhere));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    drop(task::spawn("receiver", async move { axum::serve(listener, app).await.unwrap() }));
    (url, told)
}

#[tokio::test]
async fn b2_a_callers_server_is_told_until_it_takes_it() {
    let served = Served::new().await;
    let mut deferred = served.deferred(Some(NODE)).await;
    let (url, told) = server().await;
    let webhook = pb::Webhook { url, secret: SECRET.into() };
    let hooked = pb::PutRequest { webhook: Some(webhook.clone()), ..request("q") };
    let id = put(&mut deferred, hooked).await.id;
    claimed(&mut deferred, "1", "q").await;
    finish(&mut deferred, &id, 1, r#"{"choices": []}"#).await;
    let both = async {
        while told.lock().unwrap().len() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), both).await.expect("it is told again");
    let told = told.lock().unwrap().clone();
    let allowed = Allowed(vec!["127.0.0.0/8".parse().unwrap()]);
    let endpoint = Endpoint::parse(&webhook, &allowed).unwrap();
    for (headers, body) in &told {
        let header = |name| headers[name].to_str().unwrap();
        assert_eq!(header("webhook-id"), id);
        let timestamp_s: u64 = header("webhook-timestamp").parse().unwrap();
        assert!(sluicegate_telemetry::clock::since_epoch().as_secs() - timestamp_s < 60);
        assert_eq!(header("webhook-signature"), endpoint.sign(&id, timestamp_s, body));
        let json: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!((&json["id"], &json["status"]), (&id.clone().into(), &"done".into()));
        assert!(json["response"]["body"]["choices"].is_array(), "{json}");
    }
    let counted = async {
        loop {
            let (_, metrics) = served.page("/metrics").await;
            if metrics.contains("sluicegate_control_webhooks_total{outcome=\"delivered\"} 1") {
                assert!(
                    metrics.contains("sluicegate_control_webhooks_total{outcome=\"failed\"} 1")
                );
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon(counted).await;
}

#[tokio::test]
async fn b2_queues_are_counted() {
    let served = Served::new().await;
    let mut deferred = served.deferred(Some(NODE)).await;
    for _ in 0..3 {
        put(&mut deferred, request("p/m")).await;
    }
    let line = "sluicegate_deferred_requests{queue=\"p/m\",state=\"waiting\"} 3";
    let counted = async {
        while !served.page("/metrics").await.1.lines().any(|found| found == line) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(15), counted).await.expect("they are counted");
}

#[tokio::test]
async fn b2_operators_see_all_and_nothing_of_what_is_in_them() {
    let served = Served::new().await;
    let mut deferred = served.deferred(Some(NODE)).await;
    let mut admin = served.admin().await;
    let mut ids = BTreeSet::new();
    for n in 0..7 {
        let queue = if n == 0 { "p" } else { "q" };
        ids.insert(put(&mut deferred, request(queue)).await.id);
    }
    let first = claimed(&mut deferred, "1", "p").await.remove(0).id;
    finish(&mut deferred, &first, 1, "the answer").await;

    let mut list = async |request: admin_pb::ListDeferredRequest| {
        let (mut found, mut token) = (BTreeSet::new(), String::new());
        loop {
            let request = admin_pb::ListDeferredRequest {
                page_size: 2,
                page_token: std::mem::take(&mut token),
                ..request.clone()
            };
            let page = soon(admin.list_deferred(request)).await.unwrap().into_inner();
            let text = format!("{page:?}");
            assert!(!text.contains("wrote") && !text.contains("noted"), "{text}");
            found.extend(page.requests.into_iter().map(|one| one.id));
            token = page.next_page_token;
            if token.is_empty() {
                return found;
            }
        }
    };
    assert_eq!(list(admin_pb::ListDeferredRequest::default()).await, ids);
    let of_model = admin_pb::ListDeferredRequest { model: "p".into(), ..Default::default() };
    assert_eq!(list(of_model).await, [first.clone()].into());
    let state = pb::State::Waiting.into();
    let waiting = list(admin_pb::ListDeferredRequest { state, ..Default::default() }).await;
    assert_eq!(waiting.len(), 6);

    let get = admin_pb::GetDeferredRequest { id: first.clone() };
    let found = soon(admin.get_deferred(get)).await.unwrap().into_inner();
    assert_eq!((found.state(), found.status, found.attempt), (pb::State::Done, 200, 1));
    assert_eq!((found.caller, &*found.model), (caller("t", "k"), "p"));
    let last = waiting.last().unwrap().clone();
    for (id, expected) in [(last, true), (first, false)] {
        let cancel = admin_pb::CancelDeferredRequest { id };
        let reply = soon(admin.cancel_deferred(cancel)).await.unwrap().into_inner();
        assert_eq!(reply.cancelled, expected);
    }
    let unknown = admin_pb::GetDeferredRequest { id: "def_0".into() };
    assert_eq!(soon(admin.get_deferred(unknown)).await.unwrap_err().code(), Code::NotFound);
    let bad = admin_pb::ListDeferredRequest { page_token: "?".into(), ..Default::default() };
    assert_eq!(soon(admin.list_deferred(bad)).await.unwrap_err().code(), Code::InvalidArgument);
    let much = admin_pb::ListDeferredRequest { page_size: 501, ..Default::default() };
    assert_eq!(soon(admin.list_deferred(much)).await.unwrap_err().code(), Code::InvalidArgument);
}
