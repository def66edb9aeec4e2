use std::collections::BTreeSet;

use sluicegate_control_core::{CoreError, Request};
use sluicegate_model::Kind;
use sluicegate_proto::resource::v1::{self as pb, resource::Spec};
use sluicegate_store::Commit;

use crate::fixture::{
    Core, api_key, delete, expecting, faults, marks, model, provider, put, request, tenant, wrap,
};

#[tokio::test]
async fn several_resources_change_at_one_revision_or_none() {
    let core = Core::new().await;
    let outcome = core.put(vec![model("m", "p"), provider("p")]).await;
    assert_eq!(marks(&outcome), ["+provider/p", "+model/m"]);
    assert_eq!(core.version(Kind::Provider, "p"), outcome.at.revision);
    assert_eq!(core.version(Kind::Model, "m"), outcome.at.revision);

    let bad = vec![put(tenant("t")), put(model("n", "absent"))];
    assert_eq!(
        faults(core.apply(bad).await),
        [
            "model/n: targets[0].provider: provider 'absent' does not exist; declare it, or name one \
          that is declared (p)"
        ]
    );
    assert_eq!(core.names(), ["provider/p", "model/m"]);
    assert_eq!(core.revision(), outcome.at.revision);
}

#[tokio::test]
async fn all_faults_of_all_resources_come_at_once() {
    let core = Core::new().await;
    let url = |url: &str| {
        let Some(Spec::Provider(spec)) = provider("a b").spec else { unreachable!() };
        wrap(Spec::Provider(pb::Provider { base_url: url.into(), ..spec }))
    };
    let changes = vec![
        put(url("ftp://x")),
        put(api_key("k", None)),
        put(pb::Resource::default()),
        put(tenant("t")),
        put(tenant("t")),
    ];
    let faults = faults(core.apply(changes).await).join("\n");
    for part in [
        "provider/a b: name:",
        "provider/a b: base_url:",
        "api_key/k: hash: the key has neither hash nor secret",
        "changes[2].put: the resource is empty",
        "tenant/t: is named twice in one request",
    ] {
        assert!(faults.contains(part), "{faults}\n  lacks: {part}");
    }
}

#[tokio::test]
async fn expected_versions() {
    let core = Core::seeded().await;
    let version = core.version(Kind::Provider, "p");
    let slower = |connect_ms| {
        let Some(Spec::Provider(mut spec)) = provider("p").spec else { unreachable!() };
        spec.timeouts = Some(pb::Timeouts { connect_ms: Some(connect_ms), ..Default::default() });
        put(wrap(Spec::Provider(spec)))
    };
    core.apply(vec![expecting(slower(5), version)]).await.unwrap();
    let now = core.version(Kind::Provider, "p");
    assert!(now > version);

    let text = |error: CoreError| error.to_string();
    let refused = |change| core.apply(vec![change]);
    assert_eq!(
        text(refused(expecting(slower(6), version)).await.unwrap_err()),
        format!("provider/p: expected version {version}, but it has {now}")
    );
    assert_eq!(
        text(refused(expecting(slower(6), 0)).await.unwrap_err()),
        format!("provider/p: must not exist, but has version {now}")
    );
    assert_eq!(
        text(refused(expecting(put(tenant("t")), 3)).await.unwrap_err()),
        "tenant/t: expected version 3, but it does not exist"
    );
    core.apply(vec![expecting(put(tenant("t")), 0)]).await.unwrap();
    assert!(matches!(
        refused(expecting(delete(Kind::Tenant, "t"), 1)).await,
        Err(CoreError::Conflict(_))
    ));
}

#[tokio::test]
async fn the_same_again_changes_nothing_and_takes_no_revision() {
    let core = Core::seeded().await;
    let before = core.store.list("").await.unwrap().entries;
    let outcome = core.put(vec![provider("p"), model("m", "p")]).await;
    assert!(outcome.differences.is_empty());
    assert_eq!(outcome.at.revision, core.revision());
    let outcome = core.apply(vec![delete(Kind::Tenant, "never")]).await.unwrap();
    assert!(outcome.differences.is_empty());
    assert_eq!(core.store.list("").await.unwrap().entries, before);
}

#[tokio::test]
async fn a_dry_run_tells_and_changes_nothing() {
    let core = Core::seeded().await;
    let before = core.store.list("").await.unwrap().entries;
    let changes = vec![put(tenant("t")), delete(Kind::Model, "m")];
    let request = Request { dry_run: true, ..request(changes) };
    let outcome = core.applier.apply(&request).await.unwrap();
    assert_eq!(marks(&outcome), ["-model/m", "+tenant/t"]);
    assert_eq!(outcome.at.revision, core.revision());
    assert_eq!(core.store.list("").await.unwrap().entries, before);
}

#[tokio::test]
async fn pruning_deletes_what_is_not_named() {
    let core = Core::seeded().await;
    core.put(vec![provider("q"), tenant("t"), tenant("u")]).await;
    let prune = BTreeSet::from([Kind::Provider, Kind::Tenant]);
    let pruned = |changes| Request { prune: prune.clone(), ..request(changes) };

    let all = core.applier.apply(&pruned(vec![put(tenant("t"))])).await;
    assert_eq!(
        faults(all),
        ["provider/p: is still used by model/m (targets[0].provider); change or delete model/m \
          first, or in the same request"]
    );
    let outcome = core.applier.apply(&pruned(vec![put(tenant("t")), put(provider("p"))])).await;
    assert_eq!(marks(&outcome.unwrap()), ["-provider/q", "-tenant/u"]);
    assert_eq!(core.names(), ["provider/p", "model/m", "tenant/t"]);
}

