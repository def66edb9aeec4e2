//! Is the seal key the one that the stored secrets were sealed with?
//!
//! A replica with another key would take the providers' keys from its data planes without anybody
//! noticing, so that it must not start.

use std::sync::Arc;

use sluicegate_model::seal::SealKey;
use sluicegate_proto::resource::v1::resource::Spec;
use sluicegate_store::{Commit, ConfigStore, Op, Precondition};

use crate::{error::CoreError, keys, secrets, state::State};

/// What is sealed to tell keys apart.
const PLAIN: &[u8] = b"sluicegate";

/// Compares the key with the one that the store was first used with. With `reset`, this key takes
/// the place of the other: secrets that it cannot open must be applied again.
///
/// # Errors
/// [`CoreError::ForeignSealKey`]; what the store says.
pub async fn check(
    store: &Arc<dyn ConfigStore>,
    state: &State,
    key: &SealKey,
    reset: bool,
) -> Result<(), CoreError> {
    let stored = store.get(keys::SEAL_CHECK).await?;
    let fits = match &stored {
        Some(entry) => key.open(keys::SEAL_CHECK.as_bytes(), &entry.value).is_ok(),
        // A store of before there was a check: what is sealed in it tells.
        None => opens_all(state, key),
    };
    if !fits && !reset {
        return Err(CoreError::ForeignSealKey);
    }
    if fits && stored.is_some() {
        return Ok(());
    }
    let sealed = key.seal(keys::SEAL_CHECK.as_bytes(), PLAIN)?;
    let precondition = Precondition {
        key: keys::SEAL_CHECK.to_owned(),
        mod_revision: stored.map_or(0, |entry| entry.mod_revision),
    };
    let write = Op::Put { key: keys::SEAL_CHECK.to_owned(), value: sealed.into(), ttl: None };
    let commit = Commit { preconditions: vec![precondition], ops: vec![write] };
    store.commit(commit).await?;
    // Another replica may have been first: whoever wrote, its key counts.
    match store.get(keys::SEAL_CHECK).await? {
        Some(entry) if key.open(keys::SEAL_CHECK.as_bytes(), &entry.value).is_ok() => Ok(()),
        _ => Err(CoreError::ForeignSealKey),
    }
}

fn opens_all(state: &State, key: &SealKey) -> bool {
    state.resources.values().all(|stored| match &stored.wire.spec {
        Some(Spec::Credential(spec)) => {
            spec.secret.as_ref().is_none_or(|sealed| secrets::open(key, &spec.name, sealed).is_ok())
        }
        _ => true,
    })
}
