//! Writing YAML that reads back as the same value.

use serde_json::Value;

/// Words that YAML or one of its older readers takes for something else than text.
const RESERVED: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// A value as a YAML document in block style. It ends with a line end.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    if is_block(value) {
        block(value, 0, &mut out);
    } else {
        scalar(value, &mut out);
        out.push('\n');
    }
    out
}

/// Does it take lines of its own?
fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Writes the lines of a mapping or a list. The first begins where `out` ends, the others at
/// `indent`.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(members) => {
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.extend(std::iter::repeat_n(' ', indent));
                }
                text(name, out);
                out.push(':');
                if is_block(member) {
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', indent + 2));
                    block(member, indent + 2, out);
                } else {
                    out.push(' ');
                    scalar(member, out);
                    out.push('\n');
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.extend(std::iter::repeat_n(' ', indent));
                }
                out.push_str("- ");
                if is_block(item) {
                    block(item, indent + 2, out);
                } else {
                    scalar(item, out);
                    out.push('\n');
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(value, out),
    }
}

fn scalar(value: &Value, out: &mut String) {
    match value {
        Value::String(content) => text(content, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn text(content: &str, out: &mut String) {
    if is_plain(content) {
        out.push_str(content);
        return;
    }
    out.push('"');
    for c in content.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Controls, line separators and marks that YAML does not let stand as they are.
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Can it stand without quotes and still be this text? Errs on the side of quotes.
fn is_plain(content: &str) -> bool {
    let starts_well = content.starts_with(|c: char| c.is_ascii_alphabetic() || "_/".contains(c));
    let harmless = content.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@+=%".contains(c));
    let reserved = RESERVED.iter().any(|word| content.eq_ignore_ascii_case(word));
    starts_well && harmless && !reserved && !content.ends_with(':') && content.len() < 200
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use sluicegate_model::{
        document::{Document, References},
        schema::to_json,
    };

    use super::*;

    #[test]
    fn block_style() {
        let value = json!({
            "providers": [
                { "name": "p", "timeouts": { "idle_ms": 5 }, "headers": {}, "keys": [] },
                { "name": "q", "base_url": "http://127.0.0.1:9000/v1", "keyless": true },
            ],
            "lists": [["a", 1], []],
            "none": null,
        });
        let expected = "\
providers:
  - name: p
    timeouts:
      idle_ms: 5
    headers: {}
    keys: []
  - name: q
    base_url: http://127.0.0.1:9000/v1
    keyless: true
lists:
  - - a
    - 1
  - []
none: null
";
        assert_eq!(to_yaml(&value), expected);
        assert_eq!(to_yaml(&json!({})), "{}\n");
    }

    #[test]
    fn what_needs_quotes_gets_them() {
        check("gpt-4o", "gpt-4o");
        check("no", "\"no\"");
        check("Null", "\"Null\"");
        check("12", "\"12\"");
        check("0x1f", "\"0x1f\"");
        check("", "\"\"");
        check("a: b", "\"a: b\"");
        check("a #b", "\"a #b\"");
        check("gpt-*", "\"gpt-*\"");
        check("a\n\"b\"", "\"a\\n\\\"b\\\"\"");
        check("\u{7f}\u{2028}é", "\"\\u007f\\u2028é\"");

        #[track_caller]
        fn check(content: &str, expected: &str) {
            assert_eq!(to_yaml(&json!(content)), format!("{expected}\n"));
        }
    }

    proptest! {
        /// Any labels come back as they were.
        #[test]
        fn reads_back(labels in proptest::collection::btree_map(".{1,40}", any::<String>(), 0..8)) {
            let hash = format!("sha256:{}", "0".repeat(64));
            let file = json!({ "api_keys": [{ "name": "k", "hash": hash, "metadata": labels }] });
            let text = to_yaml(&file);
            let document = Document::parse("f", &text, References::Closed)
                .map_err(|faults| TestCaseError::fail(format!("{faults}\n{text}")))?;
            let read = to_json(&document.resources[0].resource);
            let expected = if labels.is_empty() { Value::Null } else { json!(labels) };
            prop_assert_eq!(read.get("metadata").cloned().unwrap_or(Value::Null), expected);
        }
    }
}
