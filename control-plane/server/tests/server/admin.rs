use sluicegate_proto::{
    admin::v1 as pb,
    resource::v1::{self as resource, resource::Spec, secret_source::Source},
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::fixture::{Served, apply, credential, model, name, provider, reference, tenant, wrap};

const URL: &str = "http://127.0.0.1:9/v1";

#[tokio::test]
async fn applied_resources_are_read_back_without_secrets() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let reply = apply(
        &mut admin,
        vec![provider("p", URL), model("m", "p"), credential("p/k", "sk-canary")],
    )
    .await;
    let at = reply.at.clone().unwrap();
    assert_eq!(reply.differences.len(), 3);
    assert!(!format!("{reply:?}").contains("canary"));

    let get = pb::GetRequest { r#ref: Some(reference("credential", "p/k")) };
    let got = admin.get(get).await.unwrap().into_inner();
    assert_eq!(got.at, Some(at.clone()));
    let shown = got.resource.unwrap();
    assert_eq!(shown.version, at.revision);
    let Some(Spec::Credential(spec)) = shown.resource.unwrap().spec else { panic!() };
    let secret = spec.secret.unwrap();
    assert!(matches!(secret.source, Some(Source::Held(_))) && secret.sealed.is_empty());

    let status =
        admin.get(pb::GetRequest { r#ref: Some(reference("provider", "pp")) }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let info = status.get_details_resource_info().unwrap();
    assert_eq!((info.resource_type.as_str(), info.resource_name.as_str()), ("provider", "pp"));
    assert_eq!(info.description, "did you mean 'p'?");
}

#[tokio::test]
async fn lists_come_in_pages_and_filtered() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let mut all = vec![provider("p", URL), provider("q", URL), model("m", "q"), tenant("team")];
    all.extend((0..25).map(|n| {
        wrap(Spec::ApiKey(resource::ApiKey {
            name: format!("key-{n:02}"),
            tenant: if n % 5 == 0 { "team".into() } else { String::new() },
            hash: format!("sha256:{n:064x}"),
            ..Default::default()
        }))
    }));
    apply(&mut admin, all).await;

    let mut names = Vec::new();
    let mut sizes = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListRequest { page_size: 10, page_token, ..Default::default() };
        let page = admin.list(request).await.unwrap().into_inner();
        sizes.push(page.resources.len());
        names.extend(page.resources.iter().map(name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
        // What comes in between does not shift pages.
        apply(&mut admin, vec![provider("a", URL)]).await;
    }
    assert_eq!(sizes, [10, 10, 9]);
    let mut sorted = names.clone();
    sorted.dedup();
    assert_eq!((names.len(), &names), (29, &sorted));

    let mut check = async |request: pb::ListRequest, expected: &[&str]| {
        let page = admin.list(request).await.unwrap().into_inner();
        assert_eq!(page.resources.iter().map(name).collect::<Vec<_>>(), expected);
    };
    let request = pb::ListRequest::default;
    check(
        pb::ListRequest { kinds: vec!["models".into(), "tenant".into()], ..request() },
        &["model/m", "tenant/team"],
    )
    .await;
    check(pb::ListRequest { provider: "q".into(), ..request() }, &["provider/q", "model/m"]).await;
    check(
        pb::ListRequest { tenant: "team".into(), name_prefix: "key-1".into(), ..request() },
        &["api_key/key-10", "api_key/key-15"],
    )
    .await;

    let bad = pb::ListRequest { kinds: vec!["route".into()], page_size: 9_999, ..request() };
    let status = admin.list(bad).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields[0].field, "kinds[0]");
    let bad = pb::ListRequest { page_token: "nonsense".into(), ..request() };
    let status = admin.list(bad).await.unwrap_err();
    assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, "page_token");
}

#[tokio::test]
async fn history_comes_in_pages() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    for n in 0..7 {
        apply(&mut admin, vec![tenant(&format!("t{n}"))]).await;
    }
    let mut revisions = Vec::new();
    let mut page_token = String::new();
    let mut pages = 0;
    loop {
        let request = pb::HistoryRequest { page_size: 3, page_token };
        let page = admin.history(request).await.unwrap().into_inner();
        for entry in &page.entries {
            assert_eq!((entry.author.as_str(), entry.differences.len()), ("admin", 1));
            revisions.push(entry.revision);
        }
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!((pages, revisions.len()), (3, 7));
    assert!(revisions.is_sorted_by(|newer, older| newer > older));
}

#[tokio::test]
async fn the_fleet_is_empty_at_first() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let fleet = admin.fleet_status(pb::FleetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((fleet.replica_id.as_str(), fleet.store_unavailable), ("replica-1", false));
    assert!(fleet.data_planes.is_empty() && fleet.head.is_some());
}
