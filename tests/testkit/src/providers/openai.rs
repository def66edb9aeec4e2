//! The OpenAI family: one fake, and a line of data for whatever a provider does otherwise.

mod embeddings;
mod envelope;
mod messages;
mod request;
mod rows;
mod stream;
mod variant;
mod variants;
mod whole;

pub(super) use self::rows::{AZURE, rows};
pub(super) use self::variant::Variant;
pub(super) use self::variants::of as variant_of;

use serde_json::{Value, json};

use super::answer::Answer;
use super::read::{self, Refusal};
use super::rows::ErrorRow;
use super::scene::Scene;
use crate::upstream::{AUTO, Call, Step};

/// When every answer was made.
const CREATED: u64 = 1_790_000_000;

/// The answer of a provider of this family that lives at its base path.
pub(super) fn play(scene: &Scene, call: &Call) -> Vec<Step> {
    let variant = variant_of(scene.dialect);
    let path = read::path(call);
    let operation = variant.bases.iter().find_map(|base| path.strip_prefix(base));
    if let Some(row) = turned_away(scene, variant, call) {
        return row.steps();
    }
    operate(scene, variant, call, operation.unwrap_or_default())
}

/// The answer to a call that may pass, by what its path has after the base.
pub(super) fn operate(scene: &Scene, variant: &Variant, call: &Call, operation: &str) -> Vec<Step> {
    let result = match (call.method.as_str(), operation) {
        ("POST", "/chat/completions") => chat(scene, variant, call),
        ("POST", "/embeddings") if variant.rules.embeddings => embeddings::embed(variant, call),
        ("GET", "/models") => Ok(models(variant, call)),
        (_, "/chat/completions" | "/embeddings" | "/models") => {
            let text = format!("Not allowed to {} on {}", call.method, call.target);
            Err(Refusal::new(405, "method_not_supported", text))
        }
        _ => {
            let text = format!("Invalid URL ({} {})", call.method, call.target);
            Err(Refusal::new(404, "not_found", text))
        }
    };
    result.unwrap_or_else(|refusal| envelope::refuse(variant.envelope, &refusal))
}

/// The error for a call whose key does not open.
fn turned_away(scene: &Scene, variant: &Variant, call: &Call) -> Option<&'static ErrorRow> {
    match call.bearer() {
        None if !variant.rules.needs_key => None,
        key => scene.turns_away(key),
    }
}

fn chat(scene: &Scene, variant: &Variant, call: &Call) -> Result<Vec<Step>, Refusal> {
    let body = read::object(call).ok_or_else(|| {
        let text = "We could not parse the JSON body of your request.";
        Refusal::new(400, "invalid_json", text)
    })?;
    let ask = request::read(variant, &body)?;
    let answer = match Answer::to(&ask, scene.dialect) {
        Ok(answer) => answer,
        Err(row) => return Ok(row.steps()),
    };
    if !ask.stream {
        return Ok(whole::whole(variant, call, &ask, &answer));
    }
    let usage_asked = body["stream_options"]["include_usage"] == true;
    Ok(stream::stream(scene, variant, call, &ask, &answer, usage_asked))
}

fn models(variant: &Variant, call: &Call) -> Vec<Step> {
    let model = json!({"id": "m1", "object": "model", "created": CREATED, "owned_by": variant.dialect.name()});
    json_reply(call, &json!({"object": "list", "data": [model]}))
}

/// A JSON answer with status 200 and a request id.
fn json_reply(call: &Call, body: &Value) -> Vec<Step> {
    padded_reply(call, "", body)
}

/// The same after some padding.
fn padded_reply(call: &Call, padding: &str, body: &Value) -> Vec<Step> {
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("content-length", AUTO.to_owned()),
        ("x-request-id", format!("req_{}", call.number)),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value)).into();
    vec![Step::Head(200, headers), Step::send(format!("{padding}{body}")), Step::End]
}
