//! Whom a probe calls.

use sluicegate_control_core::{CoreError, probe::Subjects};
use sluicegate_model::seal::SealKey;
use sluicegate_proto::resource::v1::{self as pb, resource::Spec, secret_source::Source};

use crate::fixture::{Core, credential, model, provider, wrap};

/// Providers `p` with keys, `free` without, and `other`.
async fn core() -> Core {
    let core = Core::new().await;
    let free = wrap(Spec::Provider(pb::Provider {
        name: "free".into(),
        dialect: "openai-chat".into(),
        base_url: "http://127.0.0.1:9001/v1".into(),
        keyless: true,
        ..Default::default()
    }));
    let mut disabled = credential("p/a", Source::Value("sk-disabled".into()));
    if let Some(Spec::Credential(spec)) = &mut disabled.spec {
        spec.disabled = true;
    }
    let target = |provider: &str, model: &str| pb::Target {
        provider: provider.into(),
        model: model.into(),
        ..Default::default()
    };
    let second = wrap(Spec::Model(pb::Model {
        name: "b".into(),
        targets: vec![target("other", "x"), target("p", "upstream-b")],
        ..Default::default()
    }));
    core.put(vec![
        provider("p"),
        provider("other"),
        free,
        disabled,
        credential("p/b", Source::Value("sk-first".into())),
        credential("p/c", Source::Value("sk-second".into())),
        second,
        model("z", "p"),
    ])
    .await;
    core
}

fn subjects(core: &Core) -> Subjects {
    Subjects::new(core.desired.clone(), core.seal.clone())
}

#[tokio::test]
async fn a15_what_is_not_named_is_found() {
    let core = core().await;
    let subjects = subjects(&core);
    let found = subjects.find("p", "", "").unwrap();
    let (name, secret) = found.key.clone().unwrap();
    assert_eq!((name.as_str(), secret.expose()), ("p/b", "sk-first"));
    assert_eq!((found.provider.name.as_str(), found.model.as_str()), ("p", "upstream-b"));
    assert!(!format!("{found:?}").contains("sk-first"));

    let named = subjects.find("p", "p/a", "m").unwrap();
    assert_eq!(named.key.unwrap().1.expose(), "sk-disabled");
    assert_eq!(named.model, "m");
    assert_eq!(subjects.find("free", "", "m").unwrap().key, None);
}

#[tokio::test]
async fn a15_what_cannot_be_found_is_named() {
    let core = core().await;
    let subjects = subjects(&core);
    let fault = |provider: &str, credential: &str, model: &str| match subjects
        .find(provider, credential, model)
        .unwrap_err()
    {
        CoreError::Invalid(violations) => violations.to_string(),
        error => panic!("{error:?}"),
    };
    let said = fault("free", "", "");
    assert!(said.contains("no model has a target at provider 'free'"), "{said}");
    assert!(said.contains("give --model"), "{said}");
    assert!(fault("other", "", "m").contains("provider 'other' has no key that is in use"));
    assert!(fault("other", "p/b", "m").contains("'p/b' is a key of provider 'p'"));
    assert!(fault("", "", "").contains("provider: is missing"));

    for (provider, credential, expected) in [("pp", "", "p"), ("p", "p/bb", "p/b")] {
        match subjects.find(provider, credential, "m").unwrap_err() {
            CoreError::NotFound { near, .. } => assert_eq!(near.as_deref(), Some(expected)),
            error => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a15_a_key_that_cannot_be_opened_is_an_error() {
    let core = core().await;
    let foreign = Subjects::new(core.desired.clone(), SealKey::generate().unwrap());
    match foreign.find("p", "", "").unwrap_err() {
        CoreError::Corrupt { key, reason } => {
            assert_eq!(key, "credential/p/b");
            assert!(!reason.contains("sk-first"));
        }
        error => panic!("{error:?}"),
    }
}
