//! The closed table of errors that callers see. Nothing else picks a status.

mod deferred;
mod limit;
mod upstream;

pub use deferred::Undeferred;
pub(crate) use upstream::reason;

use std::time::Duration;

use http::StatusCode;
use sluicegate_dialect::{Fault, InvalidCall, Unfit};
use sluicegate_flow::pressure::Shed;
use sluicegate_model::outcome::Blame;
use sluicegate_protocol::{
    breaker::{Refused, State},
    pool::Down,
};

use crate::{quota::LimitFacts, tasks::BadChoice};

/// Milliseconds from its arrival on that a caller waits for an answer to end.
pub const DEADLINE: &str = "x-request-timeout-ms";

/// When to try again what a degradation does not let through: nobody knows its end.
const MAINTENANCE: Duration = Duration::from_secs(10);

/// No caller is told to wait longer for a target. Milliseconds.
const MOST_TOLD_MS: u64 = 600_000;

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    NotReady,
    NoSuchPath {
        path: String,
    },
    MethodNotAllowed {
        allow: &'static str,
    },
    MissingKey,
    BadAuthorization(&'static str),
    UnknownKey,
    KeyDisabled,
    KeyExpired,
    BodyTooLarge {
        limit: usize,
    },
    BodyBroken(String),
    BodyTimeout,
    UnknownCoding(String),
    Invalid(InvalidCall),
    /// No target of the model can take the request as it is.
    Unfit(Unfit),
    UnknownModel {
        model: String,
        near: Vec<String>,
    },
    ModelNotAllowed {
        model: String,
    },
    /// A header of ours says something that is not understood.
    BadHeader {
        name: &'static str,
        takes: &'static str,
    },
    /// The caller may not choose so which model answers.
    BadRoute(BadChoice),
    /// The model has no target that serves this endpoint, or none with a usable key.
    NoTarget {
        model: String,
        endpoint: &'static str,
        served: bool,
    },
    /// Every key that the model can be asked with is out of use; why, of the one that comes back first.
    NoKey {
        model: String,
        down: Down,
    },
    /// Every target of the model that could take the request is left alone, since it fails; this is
    /// the one that may be asked first.
    Shut {
        model: String,
        provider: String,
        refused: Refused,
    },
    /// Every target of the model is full; this is the one that has room first.
    Full {
        model: String,
        provider: String,
        wait_ms: u64,
    },
    /// A degradation lets nothing through; what callers are told.
    Maintenance {
        text: String,
    },
    /// The process cannot stand more; less urgent requests are turned away first.
    Shed(Shed),
    /// A limit of ours refused.
    Limited(Box<LimitFacts>),
    /// What the request uses could not be written down.
    JournalFull,
    ShuttingDown,
    /// The request was in flight when two targets died: it is sent to none for so long.
    Poison {
        left_ms: u64,
    },
    /// The caller's connection took nothing for too long.
    SlowReader,
    /// The caller's own time was over before an answer had begun.
    DeadlineExceeded,
    /// Every attempt failed; this is the last one's fault.
    Upstream {
        fault: Fault,
        provider: String,
    },
    /// Its caller wants it to be kept for later.
    Deferral(Undeferred),
    /// It was refused, and is not kept for later though its model says so.
    NotKept {
        refusal: Box<Self>,
        why: Undeferred,
    },
    /// There is no such request of this caller.
    UnknownDeferred {
        id: String,
    },
    /// A request that was kept for later was begun so often, and never ended.
    GivenUp {
        claims: u64,
    },
    /// The answer to a request that was kept for later is too large to be kept.
    AnswerTooLarge {
        limit: usize,
    },
}

/// A row of the table.
#[derive(Debug)]
pub struct Shown {
    pub status: StatusCode,
    /// OpenAI's `type`.
    pub kind: &'static str,
    pub code: String,
    pub message: String,
    /// The request member that is to blame.
    pub param: Option<String>,
    /// When to try again.
    pub retry: Option<Duration>,
}

impl Shown {
    /// Is the same request worth another try?
    pub fn is_retryable(&self) -> bool {
        self.retry.is_some() || matches!(self.status.as_u16(), 408 | 502..=504)
    }
}

