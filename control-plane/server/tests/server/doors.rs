//! Who comes in where: tokens, health, reflection, HTTP.

use sluicegate_proto::{admin::v1 as pb, quota::v1::LeaseRequest, usage::v1::UsageBatch};
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::fixture::{ADMIN, NODE, Served, apply, tenant};

#[tokio::test]
async fn only_the_admin_token_opens_the_admin_api() {
    let served = Served::new().await;
    for (token, text) in [
        (None, "the call needs the admin token"),
        (Some("wrong"), "the token is not the admin token"),
        (Some(NODE), "the token is not the admin token"),
        (Some(""), "the authorization header is not 'Bearer TOKEN'"),
    ] {
        let mut admin = served.admin_with(token).await;
        let status = admin.list(pb::ListRequest::default()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
        assert!(status.message().contains(text), "{token:?}: {}", status.message());
    }
}

/// Limits and usage are for data planes, as policy is: administrators have no business there.
#[tokio::test]
async fn only_the_node_token_opens_limits_and_usage() {
    let served = Served::new().await;
    for token in [None, Some("wrong"), Some(ADMIN), Some("")] {
        let lease = served.quota(token).await.lease(LeaseRequest::default()).await.unwrap_err();
        let report = served.usage(token).await.report(UsageBatch::default()).await.unwrap_err();
        let codes = (lease.code(), report.code());
        assert_eq!(codes, (Code::Unauthenticated, Code::Unauthenticated), "{token:?}");
    }
    let mut admin = served.admin_with(Some(NODE)).await;
    let limits = admin.limit_status(pb::LimitStatusRequest::default()).await.unwrap_err();
    let usage = admin.query_usage(pb::QueryUsageRequest::default()).await.unwrap_err();
    assert_eq!((limits.code(), usage.code()), (Code::Unauthenticated, Code::Unauthenticated));
}

#[tokio::test]
async fn health_is_open() {
    let served = Served::new().await;
    let mut health = HealthClient::new(served.channel().await);
    for service in [
        "",
        "sluicegate.admin.v1.Admin",
        "sluicegate.policy.v1.PolicyStream",
        "sluicegate.quota.v1.Quota",
        "sluicegate.usage.v1.Usage",
        "sluicegate.pool.v1.Pool",
    ] {
        let request = HealthCheckRequest { service: service.into() };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status().as_str_name(), "SERVING", "{service}");
    }
}

#[tokio::test]
async fn reflection_is_open() {
    let served = Served::new().await;
    let mut client = ServerReflectionClient::new(served.channel().await);
    let ask =
        |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("sluicegate.admin.v1.Admin".into())),
    ];
    let mut answers =
        client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
    let mut next = async || answers.next().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = next().await else { panic!() };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in [
        "sluicegate.admin.v1.Admin",
        "sluicegate.policy.v1.PolicyStream",
        "sluicegate.quota.v1.Quota",
        "sluicegate.usage.v1.Usage",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{names:?} lacks {name}");
    }
    assert!(matches!(next().await, MessageResponse::FileDescriptorResponse(_)));
}

#[tokio::test]
async fn pages() {
    let served = Served::new().await;
    let revision = apply(&mut served.admin().await, vec![tenant("t")]).await.at.unwrap().revision;
    assert_eq!(served.page("/healthz").await, ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    let (status, body) = served.page("/readyz").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["status"], &body["store"], &body["revision"], &body["broken"]),
        (&"ready".into(), &"available".into(), &revision.into(), &serde_json::json!({}))
    );
    assert_eq!((&body["ledger"], &body["ledger_error"]), (&"available".into(), &().into()));
    let (_, metrics) = served.page("/metrics").await;
    for line in [
        "sluicegate_control_changes_total{outcome=\"changed\"} 1".to_owned(),
        format!("sluicegate_control_head_revision {revision}"),
        "sluicegate_control_resources 1".to_owned(),
        "sluicegate_control_store_up 1".to_owned(),
        "sluicegate_control_data_planes 0".to_owned(),
        "sluicegate_control_ledger_up 1".to_owned(),
        "sluicegate_control_ledger_recovering 0".to_owned(),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{metrics}\n  lacks: {line}");
    }
}
