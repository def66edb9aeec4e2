//! JSON Schema (draft 2020-12) of the file form, for editors.

use prost_reflect::{FieldDescriptor, Kind as FieldKind, MessageDescriptor};
use serde_json::{Map, Value, json};
use sluicegate_proto::resource::v1::Form;

use super::{
    descriptor, field_comment, message_comment,
    rules::{field_rule, kind_rule},
    structure::file_fields,
};
use crate::name::Kind;

/// The schema of a whole file. Kinds and fields without effect in this build are left out, so that
/// an editor marks them as the command line does.
pub fn json_schema() -> Value {
    let mut properties = Map::new();
    for kind in Kind::ALL {
        let message = descriptor(kind);
        if !kind_rule(&message).not_yet {
            properties.insert(
                kind.plural().to_owned(),
                json!({ "type": "array", "items": object(&message) }),
            );
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sluicegate configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn object(message: &MessageDescriptor) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut choices: Vec<(String, Vec<Value>)> = Vec::new();
    for field in file_fields(message) {
        let rule = field_rule(&field);
        if rule.not_yet {
            continue;
        }
        let mut schema = field_schema(&field);
        if let (Some(comment), Value::Object(schema)) = (field_comment(&field), &mut schema) {
            schema.insert("description".into(), comment.into());
        }
        properties.insert(field.name().to_owned(), schema);
        if rule.required {
            required.push(Value::from(field.name()));
        }
        if let Some(choice) = field.containing_oneof()
            && !choice.is_synthetic()
        {
            let alternative = json!({ "required": [field.name()] });
            match choices.iter_mut().find(|(of, _)| of == choice.full_name()) {
                Some((_, alternatives)) => alternatives.push(alternative),
                None => choices.push((choice.full_name().to_owned(), vec![alternative])),
            }
        }
    }
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if let Value::Object(schema) = &mut schema {
        if !required.is_empty() {
            schema.insert("required".into(), required.into());
        }
        if let Some((_, alternatives)) = choices.pop() {
            schema.insert("oneOf".into(), alternatives.into());
        }
        if let Some(comment) = message_comment(message) {
            schema.insert("description".into(), comment.into());
        }
    }
    schema
}

fn field_schema(field: &FieldDescriptor) -> Value {
    if field.is_map() {
        json!({ "type": "object", "additionalProperties": { "type": "string" } })
    } else if field.is_list() {
        json!({ "type": "array", "items": scalar(field) })
    } else {
        scalar(field)
    }
}

fn scalar(field: &FieldDescriptor) -> Value {
    let rule = field_rule(field);
    let mut schema = match field.kind() {
        FieldKind::Message(inner) => return object(&inner),
        FieldKind::Bool => json!({ "type": "boolean" }),
        FieldKind::Uint32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        FieldKind::Uint64 => json!({ "type": "integer", "minimum": 0 }),
        FieldKind::Double => json!({ "type": "number" }),
        _ => json!({ "type": "string" }),
    };
    if let Value::Object(schema) = &mut schema {
        if let Some(min) = rule.min {
            schema.insert("minimum".into(), whole(min));
        }
        if let Some(max) = rule.max {
            schema.insert("maximum".into(), whole(max));
        }
        let form = rule.form();
        if !rule.one_of.is_empty() {
            schema.insert("enum".into(), rule.one_of.into());
        }
        match form {
            Form::Name => {
                schema.insert("pattern".into(), "^[A-Za-z0-9._/-]{1,128}$".into());
            }
            Form::BaseUrl => {
                schema.insert("pattern".into(), "^https?://".into());
            }
            Form::Time => {
                schema.insert("format".into(), "date-time".into());
            }
            Form::Unspecified
            | Form::ModelName
            | Form::HeaderName
            | Form::AddressBlock
            | Form::Rates => {}
        }
    }
    schema
}

/// A bound without a trailing `.0`.
#[expect(clippy::cast_possible_truncation, reason = "bounds are small whole numbers or fractions")]
fn whole(number: f64) -> Value {
    if number.fract() == 0.0 { Value::from(number as i64) } else { Value::from(number) }
}