#[tokio::test]
async fn what_is_used_is_not_deleted() {
    let core = Core::seeded().await;
    assert_eq!(
        faults(core.apply(vec![delete(Kind::Provider, "p")]).await),
        ["provider/p: is still used by model/m (targets[0].provider); change or delete model/m \
          first, or in the same request"]
    );
    let both = vec![delete(Kind::Provider, "p"), delete(Kind::Model, "m")];
    assert_eq!(marks(&core.apply(both).await.unwrap()), ["-provider/p", "-model/m"]);
    assert!(core.names().is_empty());
}

#[tokio::test]
async fn deleting_what_must_exist_names_the_near_miss() {
    let core = Core::seeded().await;
    core.put(vec![tenant("team-a")]).await;
    let request = Request { must_exist: true, ..request(vec![delete(Kind::Tenant, "team-b")]) };
    let error = core.applier.apply(&request).await.unwrap_err();
    let CoreError::NotFound { reference, near } = error else { panic!("{error}") };
    assert_eq!(
        (reference.to_string().as_str(), near.as_deref()),
        ("tenant/team-b", Some("team-a"))
    );
}

#[tokio::test]
async fn idempotency_keys() {
    let core = Core::seeded().await;
    let keyed = |changes| Request { idempotency_key: Some("k/1 ü".into()), ..request(changes) };
    let first = core.applier.apply(&keyed(vec![put(tenant("t"))])).await.unwrap();
    assert!(!first.repeated);
    core.apply(vec![delete(Kind::Tenant, "t")]).await.unwrap();

    let again = core.applier.apply(&keyed(vec![put(tenant("t"))])).await.unwrap();
    assert!(again.repeated);
    assert_eq!((&again.at, &again.differences), (&first.at, &first.differences));
    assert_eq!(core.version(Kind::Tenant, "t"), 0, "it was not done twice");

    let other = core.applier.apply(&keyed(vec![put(tenant("u"))])).await;
    assert!(matches!(other, Err(CoreError::IdempotencyKeyReused)));
    let long = Request { idempotency_key: Some("x".repeat(129)), ..request(vec![]) };
    assert_eq!(
        faults(core.applier.apply(&long).await),
        ["idempotency_key: is too long; use at most 128 characters"]
    );
}

#[tokio::test]
async fn a_key_remembers_that_nothing_changed() {
    let core = Core::seeded().await;
    let keyed = Request { idempotency_key: Some("k".into()), ..request(vec![put(provider("p"))]) };
    let first = core.applier.apply(&keyed).await.unwrap();
    assert!(!first.repeated && first.differences.is_empty());
    core.apply(vec![delete(Kind::Model, "m"), delete(Kind::Provider, "p")]).await.unwrap();
    let again = core.applier.apply(&keyed).await.unwrap();
    assert!(again.repeated && again.differences.is_empty());
    assert_eq!(again.at, first.at);
    assert!(core.names().is_empty(), "a late repetition undoes nothing");
}

#[tokio::test]
async fn maps_do_not_make_a_repetition_look_different() {
    let core = Core::seeded().await;
    let headers = |names: &[&str]| {
        let Some(Spec::Provider(mut spec)) = provider("p").spec else { unreachable!() };
        spec.headers = names.iter().map(|name| (format!("x-{name}"), "1".to_owned())).collect();
        put(wrap(Spec::Provider(spec)))
    };
    let keyed = |names: &[&str]| Request {
        idempotency_key: Some("k".into()),
        ..request(vec![headers(names)])
    };
    core.applier.apply(&keyed(&["a", "b", "c", "d", "e"])).await.unwrap();
    for _ in 0..8 {
        let again = core.applier.apply(&keyed(&["e", "d", "c", "b", "a"])).await.unwrap();
        assert!(again.repeated);
    }
}

#[tokio::test]
async fn what_a_store_holds_that_is_no_resource_can_be_replaced_and_deleted() {
    let core = Core::seeded().await;
    let garbage = |name: &str| sluicegate_store::Op::Put {
        key: format!("config/resource/{name}"),
        value: vec![0xff; 3].into(),
        ttl: None,
    };
    let ops = vec![garbage("tenant/a"), garbage("tenant/b"), garbage("novelty/c")];
    let committed = core.store.commit(Commit { preconditions: vec![], ops }).await.unwrap();
    let sluicegate_store::Committed::At(revision) = committed else { panic!() };
    assert!(core.desired.reached(revision, std::time::Duration::from_secs(2)).await);
    let broken = || core.desired.snapshot().broken.keys().cloned().collect::<Vec<_>>();
    assert_eq!(broken(), ["novelty/c", "tenant/a", "tenant/b"]);
    assert_eq!(core.names(), ["provider/p", "model/m"]);

    core.apply(vec![put(tenant("a")), delete(Kind::Tenant, "b")]).await.unwrap();
    assert_eq!(broken(), ["novelty/c"]);
    assert_eq!(core.names(), ["provider/p", "model/m", "tenant/a"]);
}
