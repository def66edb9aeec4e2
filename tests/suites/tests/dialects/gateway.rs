//! OpenAI's SDKs through a gateway, with a provider of every dialect behind it.

use std::collections::BTreeMap;

use serde_json::json;
use sluicegate_suites::sdk;
use sluicegate_testkit::cluster::{CliOutput, Standalone};
use sluicegate_testkit::providers::{Dialect, Fake};
use tempfile::TempDir;

use crate::spoken::Spoken;

/// A gateway before a fake of every dialect.
pub(crate) struct World {
    pub(crate) gateway: Standalone,
    pub(crate) fakes: Vec<Fake>,
    _folder: TempDir,
}

pub(crate) const KEY: &str = "sk-caller-of-every-dialect";

impl World {
    pub(crate) async fn start(dialects: &[Dialect]) -> Self {
        let folder = TempDir::with_prefix("sluicegate-dialects-").unwrap();
        let mut fakes = Vec::new();
        for dialect in dialects {
            fakes.push(Fake::of(*dialect).keys(Spoken::keys(*dialect)).start().await.unwrap());
        }
        let entries: Vec<_> = fakes.iter().map(Spoken::entry).collect();
        let part = |name: &str| entries.iter().map(|entry| entry[name].clone()).collect::<Vec<_>>();
        let config = json!({
            "providers": part("provider"), "models": part("model"),
            "api_keys": [{ "name": "caller", "secret": { "value": KEY } }],
        });
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let gateway = Standalone::start(&file, &[], folder.path()).await.unwrap();
        Self { gateway, fakes, _folder: folder }
    }

    fn base_url(&self) -> String {
        format!("http://{}/v1", self.gateway.traffic())
    }
}

/// What a script said of each ability, by its name.
fn abilities(output: &CliOutput) -> BTreeMap<String, String> {
    let lines = output.stdout.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(word, rest)| (rest.trim().to_owned(), word.to_owned())).collect()
}

async fn drives(node: bool) {
    let world = World::start(&Dialect::ALL).await;
    let mut failed = Vec::new();
    for fake in &world.fakes {
        let name = fake.dialect().name();
        let base_url = world.base_url();
        let arguments = [base_url.as_str(), KEY, name, name];
        let output = if node {
            sdk::node("dialects.mjs", &arguments).await.unwrap()
        } else {
            sdk::python("dialects.py", &arguments).await.unwrap()
        };
        let abilities = abilities(&output);
        let count = |word: &str| abilities.values().filter(|seen| *seen == word).count();
        println!("{name}: {} ok, {} n/a, {} FAIL", count("ok"), count("n/a"), count("FAIL"));
        if !output.status.success() || count("ok") < 5 {
            failed.push(format!("== {name}\n{}", output.said()));
        }
    }
    assert!(failed.is_empty(), "{}\n{}", failed.join("\n"), world.gateway.last_words());
}

#[tokio::test]
async fn c1_the_openai_python_sdk_drives_every_dialect() {
    drives(false).await;
}

#[tokio::test]
async fn c1_the_openai_node_sdk_drives_every_dialect() {
    drives(true).await;
}
