//! The errors of servers that people run themselves.

use super::{HTML, IS_HTML, error};
use crate::providers::rows::Meaning::{
    AuthFailed, Cancelled, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    ProviderError, QuotaExhausted,
};
use crate::providers::rows::{ErrorRow, row};

/// The shape without a wrapper; parameter and code as JSON.
macro_rules! flat {
    ($message:literal, $kind:literal, $param:literal, $code:literal) => {
        concat!(
            r#"{"object":"error","message":""#,
            $message,
            r#"","type":""#,
            $kind,
            r#"","param":"#,
            $param,
            r#","code":"#,
            $code,
            "}"
        )
    };
}

const PLAIN: &[(&str, &str)] = &[("content-type", "text/plain; charset=utf-8")];
const BASIC: &[(&str, &str)] = &[("content-type", "text/plain"), ("www-authenticate", "Basic")];

pub(super) const VLLM: &[ErrorRow] = &[
    row(
        "BadRequestError",
        400,
        InvalidRequest,
        error!("The request is not valid.", r#""BadRequestError""#, "null", "400"),
    ),
    row(
        "BadRequestError.old",
        400,
        InvalidRequest,
        flat!("The request is not valid.", "BadRequestError", "null", "400"),
    ),
    row(
        "input_tokens",
        400,
        ContextLengthExceeded,
        error!(
            "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
            r#""BadRequestError""#, r#""input_tokens""#, "400"
        ),
    ),
    row(
        "max_tokens",
        400,
        ContextLengthExceeded,
        error!(
            "'max_tokens' or 'max_completion_tokens' is too large: 5000.",
            r#""BadRequestError""#, r#""max_tokens""#, "400"
        ),
    ),
    row("Unauthorized", 401, AuthFailed, r#"{"error":"Unauthorized"}"#),
    row(
        "NotFoundError",
        404,
        ModelNotFound,
        error!("The model `missing` does not exist.", r#""NotFoundError""#, r#""model""#, "404"),
    ),
    row("detail", 404, InvalidRequest, r#"{"detail":"Not Found"}"#),
    row(
        "422",
        422,
        InvalidRequest,
        r#"{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}"#,
    ),
    row(
        "InternalServerError",
        500,
        ProviderError,
        error!("EngineCore encountered an issue.", r#""InternalServerError""#, "null", "500"),
    ),
    row("text", 500, ProviderError, "Internal Server Error").with(PLAIN),
    row(
        "NotImplementedError",
        501,
        InvalidRequest,
        error!("This is not implemented.", r#""NotImplementedError""#, "null", "501"),
    ),
    row(
        "queue",
        503,
        Overloaded,
        error!(
            "The server has too many queued requests.",
            r#""ServiceUnavailableError""#, "null", "503"
        ),
    ),
    row("bad_gateway", 502, ProviderError, HTML).with(IS_HTML),
];

pub(super) const SGLANG: &[ErrorRow] = &[
    row(
        "BadRequestError",
        400,
        InvalidRequest,
        flat!("The request is not valid.", "BadRequestError", "null", "400"),
    ),
    row(
        "context",
        400,
        ContextLengthExceeded,
        flat!(
            "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            "BadRequestError",
            "null",
            "400"
        ),
    ),
    row("Unauthorized", 401, AuthFailed, r#"{"error":"Unauthorized"}"#),
    row(
        "NotFoundError",
        404,
        ModelNotFound,
        flat!("The model `missing` does not exist.", "NotFoundError", r#""model""#, "404"),
    ),
    row(
        "InternalServerError",
        500,
        ProviderError,
        flat!("Internal server error: CUDA error", "InternalServerError", "null", "500"),
    ),
    row(
        "queue",
        503,
        Overloaded,
        flat!("The request queue is full.", "ServiceUnavailableError", "null", "503"),
    ),
    row("bad_gateway", 502, ProviderError, HTML).with(IS_HTML),
];

pub(super) const OLLAMA: &[ErrorRow] = &[
    row(
        "400",
        400,
        InvalidRequest,
        error!("invalid request", r#""invalid_request_error""#, "null", "null"),
    ),
    row(
        "401",
        401,
        AuthFailed,
        r#"{"error":"unauthorized","signin_url":"https://ollama.com/connect"}"#,
    ),
    row(
        "404",
        404,
        ModelNotFound,
        error!("model 'missing' not found", r#""not_found_error""#, "null", "null"),
    ),
    row("404.native", 404, ModelNotFound, r#"{"error":"model 'missing' not found"}"#),
    row(
        "429",
        429,
        QuotaExhausted,
        r#""you've reached your hourly usage limit, please upgrade to continue""#,
    ),
    row("499", 499, Cancelled, error!("context canceled", r#""api_error""#, "null", "null")),
    row(
        "500",
        500,
        ProviderError,
        error!(
            "llama runner process has terminated: out of memory",
            r#""api_error""#, "null", "null"
        ),
    ),
    row("502", 502, ProviderError, error!("upstream error", r#""api_error""#, "null", "null")),
    row(
        "503",
        503,
        Overloaded,
        error!(
            "server busy, please try again.  maximum pending requests exceeded",
            r#""api_error""#, "null", "null"
        ),
    ),
];

pub(super) const QWEN_DEMO: &[ErrorRow] = &[
    row("400", 400, InvalidRequest, r#"{"detail":"Invalid request: Expecting role user."}"#),
    row("401", 401, AuthFailed, "").with(BASIC),
    row(
        "422",
        422,
        InvalidRequest,
        r#"{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}"#,
    ),
    row("500", 500, ProviderError, "Internal Server Error").with(PLAIN),
];
