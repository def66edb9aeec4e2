//! Why the control plane does not do what it is asked.

use std::time::Duration;

use sluicegate_model::{ResourceRef, Violations, seal::SealError};
use sluicegate_store::{Revision, StoreError, deferred::DeferredError};

/// One error for every operation of the control plane; a transport turns it into its own.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The request, or the configuration as it would become, is wrong.
    #[error("{}", faults(.0))]
    Invalid(Violations),
    /// A resource has another version than the caller expects.
    #[error("{}", moved(.0))]
    Conflict(Vec<Moved>),
    /// There is no such resource.
    #[error("{reference} does not exist")]
    NotFound { reference: ResourceRef, near: Option<String> },
    /// The idempotency key was used before, for something else.
    #[error("the idempotency key was used for other changes; give every change a key of its own")]
    IdempotencyKeyReused,
    /// The history does not reach back to the revision that is to be returned to.
    #[error("revision {asked} is no longer in the history, which goes back to revision {oldest}")]
    HistoryTooShort { asked: Revision, oldest: Revision },
    /// The revision that is to be returned to is still to come.
    #[error("revision {asked} is newer than the configuration, which is at revision {head}")]
    RevisionAhead { asked: Revision, head: Revision },
    /// Others changed the configuration faster than this change could be checked.
    #[error("the configuration changed {attempts} times while this change was checked; try again")]
    Contended { attempts: u32 },
    /// The store does not answer, or refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller has no such deferred request.
    #[error("there is no deferred request {id:?} of this caller")]
    UnknownRequest { id: String },
    /// A deferred request is too large, or there is no room for it.
    #[error(transparent)]
    Deferred(DeferredError),
    /// The store did not answer in the time that the start may take.
    #[error("the configuration store at {location} did not answer within {waited:?}: {last}")]
    StoreAway { location: String, waited: Duration, last: StoreError },
    /// Something in the store is not what this program writes.
    #[error("{key} in the store cannot be read: {reason}")]
    Corrupt { key: String, reason: String },
    /// A given token cannot be one.
    #[error("the {role} token is empty or holds characters that no header can carry")]
    BadToken { role: &'static str },
    /// The seal key is not the one that the store's secrets were sealed with.
    #[error(
        "the secrets in the store were sealed with another key: give that key with --seal-key-file, \
         as every replica must; if it is lost, start once with --reset-seal-key and apply the \
         provider keys again"
    )]
    ForeignSealKey,
    /// Sealing failed.
    #[error("a secret cannot be sealed: {0}")]
    Seal(#[from] SealError),
    /// The operating system gave no randomness.
    #[error("the operating system gives no random numbers: {0}")]
    NoRandomness(String),
}

impl From<Violations> for CoreError {
    fn from(violations: Violations) -> Self {
        Self::Invalid(violations)
    }
}

impl From<DeferredError> for CoreError {
    fn from(error: DeferredError) -> Self {
        match error {
            DeferredError::Store(StoreError::TooLarge { .. })
            | DeferredError::Full { .. }
            | DeferredError::ShareFull { .. } => Self::Deferred(error),
            DeferredError::Store(error) => Self::Store(error),
        }
    }
}

/// A resource whose version is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub reference: ResourceRef,
    /// 0: it must not exist.
    pub expected: Revision,
    /// 0: it does not exist.
    pub actual: Revision,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.expected, self.actual) {
            (0, actual) => write!(f, "must not exist, but has version {actual}"),
            (expected, 0) => write!(f, "expected version {expected}, but it does not exist"),
            (expected, actual) => write!(f, "expected version {expected}, but it has {actual}"),
        }
    }
}

fn faults(violations: &Violations) -> String {
    match violations.0.as_slice() {
        [_] => "the request has a fault".to_owned(),
        all => format!("the request has {} faults", all.len()),
    }
}

fn moved(all: &[Moved]) -> String {
    match all {
        [only] => format!("{}: {only}", only.reference),
        all => format!("{} resources have other versions than expected", all.len()),
    }
}
