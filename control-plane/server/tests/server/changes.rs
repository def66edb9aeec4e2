use sluicegate_model::secret::KeyHash;
use sluicegate_proto::{
    admin::v1 as pb,
    resource::v1::{self as resource, resource::Spec},
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::fixture::{Served, apply, model, provider, put, reference, tenant};

const URL: &str = "http://127.0.0.1:9/v1";

#[tokio::test]
async fn faults_come_as_fields() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let request = pb::ApplyRequest {
        changes: vec![put(provider("p", "ftp://x")), pb::Change::default()],
        wait: Some(pb::WaitFor { fraction: 2.0, timeout_ms: 0 }),
        ..Default::default()
    };
    let status = admin.apply(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let fields = |status: &tonic::Status| {
        let details = status.get_details_bad_request().unwrap();
        details.field_violations.into_iter().map(|found| found.field).collect::<Vec<_>>()
    };
    assert_eq!(fields(&status), ["wait.fraction", "changes[1]"]);

    let changes = vec![put(provider("p", "ftp://x")), put(model("m", "p"))];
    let request = pb::ApplyRequest { changes, ..Default::default() };
    let status = admin.apply(request).await.unwrap_err();
    assert_eq!(fields(&status), ["provider/p: base_url"]);
    let details = status.get_details_bad_request().unwrap();
    assert!(details.field_violations[0].description.contains("; "), "it has a hint: {details:?}");
}

#[tokio::test]
async fn versions_that_moved_are_named() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let version = apply(&mut admin, vec![tenant("t")]).await.at.unwrap().revision;
    let change = pb::Change { expect_version: Some(version + 5), ..put(provider("p", URL)) };
    let request = pb::ApplyRequest { changes: vec![change], ..Default::default() };
    let status = admin.apply(request).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let found = status.get_details_precondition_failure().unwrap().violations.remove(0);
    assert_eq!(found.subject, "provider/p");
    assert_eq!(
        found.description,
        format!("expected version {}, but it does not exist", version + 5)
    );
}

#[tokio::test]
async fn deletes_and_rollbacks() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let first = apply(&mut admin, vec![provider("p", URL), model("m", "p")]).await.at.unwrap();

    let delete =
        |refs: Vec<resource::ResourceRef>| pb::DeleteRequest { refs, ..Default::default() };
    let status = admin.delete(delete(vec![reference("provider", "p")])).await.unwrap_err();
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields[0].field, "provider/p");
    assert!(fields[0].description.contains("still used by model/m"), "{fields:?}");
    let status = admin.delete(delete(vec![reference("tenant", "t")])).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let status = admin.delete(delete(vec![])).await.unwrap_err();
    assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, "refs");

    let both = vec![reference("provider", "p"), reference("model", "m")];
    let reply = admin.delete(delete(both)).await.unwrap().into_inner();
    assert_eq!(reply.differences.len(), 2);

    let rollback = |to_revision| pb::RollbackRequest { to_revision, ..Default::default() };
    let reply = admin.rollback(rollback(first.revision)).await.unwrap().into_inner();
    assert_eq!(reply.differences.len(), 2);
    let listed = admin.list(pb::ListRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.resources.len(), 2);
    let status = admin.rollback(rollback(9_999)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert_eq!(status.get_details_error_info().unwrap().reason, "REVISION_AHEAD");
}

#[tokio::test]
async fn a_dry_run_and_a_repetition() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let request = |dry_run| pb::ApplyRequest {
        changes: vec![put(tenant("t"))],
        dry_run,
        idempotency_key: "once".into(),
        ..Default::default()
    };
    let dry = admin.apply(request(true)).await.unwrap().into_inner();
    assert_eq!((dry.differences.len(), dry.repeated_call), (1, false));
    let first = admin.apply(request(false)).await.unwrap().into_inner();
    let again = admin.apply(request(false)).await.unwrap().into_inner();
    assert!(!first.repeated_call && again.repeated_call);
    assert_eq!((first.at, first.differences), (again.at, again.differences));
    let other = pb::ApplyRequest { changes: vec![put(tenant("u"))], ..request(false) };
    let status = admin.apply(other).await.unwrap_err();
    assert_eq!(status.get_details_error_info().unwrap().reason, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn a_made_key_shows_once() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let request = || pb::CreateApiKeyRequest {
        api_key: Some(resource::ApiKey { name: "k".into(), ..Default::default() }),
        wait: None,
    };
    let made = admin.create_api_key(request()).await.unwrap().into_inner();
    assert!(made.key.starts_with("sk-sg-"));
    assert!(!format!("{:?}", made.applied).contains(&made.key));
    let got = admin.get(pb::GetRequest { r#ref: Some(reference("api_key", "k")) }).await;
    let Some(Spec::ApiKey(spec)) =
        got.unwrap().into_inner().resource.unwrap().resource.unwrap().spec
    else {
        panic!()
    };
    assert_eq!(spec.hash, KeyHash::of(&made.key).to_string());

    let again = admin.create_api_key(request()).await.unwrap_err();
    assert_eq!(again.code(), Code::FailedPrecondition);
    let mut own = request();
    own.api_key.as_mut().unwrap().hash = spec.hash;
    let status = admin.create_api_key(own).await.unwrap_err();
    assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, "api_key.hash");
}

/// Details travel in a header, which must not grow without bound.
#[tokio::test]
async fn hundreds_of_faults_reach_the_caller() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let bad = |n| put(provider(&format!("p{n}"), "ftp://x"));
    let request = pb::ApplyRequest { changes: (0..400).map(bad).collect(), ..Default::default() };
    let status = admin.apply(request).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "the request has 400 faults")
    );
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert!(fields.len() > 20 && fields.last().unwrap().description.starts_with("and "));
}
