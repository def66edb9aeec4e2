//! The names that a configuration may have are those of formats that this build speaks.

#![allow(clippy::unwrap_used, reason = "tests fail where they panic")]

use sluicegate_dialect::registry;
use sluicegate_model::{
    document::{Document, References},
    schema::json_schema,
};

fn is_valid(dialect: &str, variant: &str) -> bool {
    let text = format!(
        "providers:\n  - name: p\n    dialect: {dialect}\n    variant: \"{variant}\"\n    base_url: http://u\n"
    );
    Document::parse("f", &text, References::Open).is_ok()
}

#[test]
fn c1_every_dialect_of_this_build_can_be_configured() {
    for dialect in registry::all() {
        assert!(is_valid(dialect.name(), dialect.variant()), "{dialect:?}");
    }
}

#[test]
fn c1_every_dialect_that_can_be_configured_is_spoken() {
    let schema = json_schema();
    let provider = &schema["properties"]["providers"]["items"]["properties"];
    let [dialects, variants] = ["dialect", "variant"].map(|name| {
        let values = provider[name]["enum"].as_array().unwrap().iter();
        values.map(|value| value.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    });
    for dialect in &dialects {
        for variant in variants.iter().map(String::as_str).chain([""]) {
            let spoken = registry::find(dialect, variant).is_some();
            assert_eq!(is_valid(dialect, variant), spoken, "{dialect} {variant}");
        }
    }
}
