//! What answers cost: what the upstream says, an estimate where it says nothing, nothing where it
//! failed.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Reply, Request};

use crate::script::{CUDA, NO_USAGE};
use crate::world::{
    IDLE, LIMIT, Ledger, World, chat, chat_with, count, header_number, metric, post,
};

/// Reports reach the ledger within a second, on a machine with other work.
const REPORTED: Duration = Duration::from_secs(4);

/// A limit of every dimension, each large enough.
fn every_dimension() -> Value {
    let limit = |dimension: &str| {
        json!({
            "name": dimension, "scope": {"key": "alice"}, "dimension": dimension,
            "amount": 1_000_000, "window": "month",
        })
    };
    json!([
        limit("requests"), limit("tokens"), limit("units"), limit("cost"),
        {"name": "strict", "scope": {"key": "alice"}, "dimension": "tokens",
         "rate": "1000000/30d", "strict": true},
    ])
}

/// Every endpoint in every mode, each with usage of its own; gives input and output tokens.
fn every_endpoint() -> Vec<(&'static str, Request, (u64, u64))> {
    let text = |usage: &str, more: Value| {
        let mut body = json!({"model": "m1", "prompt": usage});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post("/v1/completions", "alice", body)
    };
    let streamed = json!({"stream": true});
    let told = json!({"stream": true, "stream_options": {"include_usage": true}});
    let embedding = json!({"model": "m1", "input": "usage 67 0"});
    vec![
        ("chat", chat("alice", "usage 11 3"), (11, 3)),
        ("chat, streamed", chat_with("alice", "usage 21 5", streamed.clone()), (21, 5)),
        ("chat, streamed with usage", chat_with("alice", "usage 31 7", told.clone()), (31, 7)),
        ("completion", text("usage 41 9", json!({})), (41, 9)),
        ("completion, streamed", text("usage 51 11", streamed), (51, 11)),
        ("completion, streamed with usage", text("usage 61 13", told), (61, 13)),
        ("embedding", post("/v1/embeddings", "alice", embedding), (67, 0)),
        (
            "long answer of short bound",
            chat_with("alice", "usage 7 900", json!({"max_tokens": 5})),
            (7, 900),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_every_endpoint_settles_at_what_the_upstream_reported() {
    settles(Ledger::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_every_endpoint_settles_at_what_the_upstream_reported_with_redis() {
    settles(Ledger::Redis).await;
}

async fn settles(ledger: Ledger) {
    let world = World::start(ledger, 1, json!({"limits": every_dimension()})).await;
    let (mut requests, mut input, mut output) = (0, 0, 0);
    for (what, request, usage) in every_endpoint() {
        let reply = world.ask(&request).await;
        assert_eq!(reply.status, Some(200), "{what}: {}", reply.text());
        let record = world.record(&reply).await;
        let told = record.usage.unwrap_or_else(|| panic!("{what}: {}", record.raw));
        assert_eq!((told.input_tokens, told.output_tokens), usage, "{what}: {}", record.raw);
        assert!(!told.estimated, "{what}: {}", record.raw);
        (requests, input, output) = (requests + 1, input + usage.0, output + usage.1);
        let awaited = format!("{what}: {} tokens used", input + output);
        let used = tokens(input + output);
        let settled = world.book.wait_for_meters("tokens", REPORTED, &awaited, |meters| {
            meters.iter().any(|meter| meter.used == used)
        });
        settled.await.unwrap();
    }
    // What data planes kept ready for the next request comes back as well.
    let (tokens_in, tokens_out) = (tokens(input), tokens(output));
    let units = 2.0 * (0.001 * tokens_in + 0.003 * tokens_out);
    let cost = 0.001 * tokens_in + 0.002 * tokens_out;
    for (limit, used) in [
        ("requests", tokens(requests)),
        ("tokens", tokens_in + tokens_out),
        ("strict", tokens_in + tokens_out),
        ("units", units),
        ("cost", cost),
    ] {
        if limit == "strict" {
            nearly(&world, limit, used).await;
        } else {
            world.book.wait_for_used(limit, IDLE, used).await.unwrap();
        }
    }
    let awaited = "every request in the totals";
    let all =
        world.book.wait_for_usage(LIMIT, awaited, |all| all.requests == requests).await.unwrap();
    assert_eq!((all.input_tokens, all.output_tokens, all.estimated), (input, output, 0), "{all:?}");
    assert_eq!(all.cost_nano, input * 1_000_000 + output * 2_000_000, "{all:?}");
    assert_eq!(all.micro_units, 2 * (input * 1_000 + output * 3_000), "{all:?}");
    let rows =
        world.book.usage(&["tenant", "key", "model", "provider", "credential"]).await.unwrap();
    let [row] = rows.as_slice() else { panic!("one row: {rows:?}") };
    let names = [&row.tenant, &row.key, &row.model, &row.provider, &row.credential];
    assert_eq!(names, ["team", "alice", "m1", "p1", "p1/k1"]);
}

/// A rate fills up again: two tokens in five seconds.
async fn nearly(world: &World, limit: &str, used: f64) {
    let awaited = format!("about {used} used");
    let settled = world.book.wait_for_meters(limit, IDLE, &awaited, |meters| {
        let [meter] = meters else { return false };
        meter.reserved == 0.0 && (used - 30.0..=used).contains(&meter.used)
    });
    settled.await.unwrap();
}

fn tokens(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_an_upstream_500_costs_the_caller_nothing() {
    let limits = json!([
        {"name": "rpd", "scope": {"key": "*"}, "dimension": "requests", "rate": "10/day"},
        {"name": "tpd", "scope": {"key": "*"}, "dimension": "tokens", "rate": "10000/day"},
        {"name": "month", "scope": {"key": "*"}, "dimension": "tokens", "amount": 10_000, "window": "month"},
        {"name": "at-once", "scope": {"key": "*"}, "dimension": "concurrency", "amount": 2},
    ]);
    let world = World::limited(limits).await;
    let good = chat_with("alice", "hi", json!({"max_tokens": 10}));
    let remaining = |reply: &Reply| {
        let number =
            |name| header_number(reply, name).unwrap_or_else(|| panic!("{name}: {reply:?}"));
        (number("x-ratelimit-remaining-requests"), number("x-ratelimit-remaining-tokens"))
    };
    let before = world.ask(&good).await;
    assert_eq!(before.status, Some(200), "{}", before.text());
    assert_eq!(remaining(&before).0, 9);
    for stream in [false, true, false, true] {
        let more = json!({"max_tokens": 10, "stream": stream});
        let failed = world.ask(&chat_with("alice", CUDA, more)).await;
        assert_eq!(failed.status, Some(502), "{}", failed.text());
        let body = failed.json().unwrap();
        assert_eq!(body["error"]["sluicegate"]["source"], "upstream", "{body}");
        assert!(!body.to_string().contains("limit_name"), "{body}");
        assert!(!body.to_string().contains("CUDA"), "the upstream's inner life: {body}");
        let record = world.record(&failed).await;
        assert!(record.usage.is_none_or(|usage| usage.output_tokens == 0), "{}", record.raw);
        world.book.wait_for_used("rpd", REPORTED, 1.0).await.unwrap();
        world.book.wait_for_used("at-once", REPORTED, 0.0).await.unwrap();
    }
    world.book.wait_for_used("month", IDLE, 9.0).await.unwrap();
    let after = world.ask(&good).await;
    assert_eq!(after.status, Some(200), "{}", after.text());
    let (requests, tokens) = remaining(&after);
    assert_eq!(requests, 8, "only the good ones count");
    let spent = remaining(&before).1 - tokens;
    // The second good one's reservation in place of the first one's, and what that used.
    assert!((1..=20).contains(&spent), "{spent} tokens less");
    let all =
        world.book.wait_for_usage(LIMIT, "two requests", |all| all.requests == 2).await.unwrap();
    assert_eq!((all.input_tokens, all.output_tokens), (14, 4), "{all:?}");
}

/// What a failure's own headers say is what is left after it.
#[tokio::test(flavor = "multi_thread")]
async fn a5_a_failure_itself_shows_that_it_cost_nothing() {
    let limit =
        json!({"name": "rpd", "scope": {"key": "*"}, "dimension": "requests", "rate": "10/day"});
    let world = World::limited(json!([limit])).await;
    for _ in 0..3 {
        let failed = world.ask(&chat("alice", CUDA)).await;
        assert_eq!(failed.status, Some(502), "{}", failed.text());
        let left = header_number(&failed, "x-ratelimit-remaining-requests");
        assert_eq!(left, Some(10), "{:?}", failed.headers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_ten_at_once_without_usage() {
    let limit = json!({"name": "tpm", "scope": {"tenant": "*"}, "dimension": "tokens", "rate": "60000/minute"});
    let world = World::limited(json!([limit])).await;
    let (mut seen, mut counted) = (HashSet::new(), 0);
    for stream in [false, true] {
        let more = json!({"stream": stream});
        let replies = world.at_once(10, &chat_with("alice", NO_USAGE, more)).await;
        assert_eq!(count(&replies, 200), 10, "{:#?}", crate::world::told(&replies));
        for reply in &replies {
            let record = world.record(reply).await;
            let usage = record.usage.unwrap_or_else(|| panic!("{}", record.raw));
            assert!(usage.estimated && usage.input_tokens > 0, "{}", record.raw);
            // "one two three four"
            assert!((3..=8).contains(&usage.output_tokens), "{}", record.raw);
            counted += usage.input_tokens + usage.output_tokens;
            seen.insert(record.request_id);
        }
    }
    assert_eq!(seen.len(), 20);
    let all =
        world.book.wait_for_usage(LIMIT, "20 requests", |all| all.requests == 20).await.unwrap();
    assert_eq!(all.estimated, 20, "{all:?}");
    assert_eq!(all.input_tokens + all.output_tokens, counted, "{all:?}");
    assert_eq!(metric(&world.planes[0], "sluicegate_limit_refusals_total", &[]).await, 0.0);
}
