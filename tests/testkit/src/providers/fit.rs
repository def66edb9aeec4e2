//! Values that fit a JSON Schema.

use serde_json::{Map, Number, Value, json};

/// Deepest nesting that is filled; schemas may refer to themselves.
const DEEPEST: usize = 8;

/// A value that fits `schema`. Texts hold `n`, quotes and characters outside ASCII, unless the schema
/// says what they are.
pub(super) fn fit(schema: &Value, n: usize) -> Value {
    Fit { root: schema, n }.value(schema, "value", 0)
}

struct Fit<'a> {
    root: &'a Value,
    n: usize,
}

impl Fit<'_> {
    fn value(&self, schema: &Value, name: &str, depth: usize) -> Value {
        if depth > DEEPEST {
            return Value::Null;
        }
        let deeper = |schema: &Value| self.value(schema, name, depth + 1);
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.root.pointer(reference.trim_start_matches('#'));
            return target.map_or(Value::Null, deeper);
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.first().cloned().unwrap_or_default();
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            let some = schema[key].as_array().and_then(|choices| {
                choices.iter().find(|choice| choice["type"] != "null").or(choices.first())
            });
            if let Some(choice) = some {
                return deeper(choice);
            }
        }
        match self.type_of(schema).as_str() {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "integer" => number(schema, "minimum").unwrap_or_else(|| json!(self.n)),
            "number" => number(schema, "minimum").unwrap_or_else(|| json!(0.5)),
            "boolean" => json!(true),
            "null" => Value::Null,
            _ => self.text(schema, name),
        }
    }

    /// The first type that is not null, in lower case: Gemini writes them in capitals.
    fn type_of(&self, schema: &Value) -> String {
        let named = match &schema["type"] {
            Value::Array(types) => types.iter().find(|t| *t != "null").and_then(Value::as_str),
            named => named.as_str(),
        };
        match named {
            Some(named) => named.to_lowercase(),
            None if schema.get("properties").is_some() => "object".to_owned(),
            None if schema.get("items").is_some() => "array".to_owned(),
            None => String::new(),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let filled = properties
            .iter()
            .map(|(name, schema)| (name.clone(), self.value(schema, name, depth + 1)));
        Value::Object(filled.collect())
    }

    fn array(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(1).max(1);
        (0..least).map(|_| self.value(&schema["items"], name, depth + 1)).collect()
    }

    fn text(&self, schema: &Value, name: &str) -> Value {
        match schema["format"].as_str() {
            Some("date") => json!("2026-01-02"),
            Some("date-time") => json!("2026-01-02T03:04:05Z"),
            Some("email") => json!("someone@example.com"),
            Some("uuid") => json!("00000000-0000-4000-8000-000000000001"),
            _ => json!(format!("{name} {} \"東京\"", self.n)),
        }
    }
}

fn number(schema: &Value, bound: &str) -> Option<Value> {
    schema[bound].as_number().cloned().map(|number: Number| Value::Number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_schema_is_filled() {
        check(json!({"type": "string"}), json!("value 1 \"東京\""));
        check(json!({"type": ["null", "integer"]}), json!(1));
        check(json!({"type": "NUMBER", "minimum": 3}), json!(3));
        check(json!({"enum": ["b", "c"]}), json!("b"));
        check(json!({"anyOf": [{"type": "null"}, {"type": "boolean"}]}), json!(true));
        check(json!({"type": "array", "items": {"const": 7}, "minItems": 2}), json!([7, 7]));
        check(
            json!({
                "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "string", "format": "date"}},
                "$defs": {"x": {"type": "object", "properties": {"c": {"type": "null"}}}},
            }),
            json!({"a": {"c": null}, "b": "2026-01-02"}),
        );
        check(json!({"type": "object"}), json!({}));

        #[track_caller]
        fn check(schema: Value, expected: Value) {
            assert_eq!(fit(&schema, 1), expected, "{schema}");
        }
    }

    #[test]
    fn a_schema_of_itself_ends() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(fit(&schema, 1).to_string().contains("null"));
    }
}
