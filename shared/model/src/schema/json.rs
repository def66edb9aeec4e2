//! Between typed messages and their JSON form.

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;
use sluicegate_proto::resource::v1 as pb;

use super::descriptor;
use crate::{name::Kind, path::Path, violation::Violation};

/// A kind's message from a value whose structure was checked.
///
/// # Errors
/// A violation at the value as a whole; it means that the structure was not checked.
pub fn from_json(value: &Value, message: MessageDescriptor) -> Result<DynamicMessage, Violation> {
    DynamicMessage::deserialize(message, value)
        .map_err(|error| Violation::new(Path::root(), error.to_string()))
}

/// The JSON form of a resource: the fields that are set, with their file names.
pub fn to_json(resource: &pb::Resource) -> Value {
    let Some((kind, encoded)) = encode_spec(resource) else { return Value::Null };
    let message = DynamicMessage::decode(descriptor(kind), encoded.as_slice())
        .expect("a message decodes by its own descriptor");
    let options =
        SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("every value of a resource has a JSON form")
}

/// The inner message of a resource and its kind.
pub(crate) fn encode_spec(resource: &pb::Resource) -> Option<(Kind, Vec<u8>)> {
    use pb::resource::Spec;
    Some(match resource.spec.as_ref()? {
        Spec::Provider(spec) => (Kind::Provider, spec.encode_to_vec()),
        Spec::Credential(spec) => (Kind::Credential, spec.encode_to_vec()),
        Spec::Model(spec) => (Kind::Model, spec.encode_to_vec()),
        Spec::Tenant(spec) => (Kind::Tenant, spec.encode_to_vec()),
        Spec::ApiKey(spec) => (Kind::ApiKey, spec.encode_to_vec()),
        Spec::Limit(spec) => (Kind::Limit, spec.encode_to_vec()),
        Spec::Override(spec) => (Kind::Override, spec.encode_to_vec()),
        Spec::Force(spec) => (Kind::Force, spec.encode_to_vec()),
        Spec::Degradation(spec) => (Kind::Degradation, spec.encode_to_vec()),
        Spec::Access(spec) => (Kind::Access, spec.encode_to_vec()),
    })
}
