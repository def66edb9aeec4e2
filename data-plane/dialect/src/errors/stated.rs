//! What an error body says, in whatever envelope.

use std::time::Duration;

use http::HeaderMap;
use serde_json::{Map, Value};

use crate::wait;

/// Longest text of a body without JSON that is kept for operators, in bytes.
const MAX_PLAIN: usize = 512;

/// What an error body says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stated {
    pub message: Option<String>,
    /// Numbers as their digits.
    pub code: Option<String>,
    /// The error's `type`, or where there is none its `status` in words.
    pub kind: Option<String>,
    pub param: Option<String>,
    /// Finer codes: reasons, quotas, inner errors.
    pub details: Vec<String>,
    /// A status that stands in the body as a number.
    pub status: Option<u16>,
    /// A wait that stands in a member of its own.
    pub wait: Option<Duration>,
}

impl Stated {
    /// Does it blame a member of the request that is not the model?
    pub(super) fn names_another_param(&self) -> bool {
        self.param.as_deref().is_some_and(|param| !param.is_empty() && param != "model")
    }
}

/// Reads the body of an answer that is known to be an error.
pub(super) fn in_refusal(headers: &HeaderMap, body: &[u8]) -> Stated {
    let mut stated = read(body)
        .or_else(|| read(last_data(body)?))
        .unwrap_or_else(|| Stated { message: plain(body), ..Stated::default() });
    from_headers(headers, &mut stated);
    stated
}

/// Reads a 2xx body, where an object is an error only if it says so: by a member, by its type or by
/// a code. Some servers send notes such as `{"type":"ping","message":"..."}`.
pub(super) fn in_band(body: &[u8]) -> Option<Stated> {
    let value = serde_json::from_slice(body).ok();
    let value = value.or_else(|| serde_json::from_slice(last_data(body)?).ok())?;
    let object = unwrapped(value)?;
    let says = says_error(&object)
        || object.get("error").is_some_and(is_truthy)
        || ["error_code", "code"].iter().any(|name| object.get(*name).is_some_and(is_code))
        || object.get("base_resp").is_some_and(fails);
    // What answers is no error, unless it says that it is one.
    let answers = ["choices", "output", "data", "candidates", "result"]
        .iter()
        .any(|name| object.get(*name).is_some_and(|value| !value.is_null()));
    let loud = object.get("error").is_some_and(is_truthy)
        || object.get("error_code").is_some_and(is_code)
        || object.get("base_resp").is_some_and(fails)
        || says_error(&object);
    (says && (loud || !answers)).then(|| find(&object)).flatten()
}

fn read(body: &[u8]) -> Option<Stated> {
    match serde_json::from_slice(body).ok()? {
        Value::String(message) => Some(Stated { message: Some(message), ..Stated::default() }),
        value => find(&unwrapped(value)?),
    }
}

/// The object itself, or the first of a list of them: some servers wrap it.
fn unwrapped(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        Value::Array(items) => match items.into_iter().next()? {
            Value::Object(object) => Some(object),
            _ => None,
        },
        _ => None,
    }
}

/// Finds the error in an object, and in the message of one that a proxy wrapped as text.
fn find(object: &Map<String, Value>) -> Option<Stated> {
    let found = envelope(object)?;
    let wrapped = found.message.as_deref().filter(|text| text.trim_start().starts_with('{'));
    let inner = wrapped.and_then(|text| match serde_json::from_str(text).ok()? {
        Value::Object(inner) => envelope(&inner).filter(|inner| inner.message.is_some()),
        _ => None,
    });
    Some(inner.unwrap_or(found))
}

/// The first envelope that fits.
fn envelope(object: &Map<String, Value>) -> Option<Stated> {
    match object.get("error") {
        // Two levels, where a stream's error stands in an event of its own.
        Some(Value::Object(error)) => match error.get("error") {
            Some(Value::Object(inner)) => return Some(stated(inner, object)),
            _ => return Some(stated(error, object)),
        },
        Some(Value::String(message)) => {
            let mut found = stated(object, object);
            let described = object.get("error_description").and_then(as_text);
            // OAuth: the code stands where others have their message.
            match described {
                Some(text) => {
                    found.code = Some(message.clone());
                    found.message = Some(text);
                }
                None => found.message = Some(message.clone()),
            }
            return Some(found);
        }
        _ => {}
    }
    if let Some(Value::Object(base)) = object.get("base_resp").filter(|base| fails(base)) {
        return Some(stated(base, object));
    }
    if let Some(detail) = object.get("detail") {
        return Some(Stated { message: Some(detail_text(detail)), ..stated(object, object) });
    }
    let flat = stated(object, object);
    let answers = object.contains_key("choices") || object.contains_key("data");
    let says = flat.message.is_some() || flat.code.is_some();
    (says_error(object) || (!answers && says)).then_some(flat)
}

