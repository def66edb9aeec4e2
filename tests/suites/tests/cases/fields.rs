//! life-config-field-lost-between-planes: every field that a file can have reaches the data plane.
//!
//! `cases/every-field.yaml` sets each of them, as the first test makes sure of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluicegate_model::Resource;
use sluicegate_model::document::{Declared, Document, References};
use sluicegate_model::schema::{json_schema, to_json};
use sluicegate_testkit::cluster::{Standalone, cli};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::process::http_get;
use tempfile::TempDir;

use crate::own::LIMIT;

/// Fields whose value changes nothing on a data plane, and why.
const WITHOUT_EFFECT: [(&str, &str); 2] = [
    ("degradations.levels.strip_all_tools", "a level 2 strips all tools whether it says so or not"),
    ("degradations.tools", "levels are checked against them when they are applied"),
];

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join("every-field.yaml")
}

fn document() -> Document {
    let text = std::fs::read_to_string(example()).expect("the example");
    Document::parse("every-field.yaml", &text, References::Closed).expect("a valid example")
}

/// The list of a file that a resource stands in.
fn section(declared: &Declared) -> &'static str {
    declared.reference.kind.plural()
}

/// Names of the fields below a value, dotted, without places in lists. Entries of maps that callers
/// name, and the one of several sources of a secret, are no fields of their own.
fn fields(of: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !is_whole(of) => {
            for (name, member) in members {
                let path = format!("{of}.{name}");
                fields(&path, member, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(of, item, found)),
        _ => {}
    }
}

/// The same of a JSON schema.
fn fields_of_schema(of: &str, schema: &Value, found: &mut BTreeSet<String>) {
    let members = schema["properties"].as_object().into_iter().flatten();
    for (name, member) in members.filter(|_| !is_whole(of)) {
        let path = format!("{of}.{name}");
        fields_of_schema(&path, member, found);
        fields_of_schema(&path, &member["items"], found);
        found.insert(path);
    }
}

fn is_whole(path: &str) -> bool {
    [".secret", ".headers", ".metadata"].iter().any(|end| path.ends_with(end))
}

#[test]
fn the_example_sets_every_field() {
    let mut known = BTreeSet::new();
    for (section, list) in json_schema()["properties"].as_object().expect("sections") {
        fields_of_schema(section, &list["items"], &mut known);
    }
    assert!(known.len() > 100, "{known:?}");
    let mut set = BTreeSet::new();
    for declared in &document().resources {
        fields(section(declared), &to_json(&declared.resource), &mut set);
    }
    // Keys inside a provider become credentials, and a key's hash is made of its secret.
    let elsewhere = |path: &&String| path.starts_with("providers.keys") || *path == "api_keys.hash";
    let missing: Vec<_> = known.difference(&set).filter(|path| !elsewhere(path)).collect();
    assert!(missing.is_empty(), "the example lacks {missing:#?}");
    let inline = document();
    let mut keys = inline.resources.iter().filter(|declared| declared.reference.name == "p1/k1");
    let key = to_json(&keys.next().expect("the key inside the provider").resource);
    let expected = json!({
        "name": "p1/k1", "provider": "p1", "secret": {"value": "sk-up-one"},
        "weight": 3, "disabled": true, "account": "acme",
    });
    assert_eq!(key, expected);
}

/// Without any one field a data plane reads something else, or nothing at all.
#[test]
fn every_field_is_read() {
    let mut lost = BTreeSet::new();
    let mut tried = 0;
    for declared in &document().resources {
        let whole = Resource::parse(&declared.resource).expect("a valid resource");
        let value = to_json(&declared.resource);
        for place in places("", &value) {
            let mut without = value.clone();
            remove(&mut without, &place);
            tried += 1;
            let text = json!({ section(declared): [without] }).to_string();
            let Ok(without) = Document::parse("without", &text, References::Open) else { continue };
            let without = without.resources.first().map(|one| Resource::parse(&one.resource));
            if without.is_some_and(|read| read.is_ok_and(|read| read == whole)) {
                let path = place.split('/').filter(|part| part.parse::<usize>().is_err());
                lost.insert(format!("{}{}", section(declared), path.collect::<Vec<_>>().join(".")));
            }
        }
    }
    assert!(tried > 150, "only {tried} fields");
    let expected = WITHOUT_EFFECT.map(|(path, _)| path.to_owned());
    assert_eq!(lost, BTreeSet::from(expected), "fields that nothing reads");
}

/// JSON pointers to every member below a value.
fn places(at: &str, value: &Value) -> Vec<String> {
    let below = |name: &str, value: &Value| {
        let place = format!("{at}/{name}");
        places(&place, value)
    };
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| [vec![format!("{at}/{name}")], below(name, member)].concat())
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(index, item)| below(&index.to_string(), item))
            .collect(),
        _ => Vec::new(),
    }
}

fn remove(value: &mut Value, place: &str) {
    let Some((parent, name)) = place.rsplit_once('/') else { return };
    if let Some(Value::Object(members)) = value.pointer_mut(parent) {
        members.remove(name);
    }
}

/// What was applied is what the control plane shows, and the data plane took all of it.
#[tokio::test(flavor = "multi_thread")]
async fn every_field_arrives() {
    let folder = TempDir::with_prefix("sluicegate-fields-").unwrap();
    let gateway = Standalone::start(&example(), &[], folder.path()).await.unwrap();
    let output = cli(gateway.admin(), &["get", "-o", "json"]).await.unwrap();
    assert!(output.status.success(), "{}", output.said());
    let shown: Value = serde_json::from_str(&output.stdout).unwrap();
    let shown = shown["resources"].as_array().unwrap();
    for declared in &document().resources {
        let applied = to_json(&declared.resource);
        let kind = declared.reference.kind.singular();
        let mut same = shown
            .iter()
            .filter(|one| one["kind"] == kind && one["spec"]["name"] == applied["name"]);
        let one = same.next().unwrap_or_else(|| panic!("{kind} {} is gone", applied["name"]));
        assert_eq!(plain(&one["spec"]), plain(&applied));
    }

    let revision = format!("sluicegate_policy_revision {}", head(&gateway).await);
    within(LIMIT, "the policy on the data plane", async {
        while !metrics(&gateway).await.lines().any(|line| line == revision) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    let metrics = metrics(&gateway).await;
    for nothing in ["sluicegate_policy_rejected_resources 0", "sluicegate_policy_refused_total 0"] {
        assert!(metrics.lines().any(|line| line == nothing), "{metrics}");
    }
}

async fn head(gateway: &Standalone) -> u64 {
    let output = cli(gateway.admin(), &["get", "models", "-o", "json"]).await.expect("an answer");
    let shown: Value = serde_json::from_str(&output.stdout).expect("JSON");
    shown["revision"].as_u64().expect("a revision")
}

async fn metrics(gateway: &Standalone) -> String {
    http_get(gateway.ops(), "/metrics").await.text()
}

/// Without secrets, which are never shown, and what is made of them.
fn plain(resource: &Value) -> Value {
    let mut resource = resource.clone();
    if let Some(members) = resource.as_object_mut() {
        members.retain(|name, _| name != "secret" && name != "hash");
    }
    resource
}
