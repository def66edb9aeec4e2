//! `sluicegate probe` against a provider of every dialect.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluicegate_testkit::cluster::cli;
use sluicegate_testkit::providers::{Dialect, Fake};

use crate::gateway::World;
use crate::spoken::Spoken;

/// What must be good of every one of them.
const SOUND: [&str; 8] = [
    "reachable",
    "answer",
    "stream",
    "stream_end",
    "first_token",
    "wrong_key",
    "oversized_input",
    "kept_connections",
];

/// And of all but the demo server, which knows neither usage nor tools, and takes any model's name.
const FULL: [&str; 4] = ["usage_in_answer", "usage_in_stream", "null_content", "unknown_model"];

/// What is not as it should be, in words.
async fn faults(world: &World, fake: &Fake) -> Vec<String> {
    let name = fake.dialect().name();
    let is_demo = fake.dialect() == Dialect::QwenDemo;
    let output = cli(world.gateway.admin(), &["probe", name, "-o", "json"]).await.unwrap();
    let mut faults = Vec::new();
    let shows = Spoken::keys(fake.dialect()).iter().any(|key| output.said().contains(key.as_str()));
    if shows || !output.status.success() {
        faults.push(output.said());
    }
    let told: Value = serde_json::from_str(&output.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap().iter();
    let findings: BTreeMap<_, _> =
        findings.map(|finding| (finding["check"].as_str().unwrap(), finding)).collect();
    let full = FULL.into_iter().filter(|_| !is_demo);
    for check in SOUND.into_iter().chain(full) {
        if findings[check]["verdict"] != "good" {
            faults.push(findings[check].to_string());
        }
    }
    for check in ["tool_call", "tool_call_in_stream"] {
        let is_called = findings[check]["seen"].as_str().unwrap().starts_with("called");
        if is_called == is_demo {
            faults.push(findings[check].to_string());
        }
    }
    if told["profile"] != json!({ "fill_usage": is_demo, "stream_end": "finish" }) {
        faults.push(told["profile"].to_string());
    }
    faults
}

#[tokio::test]
async fn a15_every_dialect_can_be_probed() {
    let world = World::start(&Dialect::ALL).await;
    let mut failed = Vec::new();
    for fake in &world.fakes {
        let faults = faults(&world, fake).await;
        if !faults.is_empty() {
            failed.push(format!("== {}\n{}", fake.dialect().name(), faults.join("\n")));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
