//! What a degradation does to one request, and how its answer says so.

use std::collections::VecDeque;

use bytes::Bytes;
use http::HeaderName;
use serde_json::{Map, Value, json};
use sluicegate_dialect::{
    Call, InvalidCall, extension,
    strip::{Stripped, Which, strip},
};
use sluicegate_model::resource::degradation::Level;
use sluicegate_protocol::degrade::Effect;

use crate::{attempt::WholeAnswer, visible::visible};

/// Tells that an answer is degraded: `level=1;by=memory;removed=shell,browser`.
pub const HEADER: HeaderName = HeaderName::from_static("x-sluicegate-degraded");
/// Name of the member of an answer's extension that tells the same.
pub const EXTENSION: &str = "degraded";

/// Most names of tools that an answer tells, and bytes of each.
const MOST_NAMES: usize = 32;
const MOST_BYTES: usize = 64;

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Degraded<'a> {
    /// Nothing: there was nothing to take away.
    Unchanged,
    /// It goes on without some tools.
    Stripped { call: Box<Call>, notice: Notice },
    /// No upstream is asked: this is the answer.
    Reply { text: &'a str, notice: Notice },
}

/// What an answer says of its being degraded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub level: Level,
    /// Names of the degradations.
    pub by: Vec<String>,
    /// Names of the tools that were taken away.
    pub removed: Vec<String>,
}

impl Degraded<'_> {
    /// What the answer is to say of it.
    pub fn notice(&self) -> Option<&Notice> {
        match self {
            Self::Unchanged => None,
            Self::Stripped { notice, .. } | Self::Reply { notice, .. } => Some(notice),
        }
    }
}

/// Does to a call what degradations come to for it.
///
/// # Errors
/// None that a call which was parsed before is known to cause.
pub fn degrade<'a>(effect: &Effect<'a>, call: &Call) -> Result<Degraded<'a>, InvalidCall> {
    let notice = |removed| Notice {
        level: effect.level(),
        by: effect.by().iter().map(|name| (*name).to_owned()).collect(),
        removed,
    };
    let stripped = match effect {
        Effect::Nothing => None,
        Effect::Reply { reply, .. } => {
            return Ok(Degraded::Reply { text: reply, notice: notice(Vec::new()) });
        }
        Effect::StripAllTools { .. } => strip(call, Which::All)?,
        Effect::StripTools { patterns, .. } => {
            let named = |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
            strip(call, Which::Named(&named))?
        }
    };
    Ok(match stripped {
        None => Degraded::Unchanged,
        Some(Stripped { call, removed }) => {
            Degraded::Stripped { call: Box::new(call), notice: notice(removed) }
        }
    })
}

impl Notice {
    /// Tells it within a whole answer.
    pub fn put_into(&self, answer: &mut WholeAnswer) {
        let members = self.members();
        if !answer.is_stream {
            answer.body = extension::into_answer(&answer.body, &members);
        } else if let Some(told) = extension::into_events(&answer.body, &members) {
            answer.body = told;
        }
    }

    /// Tells it in the first of a stream's events that can.
    pub fn put_first(&self, events: &mut VecDeque<Bytes>) {
        let members = self.members();
        for event in events {
            if let Some(told) = extension::into_events(event, &members) {
                *event = told;
                return;
            }
        }
    }

    /// Members of an answer's extension.
    pub fn members(&self) -> Map<String, Value> {
        Map::from_iter([(EXTENSION.to_owned(), self.extension())])
    }

    /// The value of [`HEADER`]; of many or long names not all, and the number of all.
    pub fn header(&self) -> String {
        let list = |names: &[String]| {
            let names = names.iter().take(MOST_NAMES).map(|name| visible(cut(name), b",;="));
            names.collect::<Vec<_>>().join(",")
        };
        let mut value = format!("level={};by={}", self.level.number(), list(&self.by));
        if !self.removed.is_empty() {
            value.push_str(";removed=");
            value.push_str(&list(&self.removed));
        }
        if self.removed.len() > MOST_NAMES {
            value.push_str(&format!(";count={}", self.removed.len()));
        }
        value
    }

    /// The value of [`EXTENSION`].
    pub fn extension(&self) -> Value {
        let cut = |names: &[String]| -> Vec<String> {
            names.iter().take(MOST_NAMES).map(|name| cut(name).to_owned()).collect()
        };
        json!({
            "level": self.level.number(),
            "by": cut(&self.by),
            "removed": cut(&self.removed),
            "removed_count": self.removed.len(),
        })
    }
}

/// At most [`MOST_BYTES`] of it, in whole characters.
fn cut(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MOST_BYTES)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sluicegate_dialect::Endpoint;
    use sluicegate_model::resource::degradation::ToolPattern;

    use super::*;

    fn call(body: &str) -> Call {
        Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).expect("it is a call")
    }

    const TOOLS: &str =
        r#"{"model":"m","tools":[{"function":{"name":"shell"}},{"function":{"name":"calc"}}]}"#;

    #[test]
    fn b5_a_degraded_answer_says_level_and_what_was_removed() {
        let shell = ToolPattern::parse("sh*").unwrap();
        for (effect, removed, header) in [
            (
                Effect::StripTools { by: vec!["memory", "web"], patterns: vec![&shell] },
                vec!["shell"],
                "level=1;by=memory,web;removed=shell",
            ),
            (
                Effect::StripAllTools { by: vec!["memory"] },
                vec!["shell", "calc"],
                "level=2;by=memory;removed=shell,calc",
            ),
        ] {
            let Degraded::Stripped { call, notice } = degrade(&effect, &call(TOOLS)).unwrap()
            else {
                panic!("it is stripped")
            };
            assert_eq!(
                (notice.header().as_str(), &notice.removed),
                (header, &removed.clone().into_iter().map(str::to_owned).collect())
            );
            assert_eq!(notice.extension()["removed"], json!(removed));
            assert!(!String::from_utf8_lossy(&call.body).contains("shell"));
            // Without tools there is nothing to tell.
            let plain = self::call(r#"{"model":"m"}"#);
            assert!(matches!(degrade(&effect, &plain), Ok(Degraded::Unchanged)));
        }
        let reply = Effect::Reply { by: vec!["memory"], reply: "later" };
        let Degraded::Reply { text, notice } = degrade(&reply, &call(TOOLS)).unwrap() else {
            panic!("it is a reply")
        };
        assert_eq!((text, notice.header().as_str()), ("later", "level=3;by=memory"));
        assert!(matches!(degrade(&Effect::Nothing, &call(TOOLS)), Ok(Degraded::Unchanged)));
    }

    #[test]
    fn b5_names_of_callers_are_cut_and_cannot_end_the_header() {
        let names = ["a,b;c=\r\n%".to_owned(), "é".repeat(100)];
        let many = (0..200).map(|n| n.to_string());
        let removed = names.into_iter().chain(many).collect();
        let notice = Notice { level: Level::AllTools, by: vec!["d".into()], removed };
        let header = notice.header();
        assert!(http::HeaderValue::from_str(&header).is_ok(), "{header}");
        assert!(
            header.starts_with("level=2;by=d;removed=a%2Cb%3Bc%3D%0D%0A%25,%C3%A9"),
            "{header}"
        );
        assert!(header.ends_with(";count=202") && header.len() < 1_000, "{header}");
        let extension = notice.extension();
        assert_eq!(extension["removed"].as_array().map(Vec::len), Some(MOST_NAMES));
        assert_eq!(extension["removed"][1], "é".repeat(32));
        assert_eq!(extension["removed_count"], 202);
    }
}
