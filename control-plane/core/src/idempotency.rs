//! Doing a call once that is sent more than once.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sluicegate_model::{Violation, Violations, path::Path, schema::to_json};
use sluicegate_store::{ConfigStore, Op, Precondition, Revision};

use crate::{
    apply::{Desire, Request},
    error::CoreError,
    keys,
};

/// How long a key is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Longest key, in characters.
const MAX_KEY: usize = 128;

/// A call's claim on its key.
#[derive(Debug)]
pub(crate) struct Claim {
    key: String,
    /// Digest of what the call wants.
    wants: String,
}

/// What became of a call.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    wants: String,
    /// Number of the change; absent when the call changed nothing.
    sequence: Option<u64>,
    /// Where the configuration stood, when the call changed nothing.
    revision: Revision,
}

/// An earlier call with the same key that wanted the same.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) revision: Revision,
    /// Number of its change; `None` when it changed nothing.
    pub(crate) sequence: Option<u64>,
}

impl Claim {
    /// The claim of a request; `None` when it brings no key.
    pub(crate) fn of(request: &Request) -> Result<Option<Self>, Violations> {
        let Some(key) = request.idempotency_key.as_ref().filter(|key| !key.is_empty()) else {
            return Ok(None);
        };
        if key.chars().count() > MAX_KEY {
            let violation = Violation::new(Path::root().field("idempotency_key"), "is too long");
            return Err(violation.hint(format!("use at most {MAX_KEY} characters")).into());
        }
        let key = keys::idempotency(&hex::encode(Sha256::digest(key.as_bytes())));
        Ok(Some(Self { key, wants: digest(request) }))
    }

    /// Looks for an earlier call.
    ///
    /// # Errors
    /// [`CoreError::IdempotencyKeyReused`] when it wanted something else.
    pub(crate) async fn earlier(
        &self,
        store: &dyn ConfigStore,
    ) -> Result<Option<Earlier>, CoreError> {
        let Some(entry) = store.get(&self.key).await? else { return Ok(None) };
        let kept: Kept = serde_json::from_slice(&entry.value).map_err(|error| {
            CoreError::Corrupt { key: self.key.clone(), reason: error.to_string() }
        })?;
        if kept.wants != self.wants {
            return Err(CoreError::IdempotencyKeyReused);
        }
        // A change's own revision is known only once it is done: it is the one that wrote the key.
        let revision = if kept.sequence.is_some() { entry.mod_revision } else { kept.revision };
        Ok(Some(Earlier { revision, sequence: kept.sequence }))
    }

    /// Demands that no other call has claimed the key.
    pub(crate) fn precondition(&self) -> Precondition {
        Precondition { key: self.key.clone(), mod_revision: 0 }
    }

    /// Writes the claim together with the change of this number, or with none.
    pub(crate) fn op(&self, sequence: Option<u64>, revision: Revision) -> Op {
        let kept = Kept { wants: self.wants.clone(), sequence, revision };
        let value = serde_json::to_vec(&kept).expect("strings and numbers have a JSON form");
        Op::Put { key: self.key.clone(), value: value.into(), ttl: Some(REMEMBERED) }
    }
}

/// Digest of the changes, independent of the order in which maps are kept in memory.
fn digest(request: &Request) -> String {
    let mut hasher = Sha256::new();
    let mut add = |part: &str| {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    };
    for change in &request.changes {
        match &change.desire {
            Desire::Put(wire) | Desire::Restore(wire) => {
                add("put");
                let mut canonical = String::new();
                write_sorted(&to_json(wire), &mut canonical);
                // Every kind has a form of its own, but two kinds may have the same fields.
                add(sluicegate_model::resource::reference_of(wire)
                    .map_or("", |reference| reference.kind.singular()));
                add(&canonical);
            }
            Desire::Delete(reference) => {
                add("delete");
                add(&reference.to_string());
            }
        }
        add(&format!("{:?}", change.expect_version));
    }
    add(&format!("{:?}", request.prune));
    hex::encode(hasher.finalize())
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut names: Vec<_> = map.iter().collect();
            names.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in names {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_sorted(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_sorted(item, out);
                out.push(',');
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
