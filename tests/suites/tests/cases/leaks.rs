//! life-connection-pool-leak-on-error-streams: streams that end badly, in whatever way, leave nothing
//! behind: no connection, no place at the provider, nothing under way.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{ClientStep, exchange};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::openai;
use sluicegate_testkit::process::http_get;
use sluicegate_testkit::upstream::{Call, Step};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::own::{Gateway, LIMIT, configuration, request};

/// Requests at one time, and no more places than that at the provider.
const AT_ONCE: usize = 20;
/// Rounds of requests that end badly.
const ROUNDS: usize = 25;
/// File descriptors that may come and go by themselves.
const SPARE_FILES: usize = 5;

/// How requests end, by what they ask, and the status that their callers see.
const ENDINGS: [(&str, Option<u16>); 6] = [
    ("limited", Some(429)),
    ("broken", Some(502)),
    ("cut", Some(200)),
    ("reset", Some(502)),
    ("left", Some(200)),
    ("abandoned", None),
];

fn script(call: &Call) -> Vec<Step> {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    let text = |status: u16, message: &str| {
        let error = json!({"error": {"message": message, "type": message, "code": null}});
        Step::json(status, error.to_string())
    };
    match body["messages"][0]["content"].as_str() {
        Some("limited") => text(429, "rate_limit_error"),
        // The whole reply, and then the connection is gone.
        Some("broken") => {
            let mut steps = text(500, "server_error");
            steps.retain(|step| *step != Step::End);
            steps.extend([Step::Raw("0\r\n\r\n".into()), Step::Fin]);
            steps
        }
        Some("cut") => vec![Step::event_stream(), Step::send(openai::delta("half")), Step::Rst],
        Some("reset") => vec![Step::Rst],
        Some("left") => {
            let gap = Duration::from_millis(50);
            let ticks = Step::Repeat { times: 1000, gap, bytes: openai::delta("t").into() };
            vec![Step::event_stream(), ticks]
        }
        Some("abandoned") => vec![Step::sleep_ms(60_000)],
        _ if body["stream"] == json!(true) => Step::stream("ok"),
        _ => Step::completion("ok"),
    }
}

/// What the caller of such a request does.
fn behaviour(ending: &str) -> Vec<ClientStep> {
    match ending {
        "left" => vec![ClientStep::ReadEvents(1), ClientStep::Close],
        "abandoned" => vec![ClientStep::SleepMs(20), ClientStep::Rst],
        _ => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_end_badly_leave_nothing_behind() {
    let gateway = Gateway::start(&["main"], &[], script).await;
    gateway.configure(&tight(&configuration(&gateway.upstream, &["main", "tight"])));
    within(LIMIT, "the new configuration", async {
        while gateway.ask("sk-cl-tight").await.status != Some(200) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    // All that are kept open anyway.
    for _ in 0..3 {
        all_are_served(&gateway).await;
    }
    let before = gateway.process.open_files().unwrap();

    let mut ended = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut running = JoinSet::new();
        for place in 0..AT_ONCE {
            let (ending, _) = ENDINGS[(round + place) % ENDINGS.len()];
            let (server, asked) = (gateway.process.traffic(), chat(ending));
            let request = request("sk-cl-main", asked);
            running.spawn(async move {
                (ending, exchange(server, &request, &behaviour(ending), LIMIT).await.status)
            });
        }
        for end in running.join_all().await {
            *ended.entry(end).or_insert(0) += 1;
        }
    }
    // A few may find places taken that others have just left.
    for end in ENDINGS {
        assert!(ended.get(&end).is_some_and(|&times| times >= 50), "{end:?}: {ended:?}");
    }
    within(LIMIT, "that nothing is under way", async {
        while in_flight(&gateway).await != Some(0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    // Every place is free again, and none is waited for.
    all_are_served(&gateway).await;
    let mut after = gateway.process.open_files().unwrap();
    let until = Instant::now() + LIMIT;
    while after > before + SPARE_FILES && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100)).await;
        after = gateway.process.open_files().unwrap();
    }
    println!("{before} open files before, {after} after");
    assert!(after <= before + SPARE_FILES, "{before} open files before, {after} after");
    let begun = Instant::now();
    assert_eq!(gateway.ask("sk-cl-main").await.status, Some(200));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// With as many places at the provider as there are requests at one time; what fails is neither held
/// against it nor tried again.
fn tight(configuration: &str) -> String {
    let mut file: Value = serde_json::from_str(configuration).expect("JSON");
    let provider = &mut file["providers"][0];
    provider["breaker"] = json!({"off": true});
    provider["key_pool"] = json!({"last_resort": "soonest"});
    provider["capacity"] = json!({"max_requests": AT_ONCE, "adaptive": false});
    let model = &mut file["models"][0];
    model["retry"] = json!({"max_attempts": 1});
    model["when_unavailable"] = json!({"answer": "reject", "wait_ms": 0});
    file.to_string()
}

fn chat(text: &str) -> String {
    let messages = json!([{"role": "user", "content": text}]);
    json!({"model": "m1", "stream": true, "messages": messages}).to_string()
}

/// As many good requests as there are places, at one time.
async fn all_are_served(gateway: &Gateway) {
    let mut running = JoinSet::new();
    for _ in 0..AT_ONCE {
        let server = gateway.process.traffic();
        let request = request("sk-cl-main", chat("hi"));
        running.spawn(async move { exchange(server, &request, &[], LIMIT).await });
    }
    for reply in running.join_all().await {
        assert_eq!(reply.status, Some(200), "{}", reply.text());
        assert_eq!(reply.content().as_deref(), Some("ok"));
    }
}

/// Requests that have not ended.
async fn in_flight(gateway: &Gateway) -> Option<i64> {
    let metrics = http_get(gateway.process.ops(), "/metrics").await.text();
    let line = metrics.lines().find_map(|l| l.strip_prefix("sluicegate_requests_in_flight "))?;
    line.parse().ok()
}
