//! What a gateway turns away that runs short.

use serde_json::{Value, json};
use sluicegate_testkit::cluster::Standalone;
use sluicegate_testkit::upstream::Upstream;

use crate::world::{CALLER, good, post};

#[tokio::test(flavor = "multi_thread")]
async fn c10_a_gateway_short_of_memory_serves_only_what_is_critical() {
    let folder = tempfile::TempDir::with_prefix("sluicegate-immune-").unwrap();
    let upstream = Upstream::start(|call| good(call, "here")).await.unwrap();
    let key = |name: &str| json!({ "name": name, "tenant": name, "secret": { "value": format!("{CALLER}-{name}") } });
    let config = json!({
        "providers": [{
            "name": "p", "dialect": "openai-chat", "keyless": true,
            "base_url": format!("http://{}/v1", upstream.address()),
        }],
        "models": [{ "name": "m", "targets": [{ "provider": "p" }] }],
        "tenants": [
            { "name": "vital", "priority": "critical" }, { "name": "usual" },
        ],
        "api_keys": [key("vital"), key("usual")],
    });
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, config.to_string()).unwrap();
    // Less than any process needs.
    let flags = ["--max-memory-bytes", "1000000"];
    let gateway = Standalone::start(&file, &flags, folder.path()).await.unwrap();
    let ask = async |name: &str| {
        let body: Value = json!({ "model": "m", "messages": [{ "role": "user", "content": "x" }] });
        post(gateway.traffic(), &format!("{CALLER}-{name}"), &body, &[]).await
    };
    let mut refused = ask("usual").await;
    // The first sample may not have been taken yet.
    for _ in 0..50 {
        if refused.status == Some(503) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        refused = ask("usual").await;
    }
    println!("{:?} {}", refused.status, refused.text());
    let error = refused.json().unwrap()["error"].clone();
    assert_eq!((refused.status, &error["code"]), (Some(503), &json!("gateway_overloaded")));
    assert_eq!(error["sluicegate"]["retryable"], true);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(ask("vital").await.status, Some(200));
}
