//! The kit tried on itself: client against upstream, with and without a faulty network between.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run outside the gateway, whose spawn helper counts tasks for its drain"
)]

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::client::{ClientStep, Connection, Reply, Request, exchange};
use sluicegate_testkit::coding::Coding;
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::fault::{Direction, FaultProxy};
use sluicegate_testkit::net::PeerEnd;
use sluicegate_testkit::openai;
use sluicegate_testkit::process::{Process, http_get};
use sluicegate_testkit::redis::RedisClient;
use sluicegate_testkit::upstream::{AUTO, Step, Upstream};

const LIMIT: Duration = Duration::from_secs(5);

fn chat() -> Request {
    Request::post("/cell/p1/v1/chat/completions?x=1").bearer("k1").body(openai::chat("m1", true))
}

async fn ask(server: SocketAddr) -> Reply {
    exchange(server, &chat(), &[], LIMIT).await
}

#[tokio::test]
async fn a_stream_arrives_as_it_was_scripted() {
    let steps = vec![
        Step::event_stream(),
        Step::SendBytewise(openai::delta("h\u{e9}").into(), Duration::from_millis(1)),
        Step::sleep_ms(50),
        Step::send(openai::delta("B")),
        Step::send(openai::finish("stop") + openai::USAGE + openai::DONE),
        Step::End,
    ];
    let upstream = Upstream::fixed(steps).await.unwrap();
    let reply = ask(upstream.address()).await;

    assert_eq!(reply.problems, [""; 0]);
    assert_eq!(reply.status, Some(200));
    assert_eq!(reply.delta_texts("content"), ["h\u{e9}", "B"]);
    assert_eq!(reply.finish().as_deref(), Some("stop"));
    assert_eq!((reply.dones(), reply.usage()), (1, Some((7, 2))));
    assert!(reply.complete_at.is_some());
    let gap = reply.event_at("\"B\"").unwrap() - reply.event_at("h\u{e9}").unwrap();
    assert!(gap >= Duration::from_millis(45), "{gap:?}");

    let calls = upstream.calls(|_| true);
    assert_eq!((calls.len(), calls[0].method.as_str()), (1, "POST"));
    assert_eq!((calls[0].cell(), calls[0].provider()), ("cell", "p1"));
    assert_eq!(calls[0].provider_target(), "/v1/chat/completions?x=1");
    assert_eq!(calls[0].bearer(), Some("k1"));
    assert_eq!(calls[0].body, chat().body);
    assert!(calls[0].written_at("\"B\"") <= reply.event_at("\"B\""));
}

#[tokio::test]
async fn a_connection_is_kept_for_further_calls() {
    let upstream = Upstream::fixed(Step::completion("ok")).await.unwrap();
    let mut connection = Connection::open(upstream.address()).await.unwrap();
    for _ in 0..3 {
        connection.send(&chat()).await;
        connection.read_to_end().await;
        assert_eq!(connection.reply().content().as_deref(), Some("ok"));
    }
    let connections: Vec<_> = upstream.calls(|_| true).iter().map(|c| c.connection).collect();
    assert_eq!(connections, [0, 0, 0]);
}

#[tokio::test]
async fn bodies_can_be_coded_and_measured() {
    for coding in [Coding::Gzip, Coding::Deflate, Coding::Br, Coding::Zstd] {
        let headers = [
            ("content-type", "application/json"),
            ("content-length", AUTO),
            ("content-encoding", coding.token()),
        ];
        let headers = headers.map(|(name, value)| (name.into(), value.into())).to_vec();
        let body = openai::completion("ok").into();
        let steps = vec![Step::Head(200, headers), Step::SendCoded(coding, body), Step::End];
        let upstream = Upstream::fixed(steps).await.unwrap();
        let reply = ask(upstream.address()).await;
        assert_eq!(reply.problems, [""; 0], "{coding:?}");
        assert_eq!(reply.content().as_deref(), Some("ok"), "{coding:?}");
    }
}

