use sluicegate_control_core::{CoreError, History};
use sluicegate_model::Kind;
use sluicegate_proto::resource::v1::secret_source::Source;

use crate::fixture::{
    Core, credential, delete, faults, marks, model, provider, put, request, tenant,
};

#[tokio::test]
async fn records_who_what_and_when_newest_first() {
    let core = Core::new().await;
    let mut revisions = Vec::new();
    for name in ["a", "b", "c"] {
        let mut request = request(vec![put(tenant(name))]);
        request.comment = format!("adds {name}");
        revisions.push(core.applier.apply(&request).await.unwrap().at.revision);
    }
    let history = History::new(core.store.clone());
    let newest = core.desired.snapshot().sequence;
    assert_eq!(newest, 3);
    let page = history.page(newest, 2).await.unwrap();
    let shown: Vec<_> = page.iter().map(|entry| (entry.revision, entry.comment.as_str())).collect();
    assert_eq!(shown, [(revisions[2], "adds c"), (revisions[1], "adds b")]);
    assert!(page.iter().all(|entry| entry.author == "test" && entry.time_unix_ms > 0));
    assert_eq!(page[0].differences[0].reference.to_string(), "tenant/c");
    let rest = history.page(page[1].sequence - 1, 50).await.unwrap();
    assert_eq!(rest.len(), 1);
}

#[tokio::test]
async fn rollback_restores_a_revision_as_a_new_change() {
    let core = Core::seeded().await;
    let value = |text: &str| credential("p/k", Source::Value(text.into()));
    core.put(vec![value("sk-one"), tenant("t")]).await;
    let wanted = core.desired.snapshot();
    core.put(vec![value("sk-two"), provider("q")]).await;
    core.apply(vec![delete(Kind::Tenant, "t"), put(model("m", "q"))]).await.unwrap();
    core.apply(vec![delete(Kind::Provider, "p"), delete(Kind::Credential, "p/k")]).await.unwrap();

    let dry = sluicegate_control_core::Request { dry_run: true, ..request(vec![]) };
    let outcome = core.applier.rollback(wanted.revision, &dry).await.unwrap();
    assert_eq!(outcome.differences.len(), 5);
    let outcome = core.applier.rollback(wanted.revision, &request(vec![])).await.unwrap();
    assert_eq!(
        marks(&outcome),
        ["+provider/p", "-provider/q", "+credential/p/k", "~model/m", "+tenant/t"]
    );
    let now = core.desired.snapshot();
    assert!(now.revision > wanted.revision);
    let wires = |state: &sluicegate_control_core::State| {
        state.resources.values().map(|stored| stored.wire.clone()).collect::<Vec<_>>()
    };
    assert_eq!(wires(&now), wires(&wanted));

    // Back to where it stands: nothing to do. To the very beginning: everything goes.
    let outcome = core.applier.rollback(now.revision, &request(vec![])).await.unwrap();
    assert!(outcome.differences.is_empty());
    core.applier.rollback(0, &request(vec![])).await.unwrap();
    assert!(core.names().is_empty());
}

#[tokio::test]
async fn rollback_out_of_reach() {
    let core = Core::seeded().await;
    let head = core.revision();
    let ahead = core.applier.rollback(head + 1, &request(vec![])).await.unwrap_err();
    assert_eq!(
        ahead.to_string(),
        format!(
            "revision {} is newer than the configuration, which is at revision {head}",
            head + 1
        )
    );

    // The oldest records are gone, as after a thousand further changes.
    core.put(vec![tenant("t")]).await;
    let ops = vec![sluicegate_store::Op::Delete { key: format!("history/{:020}", 1) }];
    core.store.commit(sluicegate_store::Commit { preconditions: vec![], ops }).await.unwrap();
    let oldest = core.revision();
    let error = core.applier.rollback(0, &request(vec![])).await.unwrap_err();
    assert!(matches!(error, CoreError::HistoryTooShort { asked: 0, oldest: o } if o == oldest));
    assert!(error.to_string().contains(&format!("goes back to revision {oldest}")), "{error}");
}

#[tokio::test]
async fn rollback_is_checked_like_any_change() {
    let core = Core::seeded().await;
    let before = core.revision();
    core.apply(vec![put(provider("q")), put(model("m", "q"))]).await.unwrap();
    core.apply(vec![put(model("n", "q"))]).await.unwrap();
    // Undoing both removes provider q together with every model that uses it.
    core.applier.rollback(before, &request(vec![])).await.unwrap();
    assert_eq!(core.names(), ["provider/p", "model/m"]);
    // A change that would break what came later is refused as such.
    assert!(!faults(core.apply(vec![delete(Kind::Provider, "p")]).await).is_empty());
}

#[tokio::test]
async fn keeps_a_thousand_records() {
    let core = Core::new().await;
    for n in 0..1_003_u32 {
        let names = ["a", "b"];
        let (add, remove) = (names[n as usize % 2], names[(n as usize + 1) % 2]);
        core.apply(vec![put(tenant(add)), delete(Kind::Tenant, remove)]).await.unwrap();
    }
    let records = core.store.list("history/").await.unwrap().entries;
    assert_eq!(records.len(), 1_000);
    assert_eq!(records[0].key, format!("history/{:020}", 4));
    let history = History::new(core.store.clone());
    let page = history.page(core.desired.snapshot().sequence, 2_000).await.unwrap();
    assert_eq!(page.len(), 1_000);
}
