//! Streams that are held open while their request waits.

use serde_json::{Value, json};
use sluicegate_testkit::upstream::Step;

use crate::world::{CALLER, LIMIT, World, asked, good};

/// One request at a time, of three seconds.
async fn world(keep_alive: bool, wait_ms: u64) -> World {
    World::start(
        json!([{ "name": "p", "capacity": { "max_requests": 1 } }]),
        json!([{
            "name": "m", "targets": [{ "provider": "p" }],
            "when_unavailable": { "answer": "wait", "wait_ms": wait_ms, "keep_alive": keep_alive },
        }]),
        |call| {
            let mut steps = vec![];
            if asked(call) == "slow" {
                steps.push(Step::sleep_ms(3_000));
            }
            steps.extend(good(call, "here"));
            steps
        },
    )
    .await
}

fn body(what: &str, stream: bool) -> Value {
    json!({ "model": "m", "stream": stream, "messages": [{ "role": "user", "content": what }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_stream_that_waits_is_held_open_by_comments() {
    let world = world(true, 10_000).await;
    let (slow, quick) = (body("slow", false), body("quick", true));
    let waiting = async {
        world.upstream.wait_for_calls(1, LIMIT).await.unwrap();
        world.post(CALLER, &quick, &[]).await
    };
    let (first, held) = tokio::join!(world.post(CALLER, &slow, &[]), waiting);
    assert_eq!((first.status, held.status), (Some(200), Some(200)));
    println!("{}", held.text());
    assert!(held.text().starts_with(": waiting\n\ndata: {"), "{}", held.text());
    assert_eq!(held.dones(), 1);
    assert!(held.is_event_stream());
    assert!(held.header("x-request-id").is_some());
    // What does not wait is as it always was.
    let quick = world.post(CALLER, &quick, &[]).await;
    assert!(quick.text().starts_with("data: "), "{}", quick.text());
    assert_eq!(quick.header("x-sluicegate-attempts"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_what_waited_in_vain_is_told_in_the_stream_or_by_the_status() {
    for (keep_alive, stream) in [(true, true), (true, false), (false, true)] {
        let world = world(keep_alive, 1_800).await;
        let (slow, quick) = (body("slow", false), body("quick", stream));
        let waiting = async {
            world.upstream.wait_for_calls(1, LIMIT).await.unwrap();
            world.post(CALLER, &quick, &[]).await
        };
        let (_, refused) = tokio::join!(world.post(CALLER, &slow, &[]), waiting);
        let text = refused.text();
        println!("keep_alive {keep_alive}, stream {stream}: {:?} {text}", refused.status);
        assert!(text.contains("target_full"), "{text}");
        if keep_alive && stream {
            assert_eq!(refused.status, Some(200));
            assert!(text.starts_with(": waiting\n\ndata: {\"error\":"), "{text}");
        } else {
            assert_eq!(refused.status, Some(503));
            assert!(refused.header("retry-after").is_some());
        }
    }
}