#[tokio::test]
async fn gzip_is_spoken_to_those_who_accept_it() {
    let steps = [&[Step::GzipIfAccepted], &Step::stream("A")[..]].concat();
    let upstream = Upstream::fixed(steps).await.unwrap();
    for accepted in ["gzip", "identity"] {
        let request = chat().header("accept-encoding", accepted);
        let reply = exchange(upstream.address(), &request, &[], LIMIT).await;
        assert_eq!(reply.header("content-encoding").is_some(), accepted == "gzip");
        assert_eq!(reply.content().as_deref(), Some("A"), "{accepted}");
    }
}

#[tokio::test]
async fn every_rough_end_is_seen_as_such() {
    check(vec![Step::Fin], None, PeerEnd::Fin).await;
    check(vec![Step::Rst], None, PeerEnd::Reset).await;
    check(vec![Step::event_stream(), Step::Fin], Some(200), PeerEnd::Fin).await;
    let raw = Step::Raw("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".into());
    check(vec![raw, Step::Fin], Some(200), PeerEnd::Fin).await;

    async fn check(steps: Vec<Step>, status: Option<u16>, end: PeerEnd) {
        let upstream = Upstream::fixed(steps.clone()).await.unwrap();
        let reply = ask(upstream.address()).await;
        assert_eq!(reply.status, status, "{steps:?}");
        assert_eq!(reply.peer_end.map(|(_, how)| how), Some(end), "{steps:?}");
        assert_eq!(reply.complete_at, None, "{steps:?}");
    }
}

#[tokio::test]
async fn the_upstream_sees_its_caller_leave() {
    let bytes = openai::delta("t").into();
    let repeat = Step::Repeat { times: 1000, gap: Duration::from_millis(10), bytes };
    let upstream = Upstream::fixed(vec![Step::event_stream(), repeat]).await.unwrap();
    for (number, leave, how) in
        [(0, ClientStep::Close, PeerEnd::Fin), (1, ClientStep::Rst, PeerEnd::Reset)]
    {
        let steps = [ClientStep::ReadEvents(3), leave];
        let reply = exchange(upstream.address(), &chat(), &steps, LIMIT).await;
        let closed = upstream.wait_for_close(number, LIMIT).await.unwrap();
        assert!(reply.data().count() >= 3);
        assert!(closed.at - reply.closed_at.unwrap() < Duration::from_millis(500));
        if how == PeerEnd::Reset {
            assert_eq!(closed.how, how);
        }
    }
}

#[tokio::test]
async fn a_silent_connection_is_noticed_leaving_too() {
    let upstream = Upstream::fixed(vec![Step::Sleep(LIMIT)]).await.unwrap();
    let steps = [ClientStep::SleepMs(20), ClientStep::Close];
    exchange(upstream.address(), &chat(), &steps, LIMIT).await;
    upstream.wait_for_calls(1, LIMIT).await.unwrap();
    assert_eq!(upstream.wait_for_close(0, LIMIT).await.unwrap().how, PeerEnd::Fin);
}

#[tokio::test]
async fn a_stalled_link_moves_nothing_until_it_passes_again() {
    let upstream = Upstream::fixed(Step::completion("ok")).await.unwrap();
    let proxy = FaultProxy::start(upstream.address()).await.unwrap();
    assert_eq!(ask(proxy.address()).await.content().as_deref(), Some("ok"));

    proxy.stall(Direction::ToClient);
    let address = proxy.address();
    let asked = tokio::spawn(async move { ask(address).await });
    upstream.wait_for_calls(2, LIMIT).await.unwrap();
    assert!(!asked.is_finished());
    proxy.pass();
    assert_eq!(asked.await.unwrap().content().as_deref(), Some("ok"));

    proxy.delay(Direction::Both, Duration::from_millis(50));
    let reply = ask(proxy.address()).await;
    assert!(reply.head_at.unwrap() - reply.sent_at >= Duration::from_millis(95));
    assert_eq!(proxy.connections(), 3);
}

