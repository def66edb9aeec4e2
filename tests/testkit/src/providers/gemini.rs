//! Gemini, the Developer API.

mod answer;
mod contents;
mod embeddings;
mod names;
mod request;
mod rows;
mod schema;

pub(super) use self::rows::ROWS;

use serde_json::{Value, json};

use super::answer::Answer;
use super::read::{self, Refusal};
use super::rows::ErrorRow;
use super::scene::Scene;
use crate::upstream::{AUTO, Call, Step};

const UNAUTHENTICATED: &str = "Method doesn't allow unregistered callers (callers without established identity). \
     Please use API Key or other form of API consumer identity to call this API.";

/// How the caller wants a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Whole,
    Events,
    /// One JSON list, piece by piece.
    List,
}

pub(super) fn play(scene: &Scene, call: &Call) -> Vec<Step> {
    let operation = Operation::of(call);
    let in_query = read::query(call, "key");
    let key = call.header("x-goog-api-key").or(in_query.as_deref()).or_else(|| call.bearer());
    let Some(key) = key else {
        return refuse(&Refusal::new(403, "PERMISSION_DENIED", UNAUTHENTICATED));
    };
    if let Some(row) = scene.turns_away(Some(key)) {
        return error(row, operation.delivery);
    }
    operation.answer(scene, call).unwrap_or_else(|refusal| refuse(&refusal))
}

/// What the path names: `/v1beta/models/MODEL:METHOD`.
struct Operation<'a> {
    model: String,
    method: &'a str,
    delivery: Delivery,
}

impl<'a> Operation<'a> {
    fn of(call: &'a Call) -> Self {
        let path = read::path(call);
        let rest = path.strip_prefix("/v1beta/").or_else(|| path.strip_prefix("/v1/"));
        let (resource, method) = rest.unwrap_or_default().split_once(':').unwrap_or_default();
        let model = read::decoded(resource.strip_prefix("models/").unwrap_or_default());
        let delivery = match method {
            "streamGenerateContent" if read::query(call, "alt").as_deref() == Some("sse") => {
                Delivery::Events
            }
            "streamGenerateContent" => Delivery::List,
            _ => Delivery::Whole,
        };
        Self { model, method, delivery }
    }

    fn answer(&self, scene: &Scene, call: &Call) -> Result<Vec<Step>, Refusal> {
        if call.method == "GET" && read::path(call).ends_with("/models") {
            let methods = ["generateContent", "streamGenerateContent", "embedContent"];
            let model = json!({"name": "models/m1", "supportedGenerationMethods": methods});
            return Ok(reply(200, &json!({"models": [model]})));
        }
        let known =
            ["generateContent", "streamGenerateContent", "embedContent", "batchEmbedContents"];
        if call.method != "POST" || self.model.is_empty() || !known.contains(&self.method) {
            return Err(Refusal::new(404, "NOT_FOUND", "Requested entity was not found."));
        }
        let body = read::object(call).map(names::in_camel_case);
        let body = body.ok_or_else(|| invalid("Invalid JSON payload received."))?;
        if self.method.ends_with("EmbedContents") || self.method == "embedContent" {
            let embedded = embeddings::embed(&self.model, self.method, &body)?;
            return Ok(reply(200, &embedded));
        }
        let wish = request::read(&self.model, &body)?;
        let answer = match Answer::to(&wish.ask, scene.dialect) {
            Ok(answer) => answer,
            Err(row) => return Ok(error(row, self.delivery)),
        };
        Ok(match self.delivery {
            Delivery::Whole => reply(200, &answer::whole(call, &wish, &answer)),
            Delivery::Events => answer::events(scene, call, &wish, &answer),
            Delivery::List => answer::list(scene, call, &wish, &answer),
        })
    }
}

/// A refusal with status 400.
fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "INVALID_ARGUMENT", message)
}

fn refuse(refusal: &Refusal) -> Vec<Step> {
    let Refusal { status, code, message, .. } = refusal;
    reply(*status, &json!({"error": {"code": status, "message": message, "status": code}}))
}

/// An error row. A list was begun where a list was wanted; a blocked prompt is no error at all.
fn error(row: &'static ErrorRow, delivery: Delivery) -> Vec<Step> {
    match delivery {
        Delivery::Events if row.status == 200 => {
            let event = format!("data: {}\r\n\r\n", row.body);
            vec![Step::event_stream(), Step::send(event), Step::End]
        }
        Delivery::List if row.body.starts_with('{') => {
            let body = format!("[{}]", row.body);
            vec![Step::head(row.status, "application/json"), Step::send(body), Step::End]
        }
        Delivery::Whole | Delivery::Events | Delivery::List => row.steps(),
    }
}

fn reply(status: u16, body: &Value) -> Vec<Step> {
    let headers = [("content-type", "application/json; charset=UTF-8"), ("content-length", AUTO)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vec![Step::Head(status, headers), Step::send(body.to_string()), Step::End]
}

/// Whether a model is of the generation that signs its calls.
fn signs(model: &str) -> bool {
    !(model.starts_with("gemini-1") || model.starts_with("gemini-2"))
}
