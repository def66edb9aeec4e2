//! The resource definitions as data: one table (the message descriptors with their rules) drives
//! parsing of files, checks of API calls, hints in errors and the JSON Schema for editors.

mod json;
mod json_schema;
mod rules;
mod structure;

pub(crate) use json::encode_spec;
pub use json::{from_json, to_json};
pub use json_schema::json_schema;
pub use rules::check_rules;
pub use structure::check_structure;

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use crate::name::Kind;

/// The descriptor of a kind's message.
pub fn descriptor(kind: Kind) -> MessageDescriptor {
    sluicegate_proto::DESCRIPTORS
        .get_message_by_name(kind.message_name())
        .expect("every kind has a message; a test holds the two lists together")
}

/// The comment above a field or message in its definition, in one line.
fn comment(path: &[i32], file: &prost_reflect::FileDescriptor) -> Option<String> {
    let info = file.file_descriptor_proto().source_code_info.as_ref()?;
    let location = info.location.iter().find(|location| location.path == path)?;
    let text = location.leading_comments.as_deref()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What a field is for.
fn field_comment(field: &FieldDescriptor) -> Option<String> {
    comment(field.path(), &field.parent_file())
}

/// What a message is for.
fn message_comment(message: &MessageDescriptor) -> Option<String> {
    comment(message.path(), &message.parent_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_message_of_its_name() {
        for kind in Kind::ALL {
            let rule = rules::kind_rule(&descriptor(kind));
            assert_eq!(rule.kind, kind.singular());
        }
    }

    #[test]
    fn fields_and_kinds_are_documented() {
        for kind in Kind::ALL {
            assert!(message_comment(&descriptor(kind)).is_some(), "{kind} has no comment");
        }
        let provider = descriptor(Kind::Provider);
        for field in provider.fields() {
            assert!(field_comment(&field).is_some(), "{} has no comment", field.full_name());
        }
    }
}
