use sluicegate_control_core::{Auth, CoreError, Role, Tokens};
use sluicegate_model::secret::Secret;

use crate::fixture::Core;

#[tokio::test]
async fn made_once_then_known() {
    let core = Core::new().await;
    let (auth, issued) = Auth::start(core.store.clone(), Tokens::default()).await.unwrap();
    let (admin, node) = (issued.admin.unwrap(), issued.node.unwrap());
    assert!(auth.verify(Role::Admin, admin.expose()).await);
    assert!(auth.verify(Role::Node, node.expose()).await);
    assert!(!auth.verify(Role::Node, admin.expose()).await);
    assert!(!auth.verify(Role::Admin, "").await);
    let stored = core.store.list("auth/").await.unwrap().entries;
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|entry| entry.value.starts_with(b"sha256:")));

    let (again, issued) = Auth::start(core.store.clone(), Tokens::default()).await.unwrap();
    assert!(issued.admin.is_none() && issued.node.is_none());
    assert!(again.verify(Role::Admin, admin.expose()).await);
}

#[tokio::test]
async fn a_given_token_counts_and_outlives_the_process() {
    let core = Core::new().await;
    let given = Tokens { admin: Some(Secret::new("given")), ..Tokens::default() };
    let (auth, issued) = Auth::start(core.store.clone(), given).await.unwrap();
    assert!(issued.admin.is_none() && issued.node.is_some());
    assert!(auth.verify(Role::Admin, "given").await);
    let (later, issued) = Auth::start(core.store.clone(), Tokens::default()).await.unwrap();
    assert!(issued.admin.is_none());
    assert!(later.verify(Role::Admin, "given").await);

    let bad = Tokens { node: Some(Secret::new("two words")), ..Tokens::default() };
    let error = Auth::start(core.store.clone(), bad).await.unwrap_err();
    assert!(matches!(error, CoreError::BadToken { role: "node" }));
}

#[tokio::test]
async fn a_reset_reaches_other_replicas() {
    let core = Core::new().await;
    let (auth, issued) = Auth::start(core.store.clone(), Tokens::default()).await.unwrap();
    let old = issued.admin.unwrap();
    let reset = Tokens { reset_admin: true, ..Tokens::default() };
    let (_, issued) = Auth::start(core.store.clone(), reset).await.unwrap();
    let new = issued.admin.unwrap();
    assert_ne!(old, new);
    // The other replica looks again at most once a second.
    tokio::time::sleep(std::time::Duration::from_millis(1_050)).await;
    assert!(auth.verify(Role::Admin, new.expose()).await);
    assert!(!auth.verify(Role::Admin, old.expose()).await);
}
