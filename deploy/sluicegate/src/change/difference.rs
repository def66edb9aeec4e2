//! What changed about one resource.

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use sluicegate_model::{resource, schema};
use sluicegate_proto::{
    admin::v1::{Difference, difference::Action},
    resource::v1::Resource,
};

use crate::output::{clean, to_yaml};

/// Unchanged lines around a changed one.
const CONTEXT: usize = 3;

/// Kind and name of what changed.
pub(crate) fn reference(difference: &Difference) -> (String, String) {
    let reference = difference.r#ref.clone().unwrap_or_default();
    (reference.kind, reference.name)
}

/// `create`, `update` or `delete`.
pub(crate) fn action_name(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Delete => "delete",
        Action::Unspecified => "change",
    }
}

/// The form for programs.
pub(crate) fn to_json(difference: &Difference) -> Value {
    let (kind, name) = reference(difference);
    let mut value =
        json!({ "action": action_name(difference.action()), "kind": kind, "name": name });
    for (side, resource) in [("before", &difference.before), ("after", &difference.after)] {
        if let Some(resource) = resource {
            value[side] = shown(resource);
        }
    }
    value
}

/// A unified diff of the two sides in YAML.
pub(crate) fn unified(difference: &Difference, colours: bool) -> String {
    let yaml = |side: &Option<Resource>| side.as_ref().map(|side| to_yaml(&shown(side)));
    let (before, after) = (yaml(&difference.before), yaml(&difference.after));
    let (kind, name) = reference(difference);
    let label = |side: &Option<String>| match side {
        Some(_) => clean(&format!("{kind}/{name}")),
        None => "/dev/null".to_owned(),
    };
    let paint = |text: &str, code: &str| {
        if colours { format!("\u{1b}[{code}m{text}\u{1b}[0m\n") } else { format!("{text}\n") }
    };
    let mut out = paint(&format!("--- {}", label(&before)), "1");
    out.push_str(&paint(&format!("+++ {}", label(&after)), "1"));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let diff = TextDiff::from_lines(&before, &after);
    let mut hunks = 0;
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        hunks += 1;
        out.push_str(&paint(&hunk.header().to_string(), "36"));
        for change in hunk.iter_changes() {
            let line = change.value().trim_end_matches('\n');
            match change.tag() {
                ChangeTag::Equal => out.push_str(&format!(" {line}\n")),
                ChangeTag::Delete => out.push_str(&paint(&format!("-{line}"), "31")),
                ChangeTag::Insert => out.push_str(&paint(&format!("+{line}"), "32")),
            }
        }
    }
    if hunks == 0 {
        out.push_str(" only secrets differ\n");
    }
    out
}

fn shown(wire: &Resource) -> Value {
    schema::to_json(&resource::redacted(wire))
}

#[cfg(test)]
mod tests {
    use sluicegate_proto::resource::v1::{ResourceRef, Tenant, resource::Spec};

    use super::*;

    fn tenant(parent: &str) -> Option<Resource> {
        let tenant = Tenant { name: "t".into(), parent: parent.into(), ..Tenant::default() };
        Some(Resource { spec: Some(Spec::Tenant(tenant)) })
    }

    fn difference(action: Action, before: Option<Resource>, after: Option<Resource>) -> Difference {
        let r#ref = Some(ResourceRef { kind: "tenant".into(), name: "t".into() });
        Difference { r#ref, action: action.into(), before, after }
    }

    #[test]
    fn unified_form() {
        let changed = difference(Action::Update, tenant("a"), tenant("b"));
        assert_eq!(
            unified(&changed, false),
            "--- tenant/t\n+++ tenant/t\n@@ -1,2 +1,2 @@\n name: t\n-parent: a\n+parent: b\n"
        );
        assert!(unified(&changed, true).contains("\u{1b}[32m+parent: b\u{1b}[0m\n"));
        let made = difference(Action::Create, None, tenant(""));
        assert!(unified(&made, false).starts_with("--- /dev/null\n+++ tenant/t\n@@ "));
        let same = difference(Action::Update, tenant(""), tenant(""));
        assert!(unified(&same, false).ends_with("only secrets differ\n"));
    }

    #[test]
    fn form_for_programs() {
        let gone = difference(Action::Delete, tenant("a"), None);
        assert_eq!(
            to_json(&gone),
            json!({ "action": "delete", "kind": "tenant", "name": "t",
                    "before": { "name": "t", "parent": "a" } })
        );
    }
}
