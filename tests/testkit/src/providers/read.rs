//! Reading requests: what all dialects check alike, and refusals before they are put into a
//! dialect's own form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::ask::Media;
use crate::upstream::Call;

/// Why a request is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// In the dialect's own words.
    pub(super) code: &'static str,
    pub(super) message: String,
    /// The field at fault.
    pub(super) param: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None }
    }

    pub(super) fn of(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }
}

/// The body as an object; `None` if it is none.
pub(super) fn object(call: &Call) -> Option<Value> {
    serde_json::from_slice(&call.body).ok().filter(Value::is_object)
}

/// The target without its query.
pub(super) fn path(call: &Call) -> &str {
    call.target.split('?').next().unwrap_or_default()
}

/// A parameter of the query, percent-decoded.
pub(super) fn query(call: &Call, name: &str) -> Option<String> {
    let (_, query) = call.target.split_once('?')?;
    parameter(query, name)
}

/// A parameter of `a=b&c=d`, percent-decoded.
pub(super) fn parameter(pairs: &str, name: &str) -> Option<String> {
    pairs.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then(|| decoded(value))
    })
}

/// Undoes percent-encoding.
pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) if byte == b'%' => {
                plain.push(value);
                at += 3;
            }
            _ => {
                plain.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// The first member that is not among `known`.
pub(super) fn unknown<'a>(value: &'a Value, known: &[&str]) -> Option<&'a str> {
    let members = value.as_object()?;
    members.keys().map(String::as_str).find(|name| !known.contains(name))
}

/// A member that is there and not null.
pub(super) fn given<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|member| !member.is_null())
}

/// Whether a member is the boolean true.
pub(super) fn is_true(value: &Value, name: &str) -> bool {
    value[name] == true
}

/// The items of a list; none for anything else.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text member, or nothing.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// An image or the like out of its base64; `None` if it is no base64.
pub(super) fn inline(media_type: &str, data: &str) -> Option<Media> {
    let bytes = STANDARD.decode(data).ok()?.len();
    Some(Media::Inline { media_type: media_type.to_owned(), bytes })
}

/// An image or the like out of a `data:` URI or a link; `None` if it is neither.
pub(super) fn media(url: &str) -> Option<Media> {
    if let Some(rest) = url.strip_prefix("data:") {
        let (media_type, data) = rest.split_once(";base64,")?;
        return inline(media_type, data);
    }
    url.starts_with("http").then(|| Media::Link(url.to_owned()))
}

/// Whether a number member lies outside of a range; one that is no number lies outside.
pub(super) fn outside(value: &Value, name: &str, least: f64, most: f64) -> bool {
    given(value, name).is_some_and(|number| {
        !number.as_f64().is_some_and(|number| number >= least && number <= most)
    })
}

/// Whether a name is one a tool may have.
pub(super) fn is_tool_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_decoded() {
        assert_eq!(parameter("a=1&b=x%2Fy+z&c", "b").as_deref(), Some("x/y z"));
        assert_eq!(parameter("a=1&c", "c").as_deref(), Some(""));
        assert_eq!(parameter("a=1", "b"), None);
        assert_eq!(decoded("100%"), "100%");
    }

    #[test]
    fn numbers_outside_a_range_are_found() {
        let body = json!({"a": 2, "b": 2.1, "c": "1", "d": null});
        let found = ["a", "b", "c", "d", "e"].map(|name| outside(&body, name, 0.0, 2.0));
        assert_eq!(found, [false, true, true, false, false]);
    }

    #[test]
    fn media_is_measured() {
        assert!(matches!(
            media("data:image/png;base64,AAAA"),
            Some(Media::Inline { bytes: 3, .. })
        ));
        assert!(media("data:image/png;base64,A").is_none());
        assert!(media("file:///etc/passwd").is_none());
    }
}