#[tokio::test]
async fn a_cut_resets_both_sides_and_a_refusal_is_one() {
    let upstream = Upstream::fixed(vec![Step::event_stream(), Step::Sleep(LIMIT)]).await.unwrap();
    let proxy = FaultProxy::start(upstream.address()).await.unwrap();
    let address = proxy.address();
    let asked = tokio::spawn(async move { ask(address).await });
    upstream.wait_for_calls(1, LIMIT).await.unwrap();
    proxy.cut();
    assert_eq!(asked.await.unwrap().peer_end.unwrap().1, PeerEnd::Reset);
    assert_eq!(upstream.wait_for_close(0, LIMIT).await.unwrap().how, PeerEnd::Reset);

    proxy.refuse().await.unwrap();
    let refused = ask(address).await;
    assert!(refused.problems[0].starts_with("connect"), "{:?}", refused.problems);
    proxy.accept().await.unwrap();
    let steps = [ClientStep::SleepMs(1)];
    let accepted = exchange(address, &chat(), &steps, LIMIT).await;
    assert_eq!(accepted.problems, [""; 0]);
}

#[tokio::test]
async fn a_process_is_read_signalled_and_reaped() {
    let logs = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.01; done"]);
    let process = Process::start("shell", command, logs.path()).unwrap();
    let hello = |line: &str| (line == "hello").then_some(());
    process.stdout().find(LIMIT, "a greeting", hello).await.unwrap();
    assert!(process.rss_bytes().unwrap() > 0 && process.open_files().unwrap() >= 3);
    process.freeze().unwrap();
    process.thaw().unwrap();
    process.terminate().unwrap();
    assert_eq!(process.wait_for_exit(LIMIT).await.unwrap().code(), Some(3));
    process.stdout().find(LIMIT, "a farewell", |line| (line == "bye").then_some(())).await.unwrap();
    assert!(process.kill().is_err());
    let copy = std::fs::read_to_string(logs.path().join("shell.stdout")).unwrap();
    assert_eq!(copy, "hello\nbye\n");
}

#[tokio::test]
async fn etcd_starts_and_restarts_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut etcd = sluicegate_testkit::cluster::Etcd::start(folder.path()).await.unwrap();
    let address = etcd.client();
    etcd.kill().unwrap();
    etcd.wait_for_exit(LIMIT).await.unwrap();
    etcd.restart().await.unwrap();
    assert_eq!(etcd.client(), address);
    assert_eq!(http_get(address, "/health").await.status, Some(200));
}

#[tokio::test]
async fn redis_starts() {
    let folder = tempfile::tempdir().unwrap();
    let redis = sluicegate_testkit::cluster::Redis::start(folder.path()).await.unwrap();
    let mut connection = Connection::open(redis.client()).await.unwrap();
    connection.send_bytes(b"QUIT\r\n").await;
    within(LIMIT, "the answer", connection.read_to_end()).await.unwrap();
    assert!(connection.reply().peer_end.is_some());
}

#[tokio::test]
async fn redis_comes_back_as_its_dump_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut redis = sluicegate_testkit::cluster::Redis::start(folder.path()).await.unwrap();
    let mut client = RedisClient::connect(redis.client()).await.unwrap();
    client.command(&["SET", "a", "1"]).await.unwrap();
    client.command(&["SAVE"]).await.unwrap();
    assert!(redis.dump().is_file());
    client.command(&["SET", "a", "2"]).await.unwrap();
    assert!(client.command(&["NONSENSE"]).await.is_err());
    redis.restart().await.unwrap();
    let mut client = RedisClient::connect(redis.client()).await.unwrap();
    assert_eq!(client.command(&["GET", "a"]).await.unwrap().text().unwrap(), "1");
    assert_eq!(client.command(&["PTTL", "a"]).await.unwrap().integer().unwrap(), -1);
    assert_eq!(client.keys().await.unwrap(), ["a"]);
}
