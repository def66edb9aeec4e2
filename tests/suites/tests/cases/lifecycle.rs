//! Cases in which the gateway itself is changed or ended, each with a process of its own.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Connection, exchange};
use sluicegate_testkit::cluster::Standalone;
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::openai;
use sluicegate_testkit::process::http_get;
use sluicegate_testkit::record::record_of;
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::own::{Gateway, LIMIT, api_key, configuration, model, provider, request};

/// The limit for a new configuration to be in force.
const IN_FORCE: Duration = Duration::from_secs(2);

/// How often a start is tried that may go wrong, and the size of what it is configured with.
const STARTS: usize = 12;
const MODELS: usize = 160;

/// Text at regular intervals, then the proper end of a stream.
fn ticking(times: usize) -> Vec<Step> {
    let gap = Duration::from_millis(100);
    let end = openai::finish("stop") + openai::USAGE + openai::DONE;
    vec![
        Step::event_stream(),
        Step::Repeat { times, gap, bytes: openai::delta("t").into() },
        Step::send(end),
        Step::End,
    ]
}

/// life-reload-keeps-inflight-streams: a stream lives through ten new configurations, one of them
/// invalid; the valid ones are in force within two seconds.
#[tokio::test(flavor = "multi_thread")]
async fn reload_keeps_inflight_streams() {
    let script = |call: &Call| match asked(call).as_deref() {
        Some("long") => ticking(60),
        _ => Step::completion("ok"),
    };
    let gateway = Gateway::start(&["main"], &[], script).await;
    let mut stream = Connection::open(gateway.process.traffic()).await.unwrap();
    stream.send(&request("sk-cl-main", chat_with("long"))).await;
    within(LIMIT, "the first event", stream.read_events(1)).await.unwrap();

    for round in 0..10 {
        let extra = format!("extra-{round}");
        if round == 5 {
            let lines = gateway.process.stderr().count();
            gateway.configure("providers: [{name: p1, dialect: no-such-dialect}]");
            let complains = |line: &str| line.contains("no-such-dialect").then_some(());
            let report = gateway.process.stderr().find_from(lines, IN_FORCE, "a report", complains);
            report.await.expect("the invalid configuration is reported on standard error");
            assert_eq!(gateway.ask("sk-cl-main").await.status, Some(200), "the old one is gone");
            continue;
        }
        gateway.configure(&configuration(&gateway.upstream, &["main", &extra]));
        let deadline = Instant::now() + IN_FORCE;
        let mut reply = gateway.ask(&format!("sk-cl-{extra}")).await;
        while reply.status != Some(200) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
            reply = gateway.ask(&format!("sk-cl-{extra}")).await;
        }
        assert_eq!(reply.status, Some(200), "round {round}: {}", reply.text());
    }
    let removed = gateway.ask("sk-cl-extra-0").await;
    assert_eq!(removed.status, Some(401), "a removed key still works");

    within(LIMIT, "the end of the stream", stream.read_to_end()).await.unwrap();
    let reply = stream.into_reply();
    assert_eq!(reply.content(), Some("t".repeat(60)));
    assert_eq!((reply.finish().as_deref(), reply.dones()), (Some("stop"), 1));
    let id = reply.header("x-request-id").expect("a request id");
    let record = record_of(gateway.process.stdout(), id, LIMIT).await.unwrap();
    let usage = record.usage.expect("usage");
    assert_eq!(
        (record.outcome.as_str(), usage.input_tokens, usage.output_tokens),
        ("success", 7, 2)
    );
}

/// life-ready-means-configured: a gateway that says it is ready has the configuration it was started
/// with, however long that is, and refuses no caller for want of it.
#[tokio::test(flavor = "multi_thread")]
async fn ready_means_configured() {
    let upstream = Upstream::fixed(Step::completion("ok")).await.unwrap();
    let names: Vec<_> = (0..MODELS).map(|number| format!("x{number}")).collect();
    let url = |name: &str| format!("http://{}/{name}/p1/v1", upstream.address());
    let file = json!({
        "providers": names.iter().map(|name| provider(name, &url(name))).collect::<Vec<_>>(),
        "models": names.iter().map(|name| model(name, name)).collect::<Vec<_>>(),
        "tenants": [{"name": "default"}],
        "api_keys": names.iter().map(|name| api_key(name)).collect::<Vec<_>>(),
    });
    for start in 0..STARTS {
        let folder = TempDir::with_prefix("sluicegate-ready-").unwrap();
        let config = folder.path().join("gateway.yaml");
        std::fs::write(&config, file.to_string()).unwrap();
        let gateway = Standalone::start(&config, &[], folder.path()).await.unwrap();
        let request = request("sk-cl-x7", openai::chat("x7", false));
        let reply = exchange(gateway.traffic(), &request, &[], LIMIT).await;
        assert_eq!(reply.status, Some(200), "start {start}: {}", reply.text());
    }
}

/// life-sigterm-drains: on SIGTERM the gateway is unready at once and takes nothing new; a stream
/// that ends within the limit ends well, another gets an error event at the limit and is counted.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains() {
    let script = |call: &Call| match asked(call).as_deref() {
        Some("short") => ticking(15),
        Some("long") => ticking(600),
        _ => Step::completion("ok"),
    };
    let gateway = Gateway::start(&["main"], &["--drain-ms", "2500"], script).await;
    let traffic = gateway.process.traffic();
    let (mut short, mut long) =
        (Connection::open(traffic).await.unwrap(), Connection::open(traffic).await.unwrap());
    short.send(&request("sk-cl-main", chat_with("short"))).await;
    long.send(&request("sk-cl-main", chat_with("long"))).await;
    within(LIMIT, "both streams", async {
        short.read_events(2).await;
        long.read_events(2).await;
    })
    .await
    .unwrap();

    let terminated = Instant::now();
    gateway.process.terminate().unwrap();
    within(Duration::from_millis(500), "unreadiness", async {
        while http_get(gateway.process.ops(), "/readyz").await.status == Some(200) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    let late = gateway.ask("sk-cl-main").await;
    let closing = late.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
    assert!(matches!(late.status, None | Some(503)) || closing, "a new call was served: {late:?}");

    within(LIMIT, "the end of both streams", async {
        short.read_to_end().await;
        long.read_to_end().await;
    })
    .await
    .unwrap();
    let (short, long) = (short.into_reply(), long.into_reply());
    assert_eq!(short.content(), Some("t".repeat(15)));
    assert_eq!((short.finish().as_deref(), short.dones()), (Some("stop"), 1));

    assert_eq!(long.errors().len(), 1, "no error event: {}", long.text());
    assert_eq!(long.finish(), None);
    let took = long.over_at().expect("an end") - terminated;
    assert!((2000..5000).contains(&took.as_millis()), "the long stream ended after {took:?}");

    let status = gateway.process.wait_for_exit(LIMIT).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", gateway.process.last_words());
    for (reply, well) in [(&short, true), (&long, false)] {
        let id = reply.header("x-request-id").expect("a request id");
        let record = record_of(gateway.process.stdout(), id, LIMIT).await.unwrap();
        assert_eq!(record.outcome == "success", well, "{record:?}");
        assert!(record.usage.expect("usage").output_tokens > 0, "{record:?}");
    }
}

fn chat_with(text: &str) -> String {
    let messages = json!([{"role": "user", "content": text}]);
    json!({"model": "m1", "stream": true, "messages": messages}).to_string()
}

/// The text of the first message.
fn asked(call: &Call) -> Option<String> {
    let body: Value = serde_json::from_slice(&call.body).ok()?;
    Some(body.pointer("/messages/0/content")?.as_str()?.to_owned())
}
