//! One fault each at the first target, with a second one that is well.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use sluicegate_testkit::client::Reply;
use sluicegate_testkit::openai;
use sluicegate_testkit::upstream::{Call, Step};
use tokio::time::Instant;

use crate::world::{World, asked, good, refused, streams};

const WELL: &str = "well";

/// What the first target does.
fn fault(call: &Call, flaps: &AtomicUsize) -> Vec<Step> {
    let head =
        || if streams(call) { Step::event_stream() } else { Step::head(200, "application/json") };
    match asked(call).as_str() {
        "429 with wait" => {
            let headers = [("content-type", "application/json"), ("retry-after", "1")];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let body = r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#;
            vec![Step::Head(429, headers.into()), Step::send(body), Step::End]
        }
        "429 without" => refused(429, "slow down", "rate_limit_exceeded"),
        "500" => refused(500, "CUDA out of memory", "server_error"),
        "503" => refused(503, "The engine is currently overloaded", "overloaded"),
        "reset" => vec![Step::Rst],
        "silence" => vec![Step::sleep_ms(20_000)],
        "slow" => {
            let mut steps = vec![head(), Step::sleep_ms(20_000)];
            steps.extend(good(call, "late").into_iter().skip(1));
            steps
        }
        "cut" if streams(call) => {
            vec![head(), Step::send(openai::delta("half")), Step::sleep_ms(50), Step::Fin]
        }
        "cut" => vec![
            Step::Head(
                200,
                vec![
                    ("content-type".into(), "application/json".into()),
                    ("content-length".into(), "400".into()),
                ],
            ),
            Step::send(r#"{"id":"c1","choices":[{"#),
            Step::sleep_ms(50),
            Step::Fin,
        ],
        "stall" if streams(call) => {
            vec![head(), Step::send(openai::delta("half")), Step::sleep_ms(20_000)]
        }
        "stall" => vec![head(), Step::send("{"), Step::sleep_ms(20_000)],
        "malformed" if streams(call) => {
            vec![head(), Step::send("data: {\"choices\":[\n\n"), Step::End]
        }
        "malformed" => Step::json(200, "{\"choices\":["),
        "no done" if streams(call) => {
            let text = openai::delta("whole") + &openai::finish("stop");
            vec![head(), Step::send(text), Step::End]
        }
        "no done" => good(call, "whole"),
        "context" => refused(
            400,
            "This model's maximum context length is 8 tokens. However, your messages resulted in 9 tokens.",
            "context_length_exceeded",
        ),
        "filter" => refused(400, "The response was filtered", "content_filter"),
        "flap" if flaps.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => {
            refused(503, "overloaded", "overloaded")
        }
        "flap" => good(call, WELL),
        _ => good(call, "first"),
    }
}

async fn world() -> World {
    let flaps = AtomicUsize::new(0);
    let timeouts = json!({
        "first_event_ms": 400, "first_event_per_1k_tokens_ms": 0, "answer_ms": 600,
        "idle_ms": 400, "progress_ms": 600,
    });
    World::start(
        json!([
            { "name": "bad", "timeouts": timeouts, "breaker": { "off": true } },
            { "name": "good" },
            { "name": "picky" },
        ]),
        json!([
            {
                "name": "m",
                "targets": [{ "provider": "bad" }, { "provider": "good", "priority": 1 }],
                "prices": { "input": 1, "output": 1 },
            },
            { "name": "large", "targets": [{ "provider": "good" }] },
            { "name": "picky", "targets": [{ "provider": "picky" }] },
            {
                "name": "small", "targets": [{ "provider": "bad" }],
                "fallback": {
                    "on_context_length": ["large"], "on_content_filter": ["large"],
                    "models": [{ "model": "large", "priority": 1 }, { "model": "picky" }],
                },
            },
            {
                "name": "alone", "targets": [{ "provider": "bad" }],
                "fallback": { "models": [{ "model": "picky" }] },
                "retry": { "backoff_ms": 50 },
            },
        ]),
        move |call| match call.cell() {
            "bad" => fault(call, &flaps),
            "picky" => refused(400, "stop is not supported", "unsupported_parameter"),
            _ => good(call, WELL),
        },
    )
    .await
}

/// Text of the answer, stream or not.
fn text(reply: &Reply) -> String {
    reply.content().unwrap_or_default()
}

fn show(name: &str, stream: bool, reply: &Reply, took: Duration) {
    let mode = if stream { "stream" } else { "whole" };
    let errors: Vec<_> = reply.errors().iter().map(|it| it["error"]["code"].clone()).collect();
    println!(
        "{name:15} {mode:6} {:?} '{}' attempts {} fallback {} errors {errors:?} in {} ms",
        reply.status.unwrap_or(0),
        text(reply),
        reply.header("x-sluicegate-attempts").unwrap_or("-"),
        reply.header("x-sluicegate-fallback").unwrap_or("-"),
        took.as_millis(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_what_fails_before_the_first_byte_is_answered_by_the_second_target() {
    let world = world().await;
    for stream in [true, false] {
        for (name, most_ms) in [
            ("429 with wait", 300),
            ("429 without", 300),
            ("500", 300),
            ("503", 300),
            ("reset", 300),
            ("silence", 1_500),
            ("slow", 1_500),
            ("malformed", 300),
            ("flap", 300),
        ] {
            let (reply, took) = world.ask("m", name, stream).await;
            show(name, stream, &reply, took);
            assert_eq!((reply.status, text(&reply).as_str()), (Some(200), WELL), "{name}");
            assert!(took < Duration::from_millis(most_ms), "{name}: {took:?}");
            let attempts = reply.header("x-sluicegate-attempts");
            // What a kept connection loses may have been lost to its age: it is sent once more. And a
            // target that flaps may be well just then.
            assert!(attempts == Some("2") || name == "reset" || name == "flap", "{attempts:?}");
        }
    }
    // An answer that is not streamed has not begun until it is whole.
    for name in ["cut", "stall"] {
        let (reply, took) = world.ask("m", name, false).await;
        show(name, false, &reply, took);
        assert_eq!((reply.status, text(&reply).as_str()), (Some(200), WELL), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_nothing_is_tried_again_after_the_first_byte() {
    let world = world().await;
    for (name, code) in [("cut", "stream_interrupted"), ("stall", "upstream_timeout")] {
        let before = world.upstream.count();
        let (reply, took) = world.ask("m", name, true).await;
        show(name, true, &reply, took);
        assert_eq!((reply.status, text(&reply).as_str()), (Some(200), "half"), "{name}");
        let errors = reply.errors();
        assert_eq!(errors.len(), 1, "{name}: {}", reply.text());
        assert_eq!((errors[0]["error"]["code"].as_str(), reply.dones()), (Some(code), 0), "{name}");
        assert_eq!(world.upstream.count() - before, 1, "{name}");
    }
    for stream in [true, false] {
        let (reply, took) = world.ask("m", "no done", stream).await;
        show("no done", stream, &reply, took);
        assert_eq!((reply.status, text(&reply).as_str()), (Some(200), "whole"));
        assert_eq!(reply.dones(), usize::from(stream));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c7_other_models_answer_for_their_reasons() {
    let world = world().await;
    for stream in [true, false] {
        for (name, reason) in
            [("context", "context_length"), ("filter", "content_filter"), ("500", "unavailable")]
        {
            let (reply, took) = world.ask("small", name, stream).await;
            show(name, stream, &reply, took);
            assert_eq!((reply.status, text(&reply).as_str()), (Some(200), WELL), "{name}");
            assert_eq!(reply.header("x-sluicegate-fallback"), Some(reason));
            assert_eq!(reply.header("x-sluicegate-model"), Some("large"));
        }
        // Without a rule for it, the refusal stands.
        let before = world.upstream.count();
        let (reply, took) = world.ask("alone", "context", stream).await;
        show("context alone", stream, &reply, took);
        assert_eq!(reply.status, Some(400));
        assert_eq!(world.upstream.count() - before, 1);
        // What the fallback refuses is its own affair: the caller's model is full.
        let (reply, took) = world.ask("alone", "503", stream).await;
        show("picky fallback", stream, &reply, took);
        assert_eq!(reply.status, Some(503), "{}", reply.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_only_the_answer_is_paid_for_after_a_failover() {
    let world = world().await;
    for name in ["500", "503", "reset", "429 without"] {
        for stream in [true, false] {
            assert_eq!(world.ask("m", name, stream).await.0.status, Some(200));
        }
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let usage = world.admin(&["usage", "--last", "1d", "--by", "provider", "-o", "json"]).await;
        let rows = usage["totals"].as_array().cloned().unwrap_or_default();
        let counted: u64 = rows.iter().filter_map(|row| row["requests"].as_u64()).sum();
        if counted >= 8 || Instant::now() > deadline {
            println!("{usage}");
            assert_eq!((rows.len(), counted), (1, 8), "{usage}");
            assert_eq!(rows[0]["provider"], "good", "{usage}");
            assert_eq!(rows[0]["input_tokens"], 8 * 7, "{usage}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_a_caller_says_how_long_it_waits() {
    let world = world().await;
    let headers = [("x-request-timeout-ms", "250")];
    let (reply, took) = world.ask_with("alone", "silence", false, &headers).await;
    show("deadline", false, &reply, took);
    assert_eq!(reply.status, Some(504));
    assert_eq!(reply.json().unwrap()["error"]["code"], "deadline_exceeded");
    assert!(took < Duration::from_millis(600), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_what_passes_by_itself_is_asked_again_after_a_while() {
    let world = world().await;
    for stream in [true, false] {
        let (reply, took) = world.ask("alone", "flap", stream).await;
        show("flap alone", stream, &reply, took);
        assert_eq!((reply.status, text(&reply).as_str()), (Some(200), WELL));
        assert!(took >= Duration::from_millis(25), "{took:?}");
    }
}