fn stated(error: &Map<String, Value>, whole: &Map<String, Value>) -> Stated {
    let text = |names: &[&str]| names.iter().find_map(|name| as_text(error.get(*name)?));
    let message = text(&["message", "msg", "error_msg", "error_message", "Message", "status_msg"]);
    let mut details = Vec::new();
    for name in ["details", "innererror", "metadata"] {
        if let Some(value) = error.get(name) {
            collect(value, &mut details, 0);
        }
    }
    details.extend(message.as_deref().and_then(inner_code).map(str::to_owned));
    let number = |name: &str| error.get(name)?.as_u64().and_then(|it| u16::try_from(it).ok());
    let wait = retry_delay(error)
        .or_else(|| wait::seconds_of(error.get("retry_after").or(whole.get("retry_after"))?))
        .or_else(|| {
            wait::until_text(&as_text(error.get("reset_time").or(whole.get("reset_time"))?)?)
        });
    Stated {
        code: text(&["code", "error_code", "status_code"]),
        kind: text(&["type", "__type"])
            .or_else(|| error.get("status")?.as_str().map(str::to_owned)),
        param: text(&["param"]),
        status: number("raw_status_code")
            .or_else(|| number("status"))
            .or_else(|| whole.get("statusCode")?.as_u64().and_then(|it| u16::try_from(it).ok())),
        message,
        details,
        wait,
    }
}

/// `<400> InternalError.Algo.InvalidParameter: words`: the code that a message begins with.
fn inner_code(message: &str) -> Option<&str> {
    let rest = message.trim_start().strip_prefix('<')?.split_once("> ")?.1;
    let (code, _) = rest.split_once(':')?;
    (!code.is_empty() && !code.contains(' ')).then_some(code)
}

/// Every short text in the details, with the names of quotas and reasons among them.
fn collect(value: &Value, found: &mut Vec<String>, depth: u8) {
    if depth > 4 || found.len() > 64 {
        return;
    }
    match value {
        Value::String(text) if text.len() <= 256 => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found, depth + 1)),
        Value::Object(members) => {
            members.values().for_each(|member| collect(member, found, depth + 1));
        }
        _ => {}
    }
}

/// `details[].retryDelay`, a protobuf duration in text. (google.rpc.RetryInfo.)
fn retry_delay(error: &Map<String, Value>) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    details.iter().find_map(|detail| wait::compound(detail.get("retryDelay")?.as_str()?))
}

/// Codes that stand in headers, where the body says little.
fn from_headers(headers: &HeaderMap, stated: &mut Stated) {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    if let Some(kind) = text("x-amzn-errortype") {
        stated.kind = kind.split(':').next().map(str::to_owned);
    }
    if let Some(kind) = &mut stated.kind
        && let Some((_, short)) = kind.rsplit_once('#')
    {
        *kind = short.to_owned();
    }
    if stated.code.is_none() {
        stated.code = text("x-bce-error-code");
    }
    if stated.message.is_none() {
        stated.message = text("x-bce-error-message");
    }
}

/// The last `data:` line of a body that is an event stream in disguise.
fn last_data(body: &[u8]) -> Option<&[u8]> {
    body.split(|byte| matches!(byte, b'\n' | b'\r'))
        .filter_map(|line| line.strip_prefix(b"data:"))
        .map(<[u8]>::trim_ascii)
        .rfind(|data| !data.is_empty() && *data != b"[DONE]")
}

fn says_error(object: &Map<String, Value>) -> bool {
    ["object", "type"].iter().any(|name| object.get(*name).and_then(Value::as_str) == Some("error"))
}

/// Is a member called `error` an error? Some servers send `"error": null` beside an answer.
fn is_truthy(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Number(number) => number.as_u64() != Some(0),
        Value::Bool(true) => true,
    }
}

/// The same of the text of a member.
pub(crate) fn is_truthy_text(error: &[u8]) -> bool {
    !matches!(error, b"null" | b"false" | b"\"\"" | b"{}" | b"[]" | b"0")
}

fn is_code(code: &Value) -> bool {
    is_truthy(code) && code.as_u64() != Some(200) && code.as_str() != Some("200")
}

/// MiniMax: a status of 0 is well.
fn fails(base: &Value) -> bool {
    base.get("status_code").is_some_and(is_truthy)
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// FastAPI's `detail`: text, or a list of faults.
fn detail_text(detail: &Value) -> String {
    match detail {
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .filter_map(|item| item.get("msg").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("; "),
        other => other.to_string(),
    }
}

/// What a body that is no JSON says: its text when it is text, else what it is. Pages and broken
/// JSON are not repeated: they may hold anything, the prompt included.
fn plain(body: &[u8]) -> Option<String> {
    let body = body.trim_ascii();
    match body.first()? {
        b'<' => Some("an HTML page".to_owned()),
        b'{' | b'[' => Some("an error body that cannot be read".to_owned()),
        _ => {
            let start = body.get(..body.len().min(MAX_PLAIN))?;
            Some(String::from_utf8_lossy(start).into_owned())
        }
    }
}