impl Refusal {
    /// What the caller sees.
    pub fn shown(&self) -> Shown {
        const INVALID: &str = "invalid_request_error";
        let row = |status, kind, code: &str, message: String| Shown {
            status,
            kind,
            code: String::from(code),
            message,
            param: None,
            retry: None,
        };
        match self {
            Self::NotReady => Shown {
                retry: Some(Duration::from_secs(1)),
                ..row(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "not_ready",
                    "the gateway has no policy yet; try again shortly".into(),
                )
            },
            Self::NoSuchPath { path } => row(
                StatusCode::NOT_FOUND,
                INVALID,
                "unknown_url",
                format!(
                    "unknown path {path}; this gateway serves /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models and /v1/deferred/ID"
                ),
            ),
            Self::MethodNotAllowed { allow } => row(
                StatusCode::METHOD_NOT_ALLOWED,
                INVALID,
                "method_not_allowed",
                format!("this path takes {allow}"),
            ),
            Self::MissingKey => row(
                StatusCode::UNAUTHORIZED,
                INVALID,
                "missing_api_key",
                "no API key given; send 'Authorization: Bearer KEY'".into(),
            ),
            Self::BadAuthorization(what) => {
                row(StatusCode::UNAUTHORIZED, INVALID, "invalid_api_key", (*what).to_owned())
            }
            Self::UnknownKey => row(
                StatusCode::UNAUTHORIZED,
                INVALID,
                "invalid_api_key",
                "the API key is not known to this gateway".into(),
            ),
            Self::KeyDisabled => row(
                StatusCode::UNAUTHORIZED,
                INVALID,
                "api_key_disabled",
                "the API key is disabled".into(),
            ),
            Self::KeyExpired => row(
                StatusCode::UNAUTHORIZED,
                INVALID,
                "api_key_expired",
                "the API key has expired".into(),
            ),
            Self::BodyTooLarge { limit } => row(
                StatusCode::PAYLOAD_TOO_LARGE,
                INVALID,
                "request_too_large",
                format!("the request body is over the gateway's limit of {limit} bytes"),
            ),
            Self::BodyBroken(what) => row(
                StatusCode::BAD_REQUEST,
                INVALID,
                "invalid_body",
                format!("the request body cannot be read: {what}"),
            ),
            Self::BodyTimeout => row(
                StatusCode::REQUEST_TIMEOUT,
                INVALID,
                "request_timeout",
                "the request body did not arrive in time".into(),
            ),
            Self::UnknownCoding(message) => row(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                INVALID,
                "unsupported_content_encoding",
                message.clone(),
            ),
            Self::Invalid(fault) => Shown {
                param: fault.param().map(str::to_owned),
                ..row(StatusCode::BAD_REQUEST, INVALID, "invalid_request", fault.to_string())
            },
            Self::Unfit(unfit) => Shown {
                param: Some(unfit.param.clone()).filter(|param| !param.is_empty()),
                ..row(StatusCode::BAD_REQUEST, INVALID, unfit.code, unfit.message.clone())
            },
            Self::UnknownModel { model, near } => {
                let hint = match near.as_slice() {
                    [] => "GET /v1/models lists the models of this key".to_owned(),
                    near => format!(
                        "did you mean {}?",
                        near.iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(" or ")
                    ),
                };
                Shown {
                    param: Some("model".into()),
                    ..row(
                        StatusCode::NOT_FOUND,
                        INVALID,
                        "model_not_found",
                        format!("the model '{model}' does not exist; {hint}"),
                    )
                }
            }
            Self::ModelNotAllowed { model } => Shown {
                param: Some("model".into()),
                ..row(
                    StatusCode::FORBIDDEN,
                    INVALID,
                    "model_not_allowed",
                    format!(
                        "this API key may not use the model '{model}'; GET /v1/models lists those it may"
                    ),
                )
            },
            Self::BadHeader { name, takes } => row(
                StatusCode::BAD_REQUEST,
                INVALID,
                "invalid_header",
                format!("the header {name} takes {takes}, once"),
            ),
            Self::BadRoute(fault) => {
                row(StatusCode::BAD_REQUEST, INVALID, "invalid_route", fault.to_string())
            }
            Self::NoTarget { model, served: true, .. } => row(
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                "no_target",
                format!("no provider of the model '{model}' has a usable key"),
            ),
            Self::NoTarget { model, endpoint, served: false } => Shown {
                param: Some("model".into()),
                ..row(
                    StatusCode::BAD_REQUEST,
                    INVALID,
                    "unsupported_endpoint",
                    format!("no provider of the model '{model}' serves {endpoint}"),
                )
            },
            Self::NoKey { model, down } => upstream::no_key(model, *down),
            Self::Shut { model, provider, refused } => Shown {
                // An operator's word may be taken back at any time.
                retry: Some(Duration::from_millis(refused.left_ms.min(MOST_TOLD_MS))),
                ..row(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "target_unavailable",
                    if refused.state == State::Ramping {
                        format!(
                            "the model '{model}' is unavailable: its provider '{provider}' is coming back: {}",
                            refused.reason
                        )
                    } else {
                        format!(
                            "the model '{model}' is unavailable: its provider '{provider}' is left alone for a while, since {}",
                            refused.reason
                        )
                    },
                )
            },
            Self::Full { model, provider, wait_ms } => Shown {
                retry: Some(Duration::from_millis(*wait_ms)),
                ..row(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "target_full",
                    format!(
                        "the model '{model}' is busy: its provider '{provider}' has as many requests under way as it takes"
                    ),
                )
            },
            Self::Maintenance { text } => Shown {
                retry: Some(MAINTENANCE),
                ..row(StatusCode::SERVICE_UNAVAILABLE, "server_error", "maintenance", text.clone())
            },
            Self::Shed(shed) => Shown {
                // Not all at once.
                retry: Some(Duration::from_millis(1_000 + fastrand::u64(..2_000))),
                ..row(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "gateway_overloaded",
                    format!("{shed}; try again later"),
                )
            },
            Self::Limited(facts) => limit::refused(facts),
            Self::JournalFull => Shown {
                retry: Some(Duration::from_secs(5)),
                ..row(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "usage_journal_full",
                    "the gateway cannot record usage at the moment; try again later".into(),
                )
            },
            Self::ShuttingDown => Shown {
                retry: Some(Duration::from_secs(1)),
                ..row(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "gateway_shutting_down",
                    "the gateway is shutting down; try again".into(),
                )
            },
            Self::Poison { left_ms } => row(
                StatusCode::UNPROCESSABLE_ENTITY,
                INVALID,
                "poison_request",
                format!(
                    "two targets died while they worked on this request: it is not sent to any for {} s",
                    left_ms.div_ceil(1_000)
                ),
            ),
            Self::SlowReader => row(
                StatusCode::REQUEST_TIMEOUT,
                INVALID,
                "client_too_slow",
                "the answer was not read for a minute".into(),
            ),
            Self::DeadlineExceeded => row(
                StatusCode::GATEWAY_TIMEOUT,
                "server_error",
                "deadline_exceeded",
                format!("no answer had begun within the time that {DEADLINE} gives"),
            ),
            Self::Upstream { fault, .. } => upstream::failed(fault),
            Self::Deferral(why) => deferred::refused(why),
            Self::NotKept { refusal, why } => {
                let shown = refusal.shown();
                let message = format!("{}; {why}", shown.message);
                Shown { message, ..shown }
            }
            Self::UnknownDeferred { id } => row(
                StatusCode::NOT_FOUND,
                INVALID,
                "deferred_not_found",
                format!("there is no deferred request '{id}' of this API key"),
            ),
            Self::GivenUp { claims } => row(
                StatusCode::BAD_GATEWAY,
                "server_error",
                "deferred_given_up",
                format!("the request was begun {claims} times and never ended"),
            ),
            Self::AnswerTooLarge { limit } => row(
                StatusCode::BAD_GATEWAY,
                "server_error",
                "answer_too_large",
                format!("the answer is larger than the {limit} bytes that are kept of one"),
            ),
        }
    }

    /// The refusal itself, whatever else is said beside it.
    pub(crate) fn cause(&self) -> &Self {
        match self {
            Self::NotKept { refusal, .. } => refusal.cause(),
            itself => itself,
        }
    }

    /// The error code that the caller sees.
    pub fn code(&self) -> String {
        self.shown().code
    }

    /// Whose doing it is, as far as limits are concerned.
    pub fn blame(&self) -> Blame {
        match self.cause() {
            Self::Upstream { fault, .. } => fault.outcome.blame(),
            _ => Blame::Nobody,
        }
    }

    /// What the access record says became of the request.
    pub fn outcome(&self) -> &'static str {
        match self.cause() {
            Self::Upstream { fault, .. } => fault.outcome.name(),
            _ => "rejected",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a8_near_misses_are_named() {
        let refusal = Refusal::UnknownModel { model: "GPT-4o".into(), near: vec!["gpt-4o".into()] };
        let shown = refusal.shown();
        assert_eq!(shown.status, StatusCode::NOT_FOUND);
        assert_eq!(shown.message, "the model 'GPT-4o' does not exist; did you mean 'gpt-4o'?");
    }
}
