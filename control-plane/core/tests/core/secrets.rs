use std::io::Write;

use sluicegate_control_core::{CoreError, History, secrets::watch::SecretWatch};
use sluicegate_model::{
    Kind,
    resource::redacted,
    seal::SealKey,
    secret::{KeyHash, Secret},
};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec, secret_source::Source};

use crate::fixture::{Core, api_key, credential, faults, put, request, secret, wrap};

const CANARY: &str = "sk-canary-4f1d9a";

fn held(core: &Core, name: &str) -> pb::SecretSource {
    let Some(Spec::Credential(spec)) = core.get(Kind::Credential, name).unwrap().spec else {
        panic!()
    };
    spec.secret.unwrap()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{text}").unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> Source {
    Source::File(file.path().display().to_string())
}

/// No plain secret in any stored value, answer or history.
#[tokio::test]
async fn plain_secrets_are_stored_nowhere() {
    let core = Core::seeded().await;
    let value = || secret(Source::Value(CANARY.into()));
    let file = file(CANARY);
    let request = sluicegate_control_core::Request {
        idempotency_key: Some("k".into()),
        ..request(vec![
            put(credential("p/value", Source::Value(CANARY.into()))),
            put(credential("p/file", path(&file))),
            put(api_key("caller", Some(value()))),
        ])
    };
    let outcome = core.applier.apply(&request).await.unwrap();
    let newest = core.desired.snapshot().sequence;
    let page = History::new(core.store.clone()).page(newest, 9).await.unwrap();
    let state = core.desired.snapshot();
    let shown: Vec<_> = state.resources.values().map(|stored| redacted(&stored.wire)).collect();
    for text in
        [format!("{outcome:?}"), format!("{page:?}"), format!("{state:?}"), format!("{shown:?}")]
    {
        assert!(!text.contains(CANARY), "{text}");
    }
    let entries = core.store.list("").await.unwrap().entries;
    assert!(entries.iter().any(|entry| entry.key == "config/resource/credential/p/value"));
    for entry in entries {
        let found = entry.value.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "{} holds a plain secret", entry.key);
    }
    // What is shown never holds sealed bytes either.
    assert!(shown.iter().all(|wire| !matches!(&wire.spec,
        Some(Spec::Credential(spec)) if !spec.secret.as_ref().unwrap().sealed.is_empty())));
}

#[tokio::test]
async fn sources_that_cannot_be_read_are_faults_with_a_hint() {
    let core = Core::seeded().await;
    let check = async |source: Source, expected: &str| {
        let found = faults(core.apply(vec![put(credential("p/k", source))]).await);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected), "{}\n  lacks: {expected}", found[0]);
        assert!(!found[0].contains("two words"));
    };
    check(
        Source::Env("SLUICEGATE_TEST_ABSENT".into()),
        "credential/p/k: secret.env: is not set; set SLUICEGATE_TEST_ABSENT in the control plane's",
    )
    .await;
    check(Source::File("/nonexistent".into()), "secret.file: cannot be read: No such file").await;
    check(path(&file("  \n")), "secret.file: is empty").await;
    check(path(&file(&"x".repeat(70_000))), "secret.file: cannot be read: it is larger than").await;
    check(path(&file("two words")), "secret.file: holds characters").await;
    check(Source::Value("two words".into()), "secret.value: is empty or holds").await;
    check(Source::Held("beefbeefbeef".into()), "secret.held: is not the fingerprint").await;
    check(Source::File("/dev/zero".into()), "secret.file: cannot be read: it is no regular file")
        .await;
}

#[tokio::test]
async fn held_values_are_kept_and_changes_show() {
    let core = Core::seeded().await;
    core.put(vec![credential("p/k", Source::Value("sk-one".into()))]).await;
    let fingerprint = Secret::new("sk-one").fingerprint();
    let stored = held(&core, "p/k");
    assert_eq!(stored.source, Some(Source::Held(fingerprint.clone())));

    // The value again, what is shown, and the fingerprint: all the same thing.
    for again in [
        credential("p/k", Source::Value("sk-one".into())),
        redacted(&core.get(Kind::Credential, "p/k").unwrap()),
        credential("p/k", Source::Held(fingerprint.clone())),
    ] {
        assert!(core.put(vec![again]).await.differences.is_empty());
    }
    // A caller cannot bring sealed bytes of its own.
    let Some(Spec::Credential(mut spec)) =
        credential("p/k", Source::Held(fingerprint.clone())).spec
    else {
        panic!()
    };
    spec.secret.as_mut().unwrap().sealed = vec![1; 64].into();
    assert!(core.put(vec![wrap(Spec::Credential(spec))]).await.differences.is_empty());

    let outcome = core.put(vec![credential("p/k", Source::Value("sk-two".into()))]).await;
    assert_eq!(outcome.differences.len(), 1);
    let stale = core.apply(vec![put(credential("p/k", Source::Held(fingerprint)))]).await;
    assert!(matches!(stale, Err(CoreError::Invalid(_))));
}

