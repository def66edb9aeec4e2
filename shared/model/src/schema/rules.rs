//! Checking a message against the rules in its definition.

use std::{collections::HashMap, sync::LazyLock};

use prost::Message;
use prost_reflect::{
    Cardinality, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind as FieldKind,
    MessageDescriptor, ReflectMessage, Value,
};
use sluicegate_proto::{
    DESCRIPTORS,
    resource::v1::{FieldRule, Form, KindRule},
};

use super::field_comment;
use crate::{name, path::Path, resource::form, violation::Violation};

/// Rules by the full name of the field; fields without a rule are absent.
static RULES: LazyLock<HashMap<String, FieldRule>> = LazyLock::new(|| {
    let extension = extension("sluicegate.resource.v1.rule");
    DESCRIPTORS
        .all_messages()
        .flat_map(|message| message.fields().collect::<Vec<_>>())
        .filter_map(|field| {
            let options = field.options();
            if !options.has_extension(&extension) {
                return None;
            }
            let rule = decode(options.get_extension(&extension).as_ref());
            Some((field.full_name().to_owned(), rule))
        })
        .collect()
});

fn extension(name: &str) -> ExtensionDescriptor {
    DESCRIPTORS.get_extension_by_name(name).expect("the definitions declare this extension")
}

fn decode<T: Message + Default>(value: &Value) -> T {
    let message = value.as_message().expect("rules are messages");
    message.transcode_to().expect("the rule was encoded by the same definitions")
}

/// The rule of a field; all defaults when it has none.
pub(super) fn field_rule(field: &FieldDescriptor) -> FieldRule {
    RULES.get(field.full_name()).cloned().unwrap_or_default()
}

/// What is said of a whole kind.
pub(super) fn kind_rule(message: &MessageDescriptor) -> KindRule {
    let extension = extension("sluicegate.resource.v1.kind");
    let options = message.options();
    if options.has_extension(&extension) {
        decode(options.get_extension(&extension).as_ref())
    } else {
        KindRule::default()
    }
}

/// Everything in `message` that breaks a rule, at any depth.
pub fn check_rules(message: &DynamicMessage) -> Vec<Violation> {
    let mut found = Vec::new();
    let rule = kind_rule(&message.descriptor());
    if rule.not_yet {
        found.push(not_yet(Path::root(), &format!("kind '{}'", rule.kind)));
    }
    check_message(message, &Path::root(), &mut found);
    found
}

fn not_yet(path: Path, what: &str) -> Violation {
    Violation::new(path, format!("{what} is not supported yet: it would have no effect"))
        .hint("remove it until a build supports it")
}

fn check_message(message: &DynamicMessage, path: &Path, found: &mut Vec<Violation>) {
    for field in message.descriptor().fields() {
        let rule = field_rule(&field);
        let path = path.field(field.name());
        if !message.has_field(&field) {
            if rule.required {
                let violation = Violation::new(path, "is required");
                found.push(match field_comment(&field) {
                    Some(comment) => violation.hint(lower_first(&comment)),
                    None => violation,
                });
            }
            continue;
        }
        if rule.not_yet {
            found.push(not_yet(path, &format!("'{}'", field.name())));
            continue;
        }
        check_value(message.get_field(&field).as_ref(), &rule, &field, &path, found);
    }
}

fn check_value(
    value: &Value,
    rule: &FieldRule,
    field: &FieldDescriptor,
    path: &Path,
    found: &mut Vec<Violation>,
) {
    match value {
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                check_value(item, rule, field, &path.index(index), found);
            }
        }
        Value::Message(inner) => check_message(inner, path, found),
        Value::String(text) => found.extend(check_text(text, rule, path)),
        Value::U32(number) => found.extend(check_number(f64::from(*number), rule, path)),
        #[expect(clippy::cast_precision_loss, reason = "bounds need no exactness beyond 2^53")]
        Value::U64(number) => found.extend(check_number(*number as f64, rule, path)),
        Value::F64(number) => found.extend(check_number(*number, rule, path)),
        _ => {}
    }
    debug_assert!(
        field.kind() != FieldKind::Int32 || field.cardinality() == Cardinality::Repeated,
        "no rule knows signed numbers"
    );
}

fn check_number(number: f64, rule: &FieldRule, path: &Path) -> Option<Violation> {
    if !number.is_finite() {
        return Some(Violation::new(path.clone(), "must be a finite number"));
    }
    let too_small = rule.min.is_some_and(|min| number < min);
    let too_large = rule.max.is_some_and(|max| number > max);
    if !too_small && !too_large {
        return None;
    }
    let bounds = match (rule.min, rule.max) {
        (Some(min), Some(max)) => format!("between {min} and {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => return None,
    };
    Some(
        Violation::new(path.clone(), format!("{number} is out of range"))
            .hint(format!("must be {bounds}")),
    )
}

fn check_text(text: &str, rule: &FieldRule, path: &Path) -> Option<Violation> {
    if text.is_empty() {
        return rule.required.then(|| Violation::new(path.clone(), "must not be empty"));
    }
    if !rule.one_of.is_empty() && !rule.one_of.iter().any(|allowed| allowed == text) {
        let known = rule.one_of.iter().map(String::as_str);
        let hint = match name::near_miss(text, known) {
            Some(near) => format!("did you mean '{near}'? Allowed: {}", rule.one_of.join(", ")),
            None => format!("allowed: {}", rule.one_of.join(", ")),
        };
        return Some(
            Violation::new(path.clone(), format!("unknown value '{}'", cap(text))).hint(hint),
        );
    }
    let (message, hint) = match rule.form() {
        Form::Unspecified => return None,
        Form::Name => (!name::is_name(text)).then_some((
            format!("'{}' is not a name", cap(text)),
            "use 1 to 128 of a-z A-Z 0-9 . _ - /".to_owned(),
        )),
        Form::ModelName => (!name::is_model_name(text)).then_some((
            format!("'{}' is not a model name", cap(text)),
            "use 1 to 256 printable characters, none of them a space or invisible".to_owned(),
        )),
        Form::BaseUrl => form::base_url(text).err(),
        Form::HeaderName => http::HeaderName::try_from(text).is_err().then(|| {
            (
                format!("'{}' is not a header name", cap(text)),
                "use a name such as x-team".to_owned(),
            )
        }),
        Form::Time => form::time(text).err(),
        Form::AddressBlock => form::address_block(text).err(),
        Form::Rates => form::rates(text).err(),
    }?;
    Some(Violation::new(path.clone(), message).hint(hint))
}

/// Text from outside, short enough for a message.
fn cap(text: &str) -> String {
    if text.chars().count() <= 80 {
        text.to_owned()
    } else {
        text.chars().take(77).chain("...".chars()).collect()
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}
