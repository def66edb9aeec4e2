//! Caller keys. Only their hash is kept.

use std::collections::BTreeMap;

use sluicegate_proto::resource::v1 as pb;

use super::{
    credential::{SecretSource, parse_secret},
    form,
    model::{NamePattern, parse_patterns},
};
use crate::{
    path::Path,
    secret::KeyHash,
    violation::{Violation, Violations},
};

/// Fewest characters of a key that somebody chose: what is shorter is found by trying.
pub const MIN_KEY: usize = 8;

/// Most labels of one key.
const MAX_METADATA: usize = 16;

/// A caller.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiKey {
    pub name: String,
    pub tenant: Option<String>,
    pub user: Option<String>,
    /// Models it may use; empty: all.
    pub models: Vec<NamePattern>,
    /// When it stops working, in milliseconds since the Unix epoch.
    pub expires_unix_ms: Option<u64>,
    pub disabled: bool,
    pub metadata: BTreeMap<String, String>,
    /// Always set in stored resources; a desired one may bring its key instead.
    pub hash: Option<KeyHash>,
    /// The key itself, still to be hashed.
    pub secret: Option<SecretSource>,
}

pub(super) fn parse(spec: &pb::ApiKey, found: &mut Violations) -> Option<ApiKey> {
    let root = Path::root();
    let models = parse_patterns(&spec.models, "models", found);
    let hash = KeyHash::parse(&spec.hash);
    if hash.is_none() && !spec.hash.is_empty() {
        found.0.push(
            Violation::new(root.field("hash"), "is not a key hash")
                .hint("use sha256: and 64 hex digits"),
        );
    }
    let secret =
        spec.secret.as_ref().and_then(|secret| parse_secret(secret, &root.field("secret"), found));
    if let Some(SecretSource::Value(key)) = &secret
        && key.expose().len() < MIN_KEY
    {
        found.0.push(
            Violation::new(
                root.field("secret").field("value"),
                format!("has fewer than {MIN_KEY} characters"),
            )
            .hint("use a long random one; 'sluicegate key create' makes it"),
        );
    }
    if spec.secret.is_none() && spec.hash.is_empty() {
        found.0.push(
            Violation::new(root.field("hash"), "the key has neither hash nor secret")
                .hint("make one with 'sluicegate key create', or give secret: {env: NAME}"),
        );
    }
    if spec.metadata.len() > MAX_METADATA {
        found.0.push(
            Violation::new(root.field("metadata"), format!("has {} labels", spec.metadata.len()))
                .hint(format!("at most {MAX_METADATA} are kept")),
        );
    }
    Some(ApiKey {
        name: spec.name.clone(),
        tenant: (!spec.tenant.is_empty()).then(|| spec.tenant.clone()),
        user: (!spec.user.is_empty()).then(|| spec.user.clone()),
        models,
        expires_unix_ms: form::time(&spec.expires_at).ok(),
        disabled: spec.disabled,
        metadata: spec.metadata.clone().into_iter().collect(),
        hash,
        secret,
    })
}
