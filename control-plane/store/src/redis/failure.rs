//! What an error of the Redis client means for us.

use ::redis::{ErrorKind, RedisError, ServerErrorKind};

use super::{KIND, NAME};
use crate::StoreError;

/// Codes of a server that cannot write at the moment: its disk, its memory, its replicas, a script
/// that does not end.
const PASSING: [&str; 4] = ["MISCONF", "OOM", "NOREPLICAS", "BUSY"];

/// What is to be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cure {
    /// Load the scripts, which the server has forgotten, and do it again.
    Load,
    /// This connection, or this server, is of no use at the moment.
    Leave,
    /// None: the server understood and will not do it.
    None,
}

pub(super) fn cure(error: &RedisError) -> Cure {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoScript) => Cure::Load,
        ErrorKind::Server(
            ServerErrorKind::NoPerm | ServerErrorKind::CrossSlot | ServerErrorKind::ResponseError,
        )
        | ErrorKind::UnexpectedReturnType => Cure::None,
        // A type that is not ours under a key of ours, for one.
        ErrorKind::Extension if !error.code().is_some_and(|code| PASSING.contains(&code)) => {
            Cure::None
        }
        // A replica, a server that still loads, and everything that went wrong on the way.
        _ => Cure::Leave,
    }
}

/// As the error of a call.
pub(super) fn store_error(error: &RedisError) -> StoreError {
    match cure(error) {
        Cure::None => StoreError::Refused { store: NAME, reason: reason(error) },
        Cure::Load | Cure::Leave => unavailable(reason(error)),
    }
}

/// The part of the error that tells people something.
pub(super) fn reason(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

pub(super) fn unavailable(reason: String) -> StoreError {
    StoreError::Unavailable { store: NAME, reason }
}

pub(super) fn misconfigured(reason: String) -> StoreError {
    StoreError::Misconfigured { store: KIND, reason }
}

/// An answer that no script of ours gives.
pub(super) fn unexpected(what: &str) -> StoreError {
    StoreError::Refused { store: NAME, reason: format!("{what} was answered in an unknown form") }
}
