//! A gateway that was started without configuration, under the official OpenAI SDKs and through
//! restarts.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

use std::process::Command;
use std::time::Duration;

use sluicegate_suites::sdk;
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{CliOutput, Standalone, finish};
use sluicegate_testkit::openai;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// The model that a gateway without configuration serves.
const MODEL: &str = "demo";

#[tokio::test]
async fn a1_the_python_sdk_works() {
    let gateway = Fresh::start().await;
    let output = sdk::python("check.py", &gateway.arguments()).await.unwrap();
    gateway.passed(&output);
}

#[tokio::test]
async fn a1_the_node_sdk_works() {
    let gateway = Fresh::start().await;
    let output = sdk::node("check.mjs", &gateway.arguments()).await.unwrap();
    gateway.passed(&output);
}

#[tokio::test]
async fn d5_the_key_stays_through_restarts_and_kills() {
    let folder = TempDir::with_prefix("sluicegate-sdk-").unwrap();
    let mut gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    let first = key(&folder);
    serves(&gateway, &first).await;
    assert_eq!(ask(&gateway, "sk-wrong", false).await.status, Some(401));

    gateway.terminate().unwrap();
    let status = gateway.wait_for_exit(LIMIT).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", gateway.last_words());
    gateway.restart().await.unwrap();
    assert_eq!(key(&folder), first, "another key after a restart");
    serves(&gateway, &first).await;

    for _ in 0..3 {
        gateway.kill().unwrap();
        gateway.wait_for_exit(LIMIT).await.unwrap();
        gateway.restart().await.unwrap();
        assert_eq!(key(&folder), first, "another key after kill -9");
        serves(&gateway, &first).await;
    }
    drop(gateway);

    // On other ports, as a start by hand would be.
    let again = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    assert_eq!(key(&folder), first);
    serves(&again, &first).await;
}

/// What the start prints is enough to make a call.
#[tokio::test]
async fn a1_the_printed_curl_line_works() {
    let folder = TempDir::with_prefix("sluicegate-sdk-").unwrap();
    let gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    let ready = |line: &str| (line == "ready").then_some(());
    gateway.stdout().find(LIMIT, "the word ready", ready).await.unwrap();
    let lines = gateway.stdout().all();
    let start = lines.iter().position(|line| line.trim_start().starts_with("curl ")).unwrap();
    let curl: Vec<_> = lines[start..start + 3].iter().map(String::as_str).collect();
    let curl = curl.join("\n").replacen("curl ", "curl --silent --show-error --fail ", 1);

    let mut command = Command::new("sh");
    command.args(["-c", &curl]).env("NO_PROXY", "127.0.0.1");
    let output = finish(command, LIMIT).await.unwrap();
    assert!(output.status.success(), "{curl}\n{}", output.said());
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let text = answer.pointer("/choices/0/message/content").and_then(|text| text.as_str());
    assert!(text.is_some_and(|text| text.contains("hello")), "{answer}");
}

/// A gateway without configuration, for an SDK's checks.
struct Fresh {
    gateway: Standalone,
    base_url: String,
    key: String,
    _folder: TempDir,
}

impl Fresh {
    async fn start() -> Self {
        let folder = TempDir::with_prefix("sluicegate-sdk-").unwrap();
        let gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
        let base_url = format!("http://{}/v1", gateway.traffic());
        Self { gateway, base_url, key: key(&folder), _folder: folder }
    }

    fn arguments(&self) -> [&str; 3] {
        [&self.base_url, &self.key, MODEL]
    }

    #[track_caller]
    fn passed(&self, output: &CliOutput) {
        println!("{}", output.said());
        assert!(
            output.status.success() && output.stdout.contains("ok   chat"),
            "{}\n{}",
            output.said(),
            self.gateway.last_words()
        );
    }
}

/// Both ways of answering, with the demo's own words in both.
async fn serves(gateway: &Standalone, key: &str) {
    let (whole, stream) = (ask(gateway, key, false).await, ask(gateway, key, true).await);
    assert_eq!(whole.status, Some(200), "{}", whole.text());
    assert_eq!(stream.status, Some(200), "{}", stream.text());
    assert_eq!((stream.dones(), stream.finish().as_deref()), (1, Some("stop")));
    assert!(whole.content().is_some_and(|text| !text.is_empty()));
    assert_eq!(whole.content(), stream.content());
}

async fn ask(gateway: &Standalone, key: &str, stream: bool) -> Reply {
    let body = openai::chat(MODEL, stream);
    let request = Request::post("/v1/chat/completions").bearer(key).body(body);
    exchange(gateway.traffic(), &request, &[], LIMIT).await
}

fn key(folder: &TempDir) -> String {
    let text = std::fs::read_to_string(folder.path().join("gateway/quickstart.key")).unwrap();
    text.trim().to_owned()
}
