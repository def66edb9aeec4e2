//! The closed table of errors that callers see. Nothing else picks a status.

use std::time::Duration;

use http::StatusCode;
use sluicegate_dialect::{Fault, InvalidCall, Unfit, redact};
use sluicegate_model::{Outcome, outcome::Blame, resource::limit::Dimension};
use sluicegate_protocol::pool::{Down, State};

use crate::quota::{LimitFacts, Why};

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A limit of ours refused.
    Limited(Box<LimitFacts>),
    /// What the request uses could not be written down.
    JournalFull,
    ShuttingDown,
    /// The caller's connection took nothing for too long.
    SlowReader,
    /// Every attempt failed; this is the last one's fault.
    Upstream {
        fault: Fault,
        provider: String,
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
                    "unknown path {path}; this gateway serves /v1/chat/completions, /v1/completions, /v1/embeddings and /v1/models"
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
            Self::NoKey { model, down } => no_key(model, *down),
            Self::Limited(facts) => limited(facts),
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
            Self::SlowReader => row(
                StatusCode::REQUEST_TIMEOUT,
                INVALID,
                "client_too_slow",
                "the answer was not read for a minute".into(),
            ),
            Self::Upstream { fault, .. } => upstream(fault),
        }
    }

    /// The error code that the caller sees.
    pub fn code(&self) -> String {
        self.shown().code
    }

    /// Whose doing it is, as far as limits are concerned.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Upstream { fault, .. } => fault.outcome.blame(),
            _ => Blame::Nobody,
        }
    }

    /// What the access record says became of the request.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Upstream { fault, .. } => fault.outcome.name(),
            _ => "rejected",
        }
    }
}

/// What callers see while every key is out of use: as if the upstream had said it once more.
fn no_key(model: &str, down: Down) -> Shown {
    let left = Some(Duration::from_millis(down.left_ms));
    let (status, kind, code, why, retry) = match down.state {
        State::Resting if down.operator => {
            (StatusCode::SERVICE_UNAVAILABLE, "server_error", "no_target", "is set to rest", left)
        }
        State::Resting => (
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limit_error",
            "upstream_rate_limited",
            "rests because the upstream provider limits the rate of requests",
            left,
        ),
        State::Exhausted => (
            StatusCode::TOO_MANY_REQUESTS,
            "insufficient_quota",
            "insufficient_quota",
            "has used up its quota with the upstream provider",
            left,
        ),
        State::Refused => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "upstream_auth_failed",
            "is refused by the upstream provider",
            None,
        ),
        State::Suspended => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "upstream_permission_denied",
            "may not be used for it with the upstream provider",
            None,
        ),
        State::ModelMissing => (
            StatusCode::NOT_FOUND,
            "invalid_request_error",
            "model_not_found",
            "finds that the upstream provider does not serve it",
            None,
        ),
    };
    let message = format!("every key of the gateway for the model '{model}' {why}");
    let code = code.to_owned();
    Shown { status, kind, code, message, param: None, retry }
}

/// What a limit's refusal looks like from outside.
fn limited(facts: &LimitFacts) -> Shown {
    let (status, kind, code) = match facts.why {
        Why::Exhausted | Why::ShareUsedUp => {
            let code = match facts.dimension {
                Dimension::Cost => "insufficient_quota",
                _ => "rate_limit_exceeded",
            };
            (StatusCode::TOO_MANY_REQUESTS, facts.dimension.name(), code)
        }
        Why::TooLarge => {
            (StatusCode::TOO_MANY_REQUESTS, facts.dimension.name(), "request_exceeds_limit")
        }
        Why::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "server_error", "limit_unavailable"),
    };
    Shown {
        status,
        kind,
        code: code.to_owned(),
        message: facts.message(),
        param: None,
        // The same request never fits.
        retry: (facts.why != Why::TooLarge).then(|| Duration::from_millis(facts.retry_ms)),
    }
}

