//! Failures of upstreams, and of the keys that are for them.

use std::time::Duration;

use http::StatusCode;
use sluicegate_dialect::{Fault, redact};
use sluicegate_model::Outcome;
use sluicegate_protocol::pool::{Down, State};

use super::Shown;

/// What callers see while every key is out of use: as if the upstream had said it once more.
pub(super) fn no_key(model: &str, down: Down) -> Shown {
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

/// Longest wait that callers are told. A key may rest until the next month, but by then another may
/// be there.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What an upstream's failure looks like from outside. Its own words pass only where the caller is
/// at fault, and then redacted; our key, its account and its address are nobody's business.
pub(super) fn failed(fault: &Fault) -> Shown {
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

/// Longest reason that callers are told, in characters.
const REASON: usize = 200;

/// The upstream's own words, redacted, for callers who want to know why. What it says of our keys, our
/// account and our rights is left out whole, and so is what broke inside of it: that is for the record.
pub(crate) fn reason(fault: &Fault) -> Option<String> {
    let private = matches!(
        fault.outcome,
        Outcome::KeyRefused
            | Outcome::PermissionDenied
            | Outcome::QuotaExhausted
            | Outcome::ProviderError
            | Outcome::Network
    );
    let words = fault.message.as_deref().filter(|_| !private).map(redact::message)?;
    Some(words.chars().take(REASON).collect()).filter(|words: &String| !words.is_empty())
}

/// The upstream's own code, where the caller is at fault and may know what to do about it.
fn own_code(fault: &Fault) -> Option<String> {
    let code = fault.code.as_deref().filter(|_| fault.outcome == Outcome::InvalidRequest)?;
    let is_word = (1..=64).contains(&code.len())
        && code.starts_with(|c: char| c.is_ascii_alphabetic())
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    // What is no private text is not changed by taking it out.
    (is_word && redact::message(code) == code).then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Refusal;
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
}
