//! The fakes of the providers under the providers' own SDKs: what these accept, and what they read
//! out of it, is what the providers send.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

use sluicegate_suites::sdk;
use sluicegate_testkit::cluster::CliOutput;
use sluicegate_testkit::providers::{Dialect, Fake};

#[tokio::test]
async fn the_openai_python_sdk_accepts_all_of_its_family() {
    for dialect in [
        Dialect::OpenAi,
        Dialect::Azure,
        Dialect::DeepSeek,
        Dialect::Ark,
        Dialect::Zhipu,
        Dialect::QwenCompat,
        Dialect::QianfanV2,
        Dialect::Moonshot,
        Dialect::Mistral,
        Dialect::Vllm,
        Dialect::SgLang,
        Dialect::Ollama,
        Dialect::QwenDemo,
    ] {
        with_python(dialect).await;
    }
}

#[tokio::test]
async fn the_anthropic_python_sdk_accepts_its_fake() {
    with_python(Dialect::Anthropic).await;
}

#[tokio::test]
async fn the_google_python_sdk_accepts_its_fake() {
    with_python(Dialect::Gemini).await;
}

#[tokio::test]
async fn the_dashscope_python_sdk_accepts_its_fake() {
    with_python(Dialect::DashScope).await;
}

#[tokio::test]
async fn the_aws_python_sdk_accepts_its_fake() {
    with_python(Dialect::Bedrock).await;
}

#[tokio::test]
async fn the_openai_node_sdk_accepts_its_fakes() {
    with_node(Dialect::OpenAi).await;
    with_node(Dialect::Azure).await;
}

#[tokio::test]
async fn the_anthropic_node_sdk_accepts_its_fake() {
    with_node(Dialect::Anthropic).await;
}

#[tokio::test]
async fn the_google_node_sdk_accepts_its_fake() {
    with_node(Dialect::Gemini).await;
}

/// The list of abilities that gateways are measured by holds at OpenAI itself.
#[tokio::test]
async fn openai_has_every_ability_on_the_list() {
    let fake = Fake::start(Dialect::OpenAi).await.unwrap();
    let arguments = [&fake.base_url(), &fake.key(), "m1", "openai", "direct"];
    for output in [
        sdk::python("dialects.py", &arguments).await.unwrap(),
        sdk::node("dialects.mjs", &arguments).await.unwrap(),
    ] {
        println!("{}", output.said());
        let count =
            |mark: &str| output.stdout.lines().filter(|line| line.starts_with(mark)).count();
        let counts = (count("ok "), count("FAIL "), count("n/a "));
        assert_eq!(counts, (29, 0, 3), "{}", output.said());
    }
}

async fn with_python(dialect: Dialect) {
    let fake = Fake::start(dialect).await.unwrap();
    let arguments = [dialect.name(), &fake.base_url(), &fake.key()];
    passed(dialect, &sdk::python("providers.py", &arguments).await.unwrap());
}

async fn with_node(dialect: Dialect) {
    let fake = Fake::start(dialect).await.unwrap();
    let arguments = [dialect.name(), &fake.base_url(), &fake.key()];
    passed(dialect, &sdk::node("providers.mjs", &arguments).await.unwrap());
}

#[track_caller]
fn passed(dialect: Dialect, output: &CliOutput) {
    println!("{dialect:?}\n{}", output.said());
    let is_whole = output.status.success() && output.stdout.contains("ok   all");
    assert!(is_whole, "{dialect:?}\n{}", output.said());
}
