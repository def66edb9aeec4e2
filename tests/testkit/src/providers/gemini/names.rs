//! Names of members: the API takes `snake_case` as well as `camelCase`.

use serde_json::Value;

/// Members whose value is the caller's own.
const FREE: &[&str] = &["args", "response", "parametersJsonSchema", "responseJsonSchema"];

/// The same value with the API's own names in camel case.
pub(super) fn in_camel_case(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let name = camel(&name);
                let value = match (name.as_str(), value) {
                    // The names of properties are the caller's own; their schemas are not.
                    ("properties", Value::Object(properties)) => properties
                        .into_iter()
                        .map(|(name, schema)| (name, in_camel_case(schema)))
                        .collect(),
                    (name, value) if FREE.contains(&name) => value,
                    (_, value) => in_camel_case(value),
                };
                (name, value)
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(in_camel_case).collect(),
        other => other,
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_').filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let capital = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &capital.into_iter().chain(letters).collect::<String>()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_callers_own_names_stay() {
        let body = json!({
            "generation_config": {"top_p": 1},
            "tools": [{"function_declarations": [{"parameters": {"properties": {"a_b": {"min_items": 1}}}}]}],
            "contents": [{"parts": [{"function_call": {"args": {"a_b": 1}}}]}],
        });
        let expected = json!({
            "generationConfig": {"topP": 1},
            "tools": [{"functionDeclarations": [{"parameters": {"properties": {"a_b": {"minItems": 1}}}}]}],
            "contents": [{"parts": [{"functionCall": {"args": {"a_b": 1}}}]}],
        });
        assert_eq!(in_camel_case(body), expected);
    }
}
