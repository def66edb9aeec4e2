//! DashScope in its native format.

mod answer;
mod embeddings;
mod messages;
mod request;
mod rows;

pub(super) use self::rows::ROWS;

use serde_json::{Value, json};

use super::Dialect;
use super::answer::Answer;
use super::read::{self, Refusal};
use super::rows::{self as all_rows, ErrorRow};
use super::scene::Scene;
use crate::upstream::{AUTO, Call, Step};

/// Which of the two services for text is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Text,
    Multimodal,
}

pub(super) fn play(scene: &Scene, call: &Call) -> Vec<Step> {
    let row = match call.bearer() {
        None => all_rows::named(Dialect::DashScope, "InvalidApiKey.none"),
        key => scene.turns_away(key),
    };
    if let Some(row) = row {
        return error(call, row);
    }
    let path = read::path(call).strip_prefix("/api/v1/services/").unwrap_or_default();
    let result = match (call.method.as_str(), path) {
        ("POST", "aigc/text-generation/generation") => generate(scene, call, Service::Text),
        ("POST", "aigc/multimodal-generation/generation") => {
            generate(scene, call, Service::Multimodal)
        }
        ("POST", "embeddings/text-embedding/text-embedding") => embeddings::embed(call),
        _ => Err(invalid("InvalidURL", "url error, please check url！")),
    };
    result.unwrap_or_else(|refusal| {
        let body = json!({
            "code": refusal.code, "message": refusal.message, "request_id": request_id(call),
        });
        failed(call, refusal.status, &body.to_string())
    })
}

fn generate(scene: &Scene, call: &Call, service: Service) -> Result<Vec<Step>, Refusal> {
    let body = read::object(call).ok_or_else(|| {
        invalid("InvalidParameter", "Required body invalid, please check the request body format.")
    })?;
    let wish = request::read(call, service, &body)?;
    let answer = match Answer::to(&wish.ask, scene.dialect) {
        Ok(answer) => answer,
        Err(row) => return Ok(error(call, row)),
    };
    Ok(match wish.ask.stream {
        true => answer::stream(scene, call, &wish, &answer),
        false => reply(call, &answer::whole(call, &wish, &answer)),
    })
}

/// A refusal with status 400.
fn invalid(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(400, code, message)
}

fn error(call: &Call, row: &ErrorRow) -> Vec<Step> {
    // An unknown model is told in the compatible format, whatever was asked for.
    if row.status == 404 || !asks_for_events(call) {
        row.steps()
    } else {
        failed(call, row.status, row.body)
    }
}

/// An error. Who asked for events gets one, though the header says that it is JSON.
fn failed(call: &Call, status: u16, body: &str) -> Vec<Step> {
    let body = match asks_for_events(call) {
        true => format!("id:1\nevent:error\n:HTTP_STATUS/{status}\ndata:{body}\n\n"),
        false => body.to_owned(),
    };
    let headers = [("content-type", "application/json"), ("content-length", AUTO)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vec![Step::Head(status, headers), Step::send(body), Step::End]
}

fn reply(call: &Call, body: &Value) -> Vec<Step> {
    let headers = vec![
        ("content-type".into(), "application/json".into()),
        ("x-request-id".into(), request_id(call)),
        ("content-length".into(), AUTO.into()),
    ];
    vec![Step::Head(200, headers), Step::send(body.to_string()), Step::End]
}

fn asks_for_events(call: &Call) -> bool {
    call.header("x-dashscope-sse").is_some_and(|value| value.eq_ignore_ascii_case("enable"))
}

fn request_id(call: &Call) -> String {
    format!("7f1c0000-0000-4000-8000-{:012}", call.number)
}
