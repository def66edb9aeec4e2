//! JSON Schema for models that know only a subset of OpenAPI's.

use std::borrow::Cow;

use serde_json::{Map, Value, value::RawValue};

/// The keywords that the subset has. Every other is an error there, and left out: it narrows what a
/// model may say, which the caller checks in any case.
const KEYWORDS: [&str; 22] = [
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
];

/// The formats of strings and numbers that it has.
const FORMATS: [&str; 6] = ["date-time", "enum", "int32", "int64", "float", "double"];

/// The schema within the subset; as it is spelt where it is within already. `None`: it is no schema.
pub(super) fn subset(spelt: &RawValue) -> Option<Cow<'_, RawValue>> {
    let before: Value = serde_json::from_str(spelt.get()).ok()?;
    let after = reduced(before.clone())?;
    if after == before {
        return Some(Cow::Borrowed(spelt));
    }
    serde_json::value::to_raw_value(&after).ok().map(Cow::Owned)
}

/// Has an object of this schema no members? The subset cannot say so.
pub(super) fn is_bare(spelt: &RawValue) -> bool {
    let object: Option<Map<String, Value>> = serde_json::from_str(spelt.get()).ok();
    object.is_some_and(|object| match object.get("properties") {
        None => !["anyOf", "oneOf", "allOf", "$ref"].iter().any(|name| object.contains_key(*name)),
        Some(properties) => properties.as_object().is_some_and(Map::is_empty),
    })
}

fn reduced(schema: Value) -> Option<Value> {
    // `true` and `false` are schemas, too: anything, and nothing.
    let Value::Object(schema) = schema else { return None };
    let mut kept = Map::new();
    let mut nullable = false;
    for (name, value) in schema {
        match (name.as_str(), value) {
            ("type", Value::Array(kinds)) => {
                nullable |= kinds.iter().any(|kind| kind == "null");
                let kind = kinds.into_iter().find(|kind| kind != "null");
                kept.extend(kind.map(|kind| (name, kind)));
            }
            ("const", Value::String(only)) => {
                kept.insert("enum".to_owned(), Value::Array(vec![only.into()]));
            }
            ("enum", Value::Array(values)) => {
                nullable |= values.iter().any(Value::is_null);
                let values: Vec<_> = values.into_iter().filter(|it| !it.is_null()).collect();
                if values.iter().all(Value::is_string) {
                    kept.insert(name, Value::Array(values));
                }
            }
            ("format", Value::String(format)) if !FORMATS.contains(&format.as_str()) => {}
            ("properties", Value::Object(properties)) => {
                let properties = properties.into_iter();
                let properties = properties.filter_map(|(name, it)| Some((name, reduced(it)?)));
                kept.insert(name, Value::Object(properties.collect()));
            }
            ("items", items) => kept.extend(reduced(items).map(|items| (name, items))),
            ("anyOf" | "oneOf", Value::Array(several)) => {
                let is_null = |it: &Value| it.get("type").is_some_and(|kind| kind == "null");
                nullable |= several.iter().any(is_null);
                let several = several.into_iter().filter(|it| !is_null(it));
                let several: Vec<_> = several.filter_map(reduced).collect();
                kept.insert("anyOf".to_owned(), Value::Array(several));
            }
            (known, value) if KEYWORDS.contains(&known) => {
                kept.insert(name, value);
            }
            _ => {}
        }
    }
    if nullable {
        kept.insert("nullable".to_owned(), Value::Bool(true));
    }
    only_known(&mut kept);
    Some(Value::Object(kept))
}

/// What is required must be among the properties.
fn only_known(schema: &mut Map<String, Value>) {
    let known: Vec<String> = match schema.get("properties") {
        Some(Value::Object(properties)) => properties.keys().cloned().collect(),
        _ => return,
    };
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| known.iter().any(|it| it == name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_schemas_are_cut_down_to_the_subset() {
        check(
            r#"{ "type":"object","properties":{"a":{"type":"number","maximum":1.0}},"required":["a"] }"#,
            r#"{ "type":"object","properties":{"a":{"type":"number","maximum":1.0}},"required":["a"] }"#,
        );
        check(
            r##"{"$schema":"x","type":"object","additionalProperties":false,"properties":{"$ref":{"type":["string","null"]},"b":{"$ref":"#/$defs/x"},"c":true},"required":["b","c"],"$defs":{}}"##,
            r#"{"type":"object","properties":{"$ref":{"type":"string","nullable":true},"b":{}},"required":["b"]}"#,
        );
        check(r#"{"const":"a"}"#, r#"{"enum":["a"]}"#);
        check(r#"{"const":1,"enum":[1,2],"type":"integer"}"#, r#"{"type":"integer"}"#);
        check(r#"{"enum":["a",null]}"#, r#"{"enum":["a"],"nullable":true}"#);
        check(
            r#"{"type":"array","items":{"format":"uri","type":"string","exclusiveMinimum":1}}"#,
            r#"{"type":"array","items":{"type":"string"}}"#,
        );
        check(
            r#"{"oneOf":[{"type":"string","format":"date-time"},{"type":"null"}]}"#,
            r#"{"anyOf":[{"type":"string","format":"date-time"}],"nullable":true}"#,
        );
        assert!(subset(&RawValue::from_string("true".to_owned()).unwrap()).is_none());

        #[track_caller]
        fn check(spelt: &str, expected: &str) {
            let spelt = RawValue::from_string(spelt.to_owned()).unwrap();
            assert_eq!(subset(&spelt).unwrap().get(), expected);
        }
    }

    #[test]
    fn c1_an_object_without_members_is_known() {
        let bare = |text: &str| is_bare(&RawValue::from_string(text.to_owned()).unwrap());
        assert!(bare("{}") && bare(r#"{"type":"object","properties":{}}"#));
        assert!(!bare(r#"{"properties":{"a":{}}}"#) && !bare(r#"{"anyOf":[]}"#) && !bare("[]"));
    }
}
