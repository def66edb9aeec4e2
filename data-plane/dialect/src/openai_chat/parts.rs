//! Answers whose `content` is a list of parts, as Mistral's reasoning models write it, in the form that
//! OpenAI's clients can read.

use serde_json::Value;

/// The members that stand for a list of parts: its texts as `content`, its thoughts as
/// `reasoning_content`. `None`: it is no list of such parts.
pub(super) fn plain(list: &[u8]) -> Option<String> {
    let parts: Vec<Value> = serde_json::from_slice(list).ok()?;
    let (mut text, mut thoughts) = (None::<String>, String::new());
    for part in &parts {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => text.get_or_insert_default().push_str(part.get("text")?.as_str()?),
            Some("thinking") => match part.get("thinking")? {
                Value::String(thought) => thoughts.push_str(thought),
                Value::Array(inner) => {
                    let inner = inner.iter().filter_map(|part| part.get("text")?.as_str());
                    inner.for_each(|thought| thoughts.push_str(thought));
                }
                _ => return None,
            },
            // What else a model says has no place in a text.
            Some(_) => {}
            None => return None,
        }
    }
    let json = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let content = text.map_or_else(|| "null".to_owned(), |text| json(&text));
    Some(if thoughts.is_empty() {
        format!("\"content\":{content}")
    } else {
        format!("\"reasoning_content\":{},\"content\":{content}", json(&thoughts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_lists_of_parts_become_texts() {
        let list = br#"[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"A"},{"type":"text","text":"B"}]"#;
        assert_eq!(plain(list).unwrap(), r#""reasoning_content":"Hm.","content":"AB""#);
        let thought = br#"[{"type":"thinking","thinking":"Hm."}]"#;
        assert_eq!(plain(thought).unwrap(), r#""reasoning_content":"Hm.","content":null"#);
        assert_eq!(plain(b"[]").unwrap(), r#""content":null"#);
        assert_eq!(plain(b"[1]"), None);
    }
}
