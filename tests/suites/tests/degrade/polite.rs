//! Answers in the place of refusals while targets are away.

use serde_json::{Value, json};
use sluicegate_suites::sdk;
use sluicegate_testkit::client::Reply;
use sluicegate_testkit::deadline::within;

use crate::world::{LIMIT, World, chat, extension};

/// One request at a time, and words for the others.
async fn world() -> World {
    let provider = json!({
        "capacity": { "max_requests": 1 },
        "breaker": { "open_ms": 60_000, "consecutive_failures": 3 },
    });
    let model = json!({ "when_unavailable": {
        "answer": "degraded", "wait_ms": 0, "reply": "Please come back in {seconds} s.",
    } });
    World::start(json!([]), provider, model).await
}

async fn open_the_breaker(world: &World, model: &str) {
    for _ in 0..3 {
        world.ask("team", chat(model, "fail", &[], false)).await;
    }
}

/// It has the form of an answer and says what it is.
async fn is_polite(world: &World, reply: &Reply, code: &str) -> Value {
    assert_eq!(reply.status, Some(200), "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-status"), Some("degraded"));
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(reply.content(), Some(format!("Please come back in {seconds} s.")));
    assert_eq!(reply.finish().as_deref(), Some("stop"));
    let told = extension(reply);
    assert_eq!(told["status"], "degraded");
    let wait_ms = told["estimated_wait_ms"].as_u64().unwrap();
    assert_eq!(wait_ms.div_ceil(1_000).max(1), seconds);
    let record = world.record(reply).await;
    assert_eq!((&record["status"], &record["outcome"]), (&json!(200), &json!("rejected")));
    assert_eq!((&record["error_code"], &record["usage"]), (&json!(code), &Value::Null));
    println!("{} {:?} {told}", reply.content().unwrap(), record["reason"]);
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_callers_get_words_while_a_target_is_full_or_left_alone() {
    let world = world().await;
    let slow = world.ask("team", chat("m1", "take your time", &[], false));
    let others = async {
        world.upstream.wait_for_calls(1, LIMIT).await.unwrap();
        let whole = world.ask("team", chat("m1", "hi", &[], false)).await;
        is_polite(&world, &whole, "target_full").await;
        assert_eq!(whole.usage(), Some((0, 0)));
        let mut body = chat("m1", "hi", &[], true);
        body["stream_options"] = json!({ "include_usage": true });
        let stream = world.ask("team", body).await;
        is_polite(&world, &stream, "target_full").await;
        assert_eq!((stream.dones(), stream.usage()), (1, Some((0, 0))));
        assert_eq!(stream.deltas()[0]["role"], "assistant");
    };
    let (served, ()) = tokio::join!(slow, others);
    assert_eq!(served.content().as_deref(), Some("late"), "{}", served.text());
    open_the_breaker(&world, "m2").await;
    let before = world.requests_upstream();
    for stream in [false, true] {
        let reply = world.ask("team", chat("m2", "hi", &[], stream)).await;
        let told = is_polite(&world, &reply, "target_unavailable").await;
        assert!((1..=72_000).contains(&told["estimated_wait_ms"].as_u64().unwrap()), "{told}");
    }
    let body = json!({ "model": "m2", "prompt": "x" });
    let reply = world.post("team", "/v1/completions", body).await;
    let text = reply.json().unwrap()["choices"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("Please come back in "), "{text}");
    let body = json!({ "model": "m2", "input": "x" });
    let refused = world.post("team", "/v1/embeddings", body).await;
    assert_eq!(refused.status, Some(503));
    assert_eq!(refused.json().unwrap()["error"]["code"], "target_unavailable");
    assert_eq!(world.requests_upstream(), before, "nothing was sent");
    // The one that was served has cost something, and nothing else.
    let counted = async {
        loop {
            let usage = world.ok(&["usage", "--last", "1d", "--by", "model", "-o", "json"]).await;
            let usage: Value = serde_json::from_str(&usage).unwrap();
            if usage["totals"].as_array().is_some_and(|rows| !rows.is_empty()) {
                return usage["totals"].clone();
            }
        }
    };
    let usage = within(LIMIT, "the usage", counted).await.unwrap();
    println!("{usage}");
    let served: Vec<_> = usage.as_array().unwrap().iter().map(|row| &row["model"]).collect();
    assert_eq!((served, &usage[0]["requests"]), (vec![&json!("m1")], &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_the_sdk_takes_answers_in_the_place_of_refusals() {
    let world = world().await;
    open_the_breaker(&world, "m2").await;
    let base_url = format!("http://{}/v1", world.plane.traffic());
    let arguments = [base_url.as_str(), "sk-caller-of-team", "m2"];
    let output = sdk::python("polite.py", &arguments).await.unwrap();
    println!("{}", output.said());
    assert!(output.status.success() && output.stdout.contains("ok   stream"), "{}", output.said());
}
