//! Files that a role keeps: folders, tokens, keys. All of them for their owner alone.

use std::{fs, io, os::unix::fs::DirBuilderExt, path::Path};

use anyhow::Context;
use sluicegate_model::{seal::SealKey, secret::Secret};
use tokio::net::TcpListener;

use crate::private::{self, Existing};

/// Makes the folder if it is missing.
///
/// # Errors
/// With the folder's name.
pub(super) fn directory(path: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make the state folder {}", path.display()))
}

/// Writes a file that only its owner reads, in place of one that is there.
///
/// # Errors
/// With the file's name.
pub(super) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    private::write(path, text, Existing::Replace)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A token in a file; `None` when there is no such file.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn read_token(path: &Path) -> anyhow::Result<Option<Secret>> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Ok(Some(Secret::new(text.trim()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// A token from the environment; `None` when it is not set.
pub(super) fn token_from_env(name: &str) -> Option<Secret> {
    std::env::var(name).ok().filter(|token| !token.trim().is_empty()).map(|t| Secret::new(t.trim()))
}

/// The key that secrets are stored under; made at the first start.
///
/// # Errors
/// When the file holds no key, or cannot be read or made.
pub(super) fn seal_key(path: &Path) -> anyhow::Result<SealKey> {
    match fs::read_to_string(path) {
        Ok(text) => {
            SealKey::parse(&text).with_context(|| format!("the seal key file {}", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = SealKey::generate()?;
            write_private(path, &format!("{}\n", key.to_text().as_str()))?;
            Ok(key)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Listens, or says whose address it was.
///
/// # Errors
/// When the address is taken or not the host's.
pub(super) async fn listen(
    what: &str,
    option: &str,
    address: std::net::SocketAddr,
) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "{what}: address {address} is in use; stop what listens there, or give {option} another one"
        ),
        _ => anyhow::anyhow!("{what}: cannot listen on {address}: {error}"),
    })
}
