//! The subset of OpenAPI schemas that `parameters` and `responseSchema` take.

use serde_json::Value;

use super::request::unknown_name;
use crate::providers::read::{Refusal, items};

const MEMBERS: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

/// Refuses the first member that is not of the subset.
pub(super) fn check(schema: &Value, at: &str) -> Result<(), Refusal> {
    let Some(members) = schema.as_object() else { return Ok(()) };
    if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(unknown_name(name, at));
    }
    if let Some(types) = schema["type"].as_array() {
        return Err(super::invalid(format!(
            "Invalid value at '{at}.type': Proto field is not repeating, cannot start list of {}.",
            types.len()
        )));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check(property, &format!("{at}.properties[{name}]"))?;
    }
    check(&schema["items"], &format!("{at}.items"))?;
    for (n, choice) in items(&schema["anyOf"]).iter().enumerate() {
        check(choice, &format!("{at}.any_of[{n}]"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_of_the_subset_is_named() {
        check_that(json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}), None);
        check_that(
            json!({"type": "object", "additionalProperties": false}),
            Some("additionalProperties"),
        );
        check_that(json!({"properties": {"a": {"items": {"const": 1}}}}), Some("const"));
        check_that(json!({"anyOf": [{"$ref": "#/x"}]}), Some("$ref"));
        check_that(json!({"type": ["string", "null"]}), Some("not repeating"));
        // Names of properties are the caller's own.
        check_that(json!({"properties": {"const": {"type": "STRING"}}}), None);

        #[track_caller]
        fn check_that(schema: Value, names: Option<&str>) {
            let refusal = check(&schema, "x").err();
            assert_eq!(refusal.is_some(), names.is_some(), "{schema}");
            assert!(
                refusal.is_none_or(|r| r.message.contains(names.unwrap_or_default())),
                "{schema}"
            );
        }
    }
}
