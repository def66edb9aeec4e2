//! ERNIE on Qianfan V1: a token first, then answers that always have status 200.

mod answer;
mod embeddings;
mod request;
mod rows;
mod token;

pub(super) use self::rows::ROWS;
pub(super) use self::token::Tokens;

use serde_json::{Value, json};

use super::Dialect;
use super::answer::Answer;
use super::read::{self, Refusal};
use super::rows::{self as all_rows, ErrorRow};
use super::scene::{KeyState, Scene};
use crate::upstream::{AUTO, Call, Step};

const WORKSHOP: &str = "/rpc/2.0/ai_custom/v1/wenxinworkshop/";

/// When every answer was made.
const CREATED: u64 = 1_790_000_000;

pub(super) fn play(scene: &Scene, call: &Call) -> Vec<Step> {
    let path = read::path(call);
    if path == "/oauth/2.0/token" {
        return token::give(scene, call);
    }
    if let Some(row) = turned_away(scene, call) {
        return row.steps();
    }
    let (service, name) =
        path.strip_prefix(WORKSHOP).and_then(|rest| rest.split_once('/')).unwrap_or_default();
    let result = match (call.method.as_str(), service) {
        ("POST", "chat") => generate(scene, call, name),
        ("POST", "embeddings") => embeddings::embed(call),
        (_, "chat" | "embeddings") => Err(Refusal::new(200, "336101", "the method is not allowed")),
        _ => Err(Refusal::new(200, "3", "Unsupported openapi method")),
    };
    result.unwrap_or_else(|refusal| {
        let code: u64 = refusal.code.parse().unwrap_or_default();
        let id = id(call);
        reply(&json!({"error_code": code, "error_msg": refusal.message, "id": id}))
    })
}

/// The error for a call whose token, or whose token's key, does not open.
fn turned_away(scene: &Scene, call: &Call) -> Option<&'static ErrorRow> {
    let named = |name| all_rows::named(Dialect::Ernie, name);
    let Some(token) = read::query(call, "access_token") else { return named("100") };
    let key = match scene.tokens.owner(&token) {
        Ok(key) => key,
        Err(token::Invalid::Unknown) => return named("110"),
        Err(token::Invalid::Expired) => return named("111"),
    };
    match scene.state(&key) {
        KeyState::Refused => named("110"),
        state => scene.row_of(state),
    }
}

fn generate(scene: &Scene, call: &Call, model: &str) -> Result<Vec<Step>, Refusal> {
    let body = read::object(call).ok_or_else(|| Refusal::new(200, "336002", "Invalid JSON"))?;
    let ask = request::read(model, &body)?;
    let answer = match Answer::to(&ask, scene.dialect) {
        Ok(answer) => answer,
        Err(row) => return Ok(row.steps()),
    };
    Ok(match ask.stream {
        true => answer::stream(scene, call, &answer),
        false => reply(&answer::whole(call, &answer)),
    })
}

fn id(call: &Call) -> String {
    format!("as-{}", call.number)
}

fn reply(body: &Value) -> Vec<Step> {
    let headers = [("content-type", "application/json"), ("content-length", AUTO)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vec![Step::Head(200, headers), Step::send(body.to_string()), Step::End]
}
