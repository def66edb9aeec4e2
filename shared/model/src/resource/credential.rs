//! Keys of a provider's pool.

use bytes::Bytes;
use sluicegate_proto::resource::v1::{self as pb, secret_source::Source};

use super::Provider;
use crate::{
    path::Path,
    secret::Secret,
    violation::{Violation, Violations},
};

/// One key of a provider's pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Credential {
    pub name: String,
    pub provider: String,
    pub secret: SecretSource,
    pub weight: u32,
    pub disabled: bool,
    /// The provider's account that it belongs to; `None`: one of its own.
    pub account: Option<String>,
}

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// Environment variable of the control plane.
    Env(String),
    /// File on the control plane's host.
    File(String),
    /// The secret itself.
    Value(Secret),
    /// A value that the control plane holds, named by its fingerprint.
    Held(String),
}

pub(super) fn parse(spec: &pb::Credential, found: &mut Violations) -> Option<Credential> {
    let secret = parse_secret(spec.secret.as_ref()?, &Path::root().field("secret"), found)?;
    Some(Credential {
        name: spec.name.clone(),
        provider: spec.provider.clone(),
        secret,
        weight: spec.weight.unwrap_or(1),
        disabled: spec.disabled,
        account: Some(spec.account.clone()).filter(|account| !account.is_empty()),
    })
}

pub(super) fn parse_secret(
    spec: &pb::SecretSource,
    path: &Path,
    found: &mut Violations,
) -> Option<SecretSource> {
    let mut add = |field: &str, message: &str, hint: &str| {
        found.0.push(Violation::new(path.field(field), message).hint(hint));
        None
    };
    match &spec.source {
        Some(Source::Env(name)) if is_env_name(name) => Some(SecretSource::Env(name.clone())),
        Some(Source::Env(_)) => add(
            "env",
            "is not the name of an environment variable",
            "give the variable's name, not its value",
        ),
        Some(Source::File(path)) if !path.is_empty() => Some(SecretSource::File(path.clone())),
        Some(Source::File(_)) => add("file", "is empty", "give the path of a file"),
        Some(Source::Value(value)) if is_secret_text(value) => {
            Some(SecretSource::Value(Secret::new(value)))
        }
        Some(Source::Value(_)) => add(
            "value",
            "is empty or holds characters that no header can carry",
            "use 1 to 8192 printable characters without spaces",
        ),
        Some(Source::Held(fingerprint)) => Some(SecretSource::Held(fingerprint.clone())),
        None => {
            found.0.push(
                Violation::new(path.clone(), "names no source")
                    .hint("give one of env, file or value"),
            );
            None
        }
    }
}

/// Forms of keys that are more than a text, by dialect: what each is, and how many parts between colons
/// it may have.
const FORMS: &[(&str, &str, std::ops::RangeInclusive<usize>)] = &[
    ("ernie-v1", "API_KEY:SECRET_KEY", 2..=2),
    ("bedrock-converse", "ACCESS:SECRET, ACCESS:SECRET:SESSION or a bearer key", 1..=3),
];

/// Has a key the form that its provider's dialect wants, and is known what it needs besides?
///
/// # Errors
/// A violation of the credential, which never tells the key.
pub fn check_form(provider: &Provider, key: &Secret) -> Result<(), Violation> {
    let Some((_, form, allowed)) = FORMS.iter().find(|(name, ..)| *name == provider.dialect) else {
        return Ok(());
    };
    let parts: Vec<_> = key.expose().split(':').collect();
    if !allowed.contains(&parts.len()) || parts.iter().any(|part| part.is_empty()) {
        let what = format!("is no key of the dialect {}", provider.dialect);
        let violation = Violation::new(Path::root().field("secret"), what);
        return Err(violation.hint(format!("it must be {form}")));
    }
    let is_signed = provider.dialect == "bedrock-converse" && parts.len() > 1;
    if is_signed && provider.region.is_none() && provider.base_url.region().is_none() {
        let what = format!("signs requests, but provider/{} names no region", provider.name);
        let violation = Violation::new(Path::root().field("secret"), what);
        return Err(violation.hint("set the provider's region, such as us-east-1"));
    }
    Ok(())
}

/// Can this text be a key: printable, no white space, not absurdly long?
pub fn is_secret_text(text: &str) -> bool {
    (1..=8192).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_env_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Leaves what may be shown: where the secret comes from, or the fingerprint of a held value.
pub(super) fn redact(secret: &mut pb::SecretSource) {
    secret.sealed = Bytes::new();
    if let Some(Source::Value(value)) = &secret.source {
        secret.source = Some(Source::Held(Secret::new(value).fingerprint()));
    }
}
