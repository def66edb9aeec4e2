//! Refusals of keeping a request for later.

use std::time::Duration;

use http::StatusCode;

use super::Shown;

/// Why a request is not kept for later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undeferred {
    #[error("the model '{model}' does not take requests for later")]
    NotOffered { model: String },
    #[error("a stream cannot be kept for later; leave stream out")]
    Stream,
    #[error("requests that are kept for later are limited to {limit} bytes")]
    TooLarge { limit: usize },
    /// What a header says of it makes no sense.
    #[error("{0}")]
    Invalid(String),
    #[error("no more requests are kept for later at the moment: {0}")]
    NoRoom(String),
    /// With what the control planes' silence is put down to, which is for operators.
    #[error("requests cannot be kept for later at the moment")]
    Away(String),
}

/// When there may be room again.
const ROOM: Duration = Duration::from_secs(30);

/// What it looks like from outside where the caller wants just that.
pub(super) fn refused(why: &Undeferred) -> Shown {
    const INVALID: &str = "invalid_request_error";
    let (status, kind, code, retry) = match why {
        Undeferred::NotOffered { .. } | Undeferred::Stream => {
            (StatusCode::BAD_REQUEST, INVALID, "not_deferrable", None)
        }
        Undeferred::Invalid(_) => (StatusCode::BAD_REQUEST, INVALID, "invalid_deferral", None),
        Undeferred::TooLarge { .. } => {
            (StatusCode::PAYLOAD_TOO_LARGE, INVALID, "deferred_too_large", None)
        }
        Undeferred::NoRoom(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "server_error", "deferred_full", Some(ROOM))
        }
        Undeferred::Away(_) => {
            let soon = Some(Duration::from_secs(1));
            (StatusCode::SERVICE_UNAVAILABLE, "server_error", "deferred_unavailable", soon)
        }
    };
    let code = code.to_owned();
    Shown { status, kind, code, message: why.to_string(), param: None, retry }
}