/// Longest wait that callers are told. A key may rest until the next month, but by then another may
/// be there.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What an upstream's failure looks like from outside. Its own words pass only where the caller is
/// at fault, and then redacted; our key, its account and its address are nobody's business.
fn upstream(fault: &Fault) -> Shown {
    let own_words = |otherwise: &str| {
        fault
            .message
            .as_deref()
            .map(redact::message)
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| otherwise.to_owned())
    };
    let caller_status = || {
        let status = fault.status.and_then(|status| StatusCode::from_u16(status).ok());
        status.filter(StatusCode::is_client_error).unwrap_or(StatusCode::BAD_REQUEST)
    };
    let short = Some(Duration::from_secs(1));
    let (status, kind, code, message, wait): (_, _, _, String, _) = match fault.outcome {
        Outcome::RateLimited => (
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limit_error",
            "upstream_rate_limited",
            "the upstream provider limits the rate of requests".into(),
            short,
        ),
        Outcome::QuotaExhausted => (
            StatusCode::TOO_MANY_REQUESTS,
            "insufficient_quota",
            "insufficient_quota",
            "the gateway's quota with the upstream provider is used up".into(),
            None,
        ),
        Outcome::Overloaded => (
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            "upstream_overloaded",
            "the upstream provider is overloaded".into(),
            short,
        ),
        Outcome::KeyRefused => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "upstream_auth_failed",
            "the upstream provider did not accept the gateway's credential".into(),
            None,
        ),
        Outcome::PermissionDenied => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "upstream_permission_denied",
            "the upstream provider does not permit this request to the gateway".into(),
            None,
        ),
        Outcome::ModelMissing => (
            StatusCode::NOT_FOUND,
            "invalid_request_error",
            "model_not_found",
            "the upstream provider does not serve this model".into(),
            None,
        ),
        Outcome::InvalidRequest => (
            caller_status(),
            "invalid_request_error",
            "invalid_request",
            own_words("the upstream provider refused the request as invalid"),
            None,
        ),
        Outcome::ContextTooLong => (
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            "context_length_exceeded",
            own_words("the request does not fit into the model's context"),
            None,
        ),
        Outcome::ContentFiltered => (
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            "content_filter",
            own_words("the upstream provider's content policy stopped the request"),
            None,
        ),
        Outcome::Timeout => (
            StatusCode::GATEWAY_TIMEOUT,
            "server_error",
            "upstream_timeout",
            "the upstream provider did not answer in time".into(),
            None,
        ),
        Outcome::Network => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "upstream_unreachable",
            "the connection to the upstream provider failed".into(),
            None,
        ),
        Outcome::StreamInterrupted | Outcome::NoFinishReason => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "stream_interrupted",
            "the upstream provider broke the answer off".into(),
            None,
        ),
        Outcome::ProviderError | Outcome::Success | Outcome::ClientCancelled => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "upstream_error",
            "the upstream provider failed".into(),
            None,
        ),
    };
    // What the upstream asks for holds for every failure that is worth a retry.
    let asked = fault.wait.map(|asked| asked.min(LONGEST));
    // How long a key rests that may not do this is nothing to wait for.
    let passes = fault.outcome.may_fail_over()
        && !matches!(
            fault.outcome,
            Outcome::KeyRefused | Outcome::PermissionDenied | Outcome::ModelMissing
        );
    let retry = if passes { asked.or(wait) } else { None };
    Shown {
        status,
        kind,
        code: own_code(fault).unwrap_or_else(|| code.to_owned()),
        message,
        param: fault
            .param
            .clone()
            .filter(|_| status.is_client_error())
            .map(|param| redact::message(&param)),
        retry,
    }
}

/// The upstream's own code, where the caller is at fault and may know what to do about it.
fn own_code(fault: &Fault) -> Option<String> {
    let code = fault.code.as_deref().filter(|_| fault.outcome == Outcome::InvalidRequest)?;
    let is_word = (1..=64).contains(&code.len())
        && code.starts_with(|c: char| c.is_ascii_alphabetic())
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    is_word.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a5_the_callers_own_fault_keeps_its_words() {
        let mut fault = Fault::new(Outcome::InvalidRequest, "bad tool schema");
        fault.status = Some(422);
        fault.param = Some("tools".into());
        fault.code = Some("unsupported_value".into());
        let shown = Refusal::Upstream { fault, provider: "p".into() }.shown();
        assert_eq!(shown.status.as_u16(), 422);
        assert_eq!(shown.message, "bad tool schema");
        assert_eq!(shown.param.as_deref(), Some("tools"));
        assert_eq!(shown.code, "unsupported_value");
    }

    #[test]
    fn a8_near_misses_are_named() {
        let refusal = Refusal::UnknownModel { model: "GPT-4o".into(), near: vec!["gpt-4o".into()] };
        let shown = refusal.shown();
        assert_eq!(shown.status, StatusCode::NOT_FOUND);
        assert_eq!(shown.message, "the model 'GPT-4o' does not exist; did you mean 'gpt-4o'?");
    }
}
