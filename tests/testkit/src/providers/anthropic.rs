//! Anthropic Messages.

mod messages;
mod request;
mod rows;
mod stream;
mod whole;

pub(super) use self::rows::ROWS;

use serde_json::{Value, json};

use super::answer::Answer;
use super::read::{self, Refusal};
use super::scene::Scene;
use crate::upstream::{AUTO, Call, Step};

pub(super) fn play(scene: &Scene, call: &Call) -> Vec<Step> {
    let key = call.header("x-api-key").or_else(|| call.bearer());
    if let Some(row) = scene.turns_away(key) {
        return row.steps();
    }
    let result = match (call.method.as_str(), read::path(call)) {
        ("POST", "/v1/messages") => generate(scene, call),
        ("POST", "/v1/messages/count_tokens") => count(call),
        ("GET", "/v1/models") => Ok(reply(
            call,
            200,
            &json!({
                "data": [{"type": "model", "id": "m1", "display_name": "M1",
                    "created_at": "2026-01-01T00:00:00Z"}],
                "has_more": false, "first_id": "m1", "last_id": "m1",
            }),
        )),
        _ => Err(Refusal::new(404, "not_found_error", "Not Found")),
    };
    result.unwrap_or_else(|refusal| {
        let error = json!({"type": refusal.code, "message": refusal.message});
        let request_id = request_id(call);
        let body = json!({"type": "error", "error": error, "request_id": request_id});
        reply(call, refusal.status, &body)
    })
}

fn generate(scene: &Scene, call: &Call) -> Result<Vec<Step>, Refusal> {
    let ask = request::read(&head_and_body(call)?, true)?;
    let answer = match Answer::to(&ask, scene.dialect) {
        Ok(answer) => answer,
        Err(row) => return Ok(row.steps()),
    };
    if ask.stream {
        return Ok(stream::stream(scene, call, &ask, &answer));
    }
    Ok(reply(call, 200, &whole::whole(call, &ask, &answer)))
}

fn count(call: &Call) -> Result<Vec<Step>, Refusal> {
    let ask = request::read(&head_and_body(call)?, false)?;
    Ok(reply(call, 200, &json!({"input_tokens": ask.words})))
}

/// The body, if the headers are right.
fn head_and_body(call: &Call) -> Result<Value, Refusal> {
    if call.header("anthropic-version").is_none() {
        return Err(invalid("anthropic-version: header is required"));
    }
    if !call.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(invalid("content-type: must be application/json"));
    }
    read::object(call).ok_or_else(|| invalid("The request body is not valid JSON"))
}

/// A refusal with status 400.
fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "invalid_request_error", message)
}

fn request_id(call: &Call) -> String {
    format!("req_{:08}", call.number)
}

fn headers(call: &Call, content_type: &str) -> Vec<(String, String)> {
    vec![
        ("content-type".into(), content_type.into()),
        ("request-id".into(), request_id(call)),
        ("anthropic-organization-id".into(), "org-fake".into()),
    ]
}

fn reply(call: &Call, status: u16, body: &Value) -> Vec<Step> {
    let mut headers = headers(call, "application/json");
    headers.push(("content-length".into(), AUTO.into()));
    vec![Step::Head(status, headers), Step::send(body.to_string()), Step::End]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::{Dialect, error_rows};

    #[test]
    fn every_error_says_its_type_and_its_request() {
        for row in error_rows(Dialect::Anthropic).iter().filter(|row| row.status != 502) {
            let body: Value = serde_json::from_str(row.body).unwrap();
            assert_eq!(body["type"], "error", "{}", row.name);
            assert!(body["request_id"].is_string(), "{}", row.name);
        }
    }
}
