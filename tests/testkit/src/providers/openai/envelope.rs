//! Refusals in each provider's own form.

use serde_json::{Value, json};

use super::variant::Envelope;
use crate::providers::read::Refusal;
use crate::upstream::{AUTO, Step};

/// The answer that is this refusal.
pub(super) fn refuse(envelope: Envelope, refusal: &Refusal) -> Vec<Step> {
    let (status, body) = body(envelope, refusal);
    let headers = [("content-type", "application/json"), ("content-length", AUTO)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vec![Step::Head(status, headers), Step::send(body.to_string()), Step::End]
}

fn body(envelope: Envelope, refusal: &Refusal) -> (u16, Value) {
    let Refusal { status, code, message, param } = refusal;
    let status = *status;
    let missing = status == 404;
    let body = match envelope {
        Envelope::OpenAi => json!({"error": {
            "message": message, "type": "invalid_request_error", "param": param, "code": code,
        }}),
        Envelope::Azure if missing => {
            json!({"error": {"code": "404", "message": "Resource not found"}})
        }
        Envelope::Azure => json!({"error": {
            "message": message, "type": "invalid_request_error", "param": param, "code": code,
        }}),
        Envelope::DeepSeek => {
            // What cannot be read is a 400; what is wrong in it, a 422.
            let status = if *code == "invalid_value" && param.as_deref().is_some_and(is_number) {
                422
            } else {
                status
            };
            return (
                status,
                json!({"error": {
                    "message": message, "type": "invalid_request_error", "param": null,
                    "code": "invalid_request_error",
                }}),
            );
        }
        Envelope::Ark => json!({"error": {
            "code": if *code == "missing_required_parameter" { "MissingParameter" } else { "InvalidParameter" },
            "message": format!("{message} Request id: 02179000000000000000"),
            "param": param.clone().unwrap_or_default(),
            "type": if missing { "NotFound" } else { "BadRequest" },
        }}),
        Envelope::Zhipu => {
            let code = if missing { "1222" } else { "1210" };
            json!({"error": {"code": code, "message": message}})
        }
        Envelope::Qwen => json!({
            "error": {
                "message": message, "type": "invalid_request_error", "param": null,
                "code": "invalid_parameter_error",
            },
            "request_id": "9b000000-0000-4000-8000-000000000001",
        }),
        Envelope::Qianfan => {
            let about_messages = param.as_deref().is_some_and(|p| p.starts_with("messages"));
            let code = if about_messages { "invalid_messages" } else { "invalid_argument" };
            json!({
                "error": {"code": code, "message": message, "type": "invalid_request_error"},
                "id": "as-1",
            })
        }
        Envelope::Moonshot => {
            let kind = if missing { "resource_not_found_error" } else { "invalid_request_error" };
            json!({"error": {"message": message, "type": kind}})
        }
        Envelope::Mistral if missing => json!({"detail": "Not Found"}),
        Envelope::Mistral
            if *code == "unknown_parameter" || param.as_deref().is_some_and(is_number) =>
        {
            let kind = if *code == "unknown_parameter" { "extra_forbidden" } else { "value_error" };
            return (
                422,
                json!({"detail": [
                    {"type": kind, "loc": ["body", param], "msg": message},
                ]}),
            );
        }
        Envelope::Mistral => json!({
            "object": "error", "message": message, "type": "invalid_request_error", "param": null,
            "code": null,
        }),
        Envelope::Vllm if missing => json!({"detail": "Not Found"}),
        Envelope::Vllm => json!({"error": {
            "message": message, "type": "BadRequestError", "param": param, "code": status,
        }}),
        Envelope::SgLang if missing => json!({"detail": "Not Found"}),
        Envelope::SgLang => json!({
            "object": "error", "message": message, "type": "BadRequestError", "param": param,
            "code": status,
        }),
        Envelope::Ollama => json!({"error": {
            "message": message,
            "type": if missing { "not_found_error" } else { "invalid_request_error" },
            "param": null, "code": null,
        }}),
        Envelope::FastApi if missing => json!({"detail": "Not Found"}),
        Envelope::FastApi
            if *code == "invalid_type" || param.as_deref().is_some_and(|p| p.ends_with("role")) =>
        {
            return (
                422,
                json!({"detail": [
                    {"loc": ["body", "messages"], "msg": message, "type": "value_error"},
                ]}),
            );
        }
        Envelope::FastApi => json!({"detail": format!("Invalid request: {message}")}),
    };
    (status, body)
}

/// Whether a parameter is a plain number of the request.
fn is_number(param: &str) -> bool {
    matches!(
        param,
        "temperature"
            | "top_p"
            | "n"
            | "max_tokens"
            | "top_logprobs"
            | "presence_penalty"
            | "frequency_penalty"
    )
}