#[tokio::test]
async fn caller_keys_are_hashed_and_keep_their_hash() {
    let core = Core::seeded().await;
    core.put(vec![api_key("k", Some(secret(Source::Value("sk-client".into()))))]).await;
    let hash = |core: &Core| {
        let Some(Spec::ApiKey(spec)) = core.get(Kind::ApiKey, "k").unwrap().spec else { panic!() };
        assert_eq!(spec.secret, None);
        spec.hash
    };
    assert_eq!(hash(&core), KeyHash::of("sk-client").to_string());

    // Without hash and secret, the key stays; other fields change.
    let named = wrap(Spec::ApiKey(pb::ApiKey {
        name: "k".into(),
        user: "someone".into(),
        ..Default::default()
    }));
    assert_eq!(core.put(vec![named]).await.differences.len(), 1);
    assert_eq!(hash(&core), KeyHash::of("sk-client").to_string());

    let both = wrap(Spec::ApiKey(pb::ApiKey {
        name: "k".into(),
        hash: hash(&core),
        secret: Some(secret(Source::Value("sk-other".into()))),
        ..Default::default()
    }));
    assert_eq!(
        faults(core.apply(vec![put(both)]).await),
        ["api_key/k: hash: is not the hash of secret; leave hash out when secret is given"]
    );
    let held = api_key("k", Some(secret(Source::Held("beefbeefbeef".into()))));
    assert_eq!(
        faults(core.apply(vec![put(held)]).await),
        [
            "api_key/k: secret.held: is not kept of a caller's key, only its hash is; leave secret out \
          to keep the key"
        ]
    );
    let twice = api_key("l", Some(secret(Source::Value("sk-client".into()))));
    assert_eq!(
        faults(core.apply(vec![put(twice)]).await),
        ["api_key/l: hash: is the same key as 'k'; give every caller a key of its own"]
    );
}

#[tokio::test]
async fn a_changed_file_is_taken_over() {
    let core = Core::seeded().await;
    let file = file("sk-one\n");
    core.put(vec![credential("p/k", path(&file))]).await;
    let mut watch = SecretWatch::new(core.desired.clone(), core.applier.clone(), core.seal.clone());
    let revision = core.revision();
    watch.look().await;
    assert_eq!(core.revision(), revision);

    std::fs::write(file.path(), "sk-two").unwrap();
    watch.look().await;
    let entry = History::new(core.store.clone()).page(3, 1).await.unwrap().remove(0);
    assert_eq!((entry.revision, entry.author.as_str()), (core.revision(), "secret-watch"));
    assert!(core.revision() > revision);
    let now = core.revision();
    watch.look().await;
    assert_eq!(core.revision(), now);

    // A file that is gone keeps the last value; another replica's different file is no change.
    std::fs::remove_file(file.path()).unwrap();
    watch.look().await;
    assert_eq!(core.revision(), now);
}

#[tokio::test]
async fn a_file_that_changed_while_nobody_looked_is_taken_over_at_the_start() {
    let core = Core::seeded().await;
    let file = file("sk-one");
    core.put(vec![credential("p/k", path(&file))]).await;
    std::fs::write(file.path(), "sk-two").unwrap();
    let mut watch = SecretWatch::new(core.desired.clone(), core.applier.clone(), core.seal.clone());
    let revision = core.revision();
    watch.look().await;
    assert!(core.revision() > revision);
}

#[tokio::test]
async fn another_seal_key_replaces_what_it_cannot_open() {
    let core = Core::seeded().await;
    core.put(vec![credential("p/k", Source::Value("sk-one".into()))]).await;
    let other = Core::over(core.store.clone(), SealKey::generate().unwrap()).await;
    let sealed = held(&core, "p/k").sealed;
    // The fingerprint still names the value, so other fields can change.
    let shown = redacted(&core.get(Kind::Credential, "p/k").unwrap());
    assert!(other.put(vec![shown]).await.differences.is_empty());
    other.put(vec![credential("p/k", Source::Value("sk-one".into()))]).await;
    assert_ne!(held(&other, "p/k").sealed, sealed);
}
