//! Bedrock Converse.

mod answer;
mod auth;
mod conversation;
pub mod frame;
mod request;
mod rows;
mod signature;

pub use self::auth::secret;
pub(super) use self::rows::ROWS;

use serde_json::{Value, json};

use super::answer::Answer;
use super::read::{self, Refusal};
use super::scene::Scene;
use crate::upstream::{AUTO, Call, Step};

pub(super) fn play(scene: &Scene, call: &Call) -> Vec<Step> {
    let key = match auth::key(call) {
        Ok(key) => key,
        Err(refusal) => return refuse(call, &refusal),
    };
    if let Some(row) = scene.turns_away(Some(&key)) {
        return row.steps();
    }
    let path = read::path(call).strip_prefix("/model/").and_then(|rest| rest.rsplit_once('/'));
    let result = match (call.method.as_str(), path) {
        ("POST", Some((model, "converse"))) => generate(scene, call, model, false),
        ("POST", Some((model, "converse-stream"))) => generate(scene, call, model, true),
        _ => Err(Refusal::new(404, "UnknownOperationException", "The operation is not known.")),
    };
    result.unwrap_or_else(|refusal| refuse(call, &refusal))
}

fn generate(scene: &Scene, call: &Call, model: &str, stream: bool) -> Result<Vec<Step>, Refusal> {
    let body = read::object(call).ok_or_else(|| {
        Refusal::new(400, "SerializationException", "The body is no JSON object.")
    })?;
    let mut ask = request::read(&read::decoded(model), &body)?;
    ask.stream = stream;
    let answer = match Answer::to(&ask, scene.dialect) {
        Ok(answer) => answer,
        Err(row) => return Ok(row.steps()),
    };
    Ok(match stream {
        true => answer::stream(scene, call, &answer),
        false => reply(call, &answer::whole(call, &answer)),
    })
}

/// A refusal with status 400.
fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "ValidationException", message)
}

fn refuse(call: &Call, refusal: &Refusal) -> Vec<Step> {
    let class = format!("{}:http://internal.amazon.com/coral/com.amazon.bedrock/", refusal.code);
    let mut headers = headers(call, "application/json");
    headers.push(("x-amzn-errortype".into(), class));
    headers.push(("content-length".into(), AUTO.into()));
    let body = json!({"message": refusal.message}).to_string();
    vec![Step::Head(refusal.status, headers), Step::send(body), Step::End]
}

fn reply(call: &Call, body: &Value) -> Vec<Step> {
    let mut headers = headers(call, "application/json");
    headers.push(("content-length".into(), AUTO.into()));
    vec![Step::Head(200, headers), Step::send(body.to_string()), Step::End]
}

fn headers(call: &Call, content_type: &str) -> Vec<(String, String)> {
    vec![
        ("content-type".into(), content_type.into()),
        ("x-amzn-requestid".into(), format!("00000000-0000-4000-8000-{:012}", call.number)),
    ]
}
