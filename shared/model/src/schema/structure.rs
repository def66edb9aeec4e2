//! Checking the shape of a file's value: known names, right types, one of a choice.

use prost_reflect::{FieldDescriptor, Kind as FieldKind, MessageDescriptor};
use serde_json::Value;

use crate::{name::near_miss, path::Path, violation::Violation};

/// Everything in `value` that `message` cannot hold. Empty means that decoding will succeed.
pub fn check_structure(value: &Value, message: &MessageDescriptor, path: &Path) -> Vec<Violation> {
    let mut found = Vec::new();
    check_object(value, message, path, &mut found);
    found
}

/// Fields that a file may name: all but encoded bytes, which only the control plane writes.
pub(super) fn file_fields(message: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> {
    message.fields().filter(|field| field.kind() != FieldKind::Bytes)
}

fn check_object(
    value: &Value,
    message: &MessageDescriptor,
    path: &Path,
    found: &mut Vec<Violation>,
) {
    let Value::Object(members) = value else {
        found.push(wrong_type(path, "a mapping of fields", value));
        return;
    };
    let mut chosen: Vec<(String, &str)> = Vec::new();
    for (name, member) in members {
        let path = path.field(name);
        let Some(field) = file_fields(message).find(|field| field.name() == name) else {
            let known: Vec<_> = file_fields(message).map(|field| field.name().to_owned()).collect();
            let hint = match near_miss(name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("known fields: {}", known.join(", ")),
            };
            found.push(Violation::new(path, format!("unknown field '{name}'")).hint(hint));
            continue;
        };
        if let Some(choice) = field.containing_oneof()
            && !choice.is_synthetic()
        {
            if let Some((_, first)) = chosen.iter().find(|(of, _)| of == choice.full_name()) {
                found.push(
                    Violation::new(path.clone(), format!("'{name}' stands beside '{first}'"))
                        .hint("give exactly one of them"),
                );
            } else {
                chosen.push((choice.full_name().to_owned(), name));
            }
        }
        if member.is_null() {
            found.push(Violation::new(path, "has no value").hint("give one, or remove the field"));
        } else {
            check_field(member, &field, &path, found);
        }
    }
}

fn check_field(value: &Value, field: &FieldDescriptor, path: &Path, found: &mut Vec<Violation>) {
    if field.is_map() {
        let Value::Object(members) = value else {
            found.push(wrong_type(path, "a mapping of names to text", value));
            return;
        };
        for (name, member) in members {
            if !member.is_string() {
                found.push(wrong_type(&path.field(name), "text (quote it)", member));
            }
        }
    } else if field.is_list() {
        let Value::Array(items) = value else {
            found.push(wrong_type(path, "a list", value));
            return;
        };
        for (index, item) in items.iter().enumerate() {
            check_scalar(item, field, &path.index(index), found);
        }
    } else {
        check_scalar(value, field, path, found);
    }
}

fn check_scalar(value: &Value, field: &FieldDescriptor, path: &Path, found: &mut Vec<Violation>) {
    let expected = match field.kind() {
        FieldKind::Message(inner) => return check_object(value, &inner, path, found),
        FieldKind::String => (!value.is_string()).then_some("text (quote it)"),
        FieldKind::Bool => (!value.is_boolean()).then_some("true or false"),
        FieldKind::Uint32 => value
            .as_u64()
            .is_none_or(|number| u32::try_from(number).is_err())
            .then_some("a whole number from 0 to 4294967295"),
        FieldKind::Uint64 => (!value.is_u64()).then_some("a whole number from 0"),
        FieldKind::Double => (!value.is_number()).then_some("a number"),
        _ => Some("something a file cannot say"),
    };
    if let Some(expected) = expected {
        found.push(wrong_type(path, expected, value));
    }
}

fn wrong_type(path: &Path, expected: &str, value: &Value) -> Violation {
    let actual = match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => format!("the number {number}"),
        // The text may be a secret in the wrong place.
        Value::String(_) => "text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    };
    Violation::new(path.clone(), format!("expected {expected}, found {actual}"))
}
