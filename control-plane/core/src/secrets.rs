//! Secrets between what people write and what is stored: read where they come from, sealed, and
//! opened only for data planes.

pub mod watch;

use std::{
    io::{self, Read},
    time::Duration,
};

use bytes::Bytes;
use sluicegate_model::{
    Violation, path::Path, resource::credential::is_secret_text, seal::SealKey, secret::Secret,
};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec, secret_source::Source};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use zeroize::Zeroizing;

use crate::error::CoreError;

/// Largest file that a secret is read from, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// Longest wait for a file; a dead network mount would be waited for without end.
const FILE_PATIENCE: Duration = Duration::from_secs(2);
/// Files that are read at a time, so that not more threads than this hang on a dead mount.
static READERS: Semaphore = Semaphore::const_new(8);

/// The secret source of a resource, if it has one that is read when it is applied.
pub(crate) fn source_of(wire: &pb::Resource) -> Option<&Source> {
    let secret = match &wire.spec {
        Some(Spec::Credential(spec)) => spec.secret.as_ref(),
        Some(Spec::ApiKey(spec)) => spec.secret.as_ref(),
        _ => None,
    };
    secret.and_then(|secret| secret.source.as_ref())
}

/// Reads a secret where it comes from; `None` for one that is held already.
///
/// # Errors
/// A violation of the source's field, which never tells what was read.
pub(crate) async fn read(source: &Source) -> Option<Result<Secret, Violation>> {
    let (field, read) = match source {
        Source::Env(name) => ("env", read_env(name)),
        Source::File(path) => ("file", read_file(path).await),
        Source::Value(value) => return Some(Ok(Secret::new(value))),
        Source::Held(_) => return None,
    };
    let checked = read.and_then(|secret| match secret.expose() {
        "" => Err(("is empty".to_owned(), "put the key there".to_owned())),
        text if is_secret_text(text) => Ok(secret),
        _ => Err((
            "holds characters that no header can carry".to_owned(),
            "a key is 1 to 8192 printable characters without spaces".to_owned(),
        )),
    });
    Some(checked.map_err(|(message, hint)| {
        Violation::new(Path::root().field("secret").field(field), message).hint(hint)
    }))
}

fn read_env(name: &str) -> Result<Secret, (String, String)> {
    let hint = || format!("set {name} in the control plane's environment");
    match std::env::var(name) {
        Ok(value) => Ok(Secret::new(value)),
        Err(std::env::VarError::NotPresent) => Err(("is not set".to_owned(), hint())),
        Err(std::env::VarError::NotUnicode(_)) => Err(("is not text".to_owned(), hint())),
    }
}

async fn read_file(path: &str) -> Result<Secret, (String, String)> {
    let hint = || "put the key into that file on the control plane's host".to_owned();
    let path = path.to_owned();
    let read = async {
        let reading = READERS.acquire().await.map_err(io::Error::other)?;
        spawn_blocking(move || {
            let text = read_text(&path);
            drop(reading);
            text
        })
        .await
        .map_err(io::Error::other)?
    };
    match timeout(FILE_PATIENCE, read).await {
        Ok(Ok(text)) => Ok(Secret::new(text.trim())),
        Ok(Err(error)) => Err((format!("cannot be read: {error}"), hint())),
        Err(_) => Err((format!("cannot be read within {FILE_PATIENCE:?}"), hint())),
    }
}

fn read_text(path: &str) -> io::Result<Zeroizing<String>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it is larger than {MAX_FILE} bytes")));
    }
    Ok(text)
}

/// Turns a credential's secret into its stored form. `reading` is what its source held, `current`
/// the stored form of the same credential.
///
/// # Errors
/// [`Unsealed::Invalid`] when a held value is named that is not held.
pub(crate) fn seal(
    key: &SealKey,
    name: &str,
    secret: &mut pb::SecretSource,
    reading: Option<&Secret>,
    current: Option<&pb::SecretSource>,
) -> Result<(), Unsealed> {
    let held = current.and_then(|current| open(key, name, current).ok());
    secret.sealed = match reading {
        // Sealing anew would look like a change.
        Some(reading) if held.as_ref() == Some(reading) => {
            current.map(|current| current.sealed.clone()).unwrap_or_default()
        }
        Some(reading) => {
            let sealed = key.seal(&context(name), reading.expose().as_bytes());
            Bytes::from(sealed.map_err(CoreError::Seal)?)
        }
        None => {
            let Some(Source::Held(wanted)) = &secret.source else {
                return Err(Violation::new(Path::root().field("secret"), "was not read").into());
            };
            let same = |current: &&pb::SecretSource| {
                let by_name = matches!(&current.source, Some(Source::Held(held)) if held == wanted);
                by_name || held.as_ref().is_some_and(|held| held.fingerprint() == *wanted)
            };
            let field = Path::root().field("secret").field("held");
            let current = current.filter(same).ok_or_else(|| {
                Violation::new(field, "is not the fingerprint of the value that is held")
                    .hint("give the value again, as env, file or value")
            })?;
            current.sealed.clone()
        }
    };
    if let (Some(Source::Value(_)), Some(reading)) = (&secret.source, reading) {
        secret.source = Some(Source::Held(reading.fingerprint()));
    }
    Ok(())
}

/// Why a secret has no stored form.
#[derive(Debug)]
pub(crate) enum Unsealed {
    Invalid(Violation),
    Failed(CoreError),
}

impl From<Violation> for Unsealed {
    fn from(violation: Violation) -> Self {
        Self::Invalid(violation)
    }
}

impl From<CoreError> for Unsealed {
    fn from(error: CoreError) -> Self {
        Self::Failed(error)
    }
}

/// The plain secret of a stored credential.
///
/// # Errors
/// The reason, for people: sealed with another key, or nothing is sealed at all.
pub(crate) fn open(key: &SealKey, name: &str, secret: &pb::SecretSource) -> Result<Secret, String> {
    if secret.sealed.is_empty() {
        return Err("no secret is stored with it".to_owned());
    }
    let plain =
        key.open(&context(name), &secret.sealed).map_err(|error| format!("its secret: {error}"))?;
    let text = std::str::from_utf8(&plain).map_err(|_| "its secret is not text".to_owned())?;
    Ok(Secret::new(text))
}

/// Binds a sealed secret to its credential.
fn context(name: &str) -> Vec<u8> {
    format!("credential/{name}").into_bytes()
}
