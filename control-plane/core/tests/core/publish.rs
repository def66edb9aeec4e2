use std::time::Duration;

use prost::Message;
use sluicegate_control_core::{Fleet, Publication};
use sluicegate_model::{Kind, seal::SealKey};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec, secret_source::Source};
use sluicegate_protocol::policy::{Digest, Key, Pull};
use tokio::time::timeout;

use crate::fixture::{Core, credential, delete, tenant};

fn key(kind: &str, name: &str) -> Key {
    Key { kind: kind.into(), name: name.into() }
}

async fn reached(publication: &Publication, revision: u64) {
    let mut head = publication.subscribe();
    let reached = head.wait_for(|head| head.revision >= revision);
    timeout(Duration::from_secs(2), reached).await.unwrap().unwrap();
}

#[tokio::test]
async fn publishes_plain_secrets_and_every_change() {
    let core = Core::seeded().await;
    core.put(vec![credential("p/k", Source::Value("sk-one".into()))]).await;
    let (publication, _task) =
        Publication::start(core.desired.clone(), core.seal.clone(), Fleet::new());
    let (head, body) = publication.with(|publisher| {
        let entries = &publisher.config.state().entries;
        assert_eq!(entries.len(), 3);
        (publisher.config.head().clone(), entries[&key("credential", "p/k")].clone())
    });
    assert_eq!(head, core.desired.snapshot().point());
    assert_eq!(body.version, core.version(Kind::Credential, "p/k"));
    let Some(Spec::Credential(spec)) = pb::Resource::decode(body.bytes).unwrap().spec else {
        panic!()
    };
    let secret = spec.secret.unwrap();
    assert_eq!(secret.source, Some(Source::Value("sk-one".into())));
    assert!(secret.sealed.is_empty());

    core.put(vec![tenant("t")]).await;
    let gone = core.apply(vec![delete(Kind::Credential, "p/k")]).await.unwrap();
    reached(&publication, gone.at.revision).await;
    let pulled =
        publication.with(|publisher| publisher.config.pull(Some(&head), Digest::default()));
    let Pull::Change(change) = pulled else { panic!("{pulled:?}") };
    assert_eq!(change.from, Some(head));
    assert_eq!(change.upserts.len(), 1);
    assert_eq!(change.removes, [key("credential", "p/k")]);
}

#[tokio::test]
async fn what_cannot_be_opened_is_left_out_and_named() {
    let core = Core::seeded().await;
    core.put(vec![credential("p/k", Source::Value("sk-one".into()))]).await;
    let other = SealKey::generate().unwrap();
    let (publication, _task) = Publication::start(core.desired.clone(), other, Fleet::new());
    let names: Vec<_> =
        publication.broken().into_iter().map(|(of, reason)| (of.to_string(), reason)).collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].0, "credential/p/k");
    assert!(names[0].1.contains("another key"), "{}", names[0].1);
    publication.with(|publisher| assert_eq!(publisher.config.state().entries.len(), 2));

    let gone = core.apply(vec![delete(Kind::Credential, "p/k")]).await.unwrap();
    reached(&publication, gone.at.revision).await;
    assert!(publication.broken().is_empty());
}

/// Replicas must publish the same bytes at the same revisions, or data planes would resync for ever, and find
/// no replica that is not behind.
#[tokio::test]
async fn replicas_publish_the_same_digest() {
    let core = Core::seeded().await;
    let Some(Spec::Provider(mut spec)) = crate::fixture::provider("many").spec else { panic!() };
    spec.headers = (0..20).map(|n| (format!("x-{n}"), "1".to_owned())).collect();
    core.put(vec![crate::fixture::wrap(Spec::Provider(spec))]).await;
    core.put(vec![credential("p/k", Source::Value("sk-one".into()))]).await;
    let digest = async |core: &Core| {
        let (publication, _task) =
            Publication::start(core.desired.clone(), core.seal.clone(), Fleet::new());
        publication.with(|lanes| {
            lanes
                .iter()
                .map(|(_, one)| (one.head().clone(), one.state().digest))
                .collect::<Vec<_>>()
        })
    };
    let (old, _task) = Publication::start(core.desired.clone(), core.seal.clone(), Fleet::new());
    // What is no key moves every lane.
    core.put(vec![tenant("t")]).await;
    reached(&old, core.desired.snapshot().revision).await;
    let other = Core::over(core.store.clone(), core.seal.clone()).await;
    let old = old.with(|lanes| {
        lanes.iter().map(|(_, one)| (one.head().clone(), one.state().digest)).collect::<Vec<_>>()
    });
    assert_eq!(digest(&core).await, old);
    assert_eq!(digest(&other).await, old);
}
