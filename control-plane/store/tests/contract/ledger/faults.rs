//! A Redis that freezes, dies, goes back in time, is emptied, or was set up wrongly.

use std::{fs, time::Duration};

use redis::aio::MultiplexedConnection;
use sluicegate_store::{
    StoreError,
    ledger::{LeaseOp, LeaseStatus::*, Ledger, LedgerHealth, MeterSpec, OnExpiry, UsageBatch},
    redis::{RedisConfig, RedisLedger, RedisTimeouts, RedisTls},
};
use tokio::time::Instant;

use super::{
    fixture::*,
    redis::{connect, keys_that_expire, patient},
    server::{Server, free_port},
    usage::requests,
};

/// The deadline of a call, and some time to notice it on a busy machine.
const CALL_ENDS_WITHIN: Duration = Duration::from_millis(150);

/// The usual deadlines, on a server that is trusted at once.
fn usual() -> RedisTimeouts {
    RedisTimeouts { recovery: Duration::ZERO, ..RedisTimeouts::default() }
}

fn is_away(health: &LedgerHealth) -> bool {
    matches!(health, LedgerHealth::Away(_))
}

fn is_ready(health: &LedgerHealth) -> bool {
    *health == LedgerHealth::Ready
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_costs_one_deadline_and_then_nothing() {
    let server = Server::start().await;
    let l = connect(&server, usual()).await;
    let s = spec(around(l.now_ms().await.unwrap(), 1), 100);
    expect(apply(&l, op("m", s, "a", 1, 40)).await, Granted, 40);

    server.process.freeze();
    let asked = Instant::now();
    let error = l.lease(&[op("m", s, "a", 2, 60)]).await.unwrap_err();
    assert!(asked.elapsed() < CALL_ENDS_WITHIN, "{:?}", asked.elapsed());
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(is_away(&l.health().borrow()));
    for _ in 0..100 {
        let asked = Instant::now();
        let error = l.count(&batch("s", 1, 1)).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(asked.elapsed() < Duration::from_millis(50), "{:?}", asked.elapsed());
    }
    server.process.thaw();
    becomes(&l, is_ready).await;
    // Whether the lost call was done or not: saying it again is the same.
    let again = LeaseOp { granted: 40, ..op("m", s, "a", 3, 60) };
    let state = expect(apply(&l, again).await, Granted, 60);
    assert_eq!((state.reserved, state.holders), (60, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_ledger_notices_that_its_server_died() {
    let server = Server::start().await;
    let l = connect(&server, usual()).await;
    assert!(is_ready(&l.health().borrow()));
    server.process.kill();
    becomes(&l, is_away).await;
    let error = l.now_ms().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    server.run().await;
    becomes(&l, is_ready).await;
    assert!(l.now_ms().await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_made_anew_and_is_no_loss() {
    let server = Server::start().await;
    let timeouts =
        RedisTimeouts { recovery: Duration::from_millis(300), ..RedisTimeouts::default() };
    let l = connect(&server, timeouts).await;
    assert_eq!(*l.health().borrow(), LedgerHealth::Recovering, "nobody knows this server");
    becomes(&l, is_ready).await;
    let mut health = l.health();
    health.mark_unchanged();
    let mut other = server.connection().await;
    let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").to_owned();
    kill.query_async::<u64>(&mut other).await.unwrap();
    // As soon as it is noticed, and without another recovery.
    let mut told = Vec::new();
    while told.last().is_none_or(|health| !is_ready(health)) {
        tokio::time::timeout(SOON, health.changed()).await.unwrap().unwrap();
        told.push(health.borrow_and_update().clone());
    }
    assert!(told.iter().all(|health| is_away(health) || is_ready(health)), "{told:?}");
    // Another process that comes later need not wait either.
    let second = connect(&server, timeouts).await;
    assert!(is_ready(&second.health().borrow()));
}

/// A server that comes back from an older dump: what was granted since is announced again before
/// anything else is given, and usage is sent again from where the dump was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_went_back_in_time_is_told_what_it_lost() {
    let server = Server::start().await;
    let timeouts = RedisTimeouts { recovery: Duration::from_secs(2), ..patient() };
    let l = connect(&server, timeouts).await;
    becomes(&l, is_ready).await;
    let now = l.now_ms().await.unwrap();
    let s = MeterSpec { on_expiry: OnExpiry::Hold, ..spec(around(now, 1), 100) };
    let says = |lease, seq, charged, granted| LeaseOp {
        charged,
        granted,
        ..op("m", s, lease, seq, granted)
    };
    expect(apply(&l, op("m", s, "a", 1, 30)).await, Granted, 30);
    apply(&l, says("a", 2, 10, 30)).await;
    l.count(&batch("x", 1, 40)).await.unwrap();
    l.count(&batch("y", 1, 5)).await.unwrap();
    let mut beside = server.connection().await;
    redis::cmd("SAVE").exec_async(&mut beside).await.unwrap();
    let older = fs::read(server.dump()).unwrap();

    // What the dump does not have.
    expect(apply(&l, op("m", s, "a", 3, 50)).await, Granted, 50);
    apply(&l, says("a", 4, 35, 50)).await;
    expect(apply(&l, op("m", s, "b", 1, 50)).await, Granted, 50);
    l.count(&batch("x", 41, 70)).await.unwrap();
    let counted = l.count(&batch("z", 1, 3)).await.unwrap();
    server.process.kill();
    fs::write(server.dump(), older).unwrap();
    becomes(&l, is_away).await;
    server.run().await;
    becomes(&l, |health| *health == LedgerHealth::Recovering).await;

    // Somebody is faster than those who were there before.
    expect(apply(&l, op("m", s, "new", 1, 40)).await, Recovering, 0);
    let state = expect(apply(&l, says("a", 5, 36, 50)).await, Granted, 50);
    assert_eq!((state.used, state.reserved), (36, 14));
    let state = expect(apply(&l, says("b", 2, 20, 50)).await, Granted, 50);
    assert_eq!((state.used, state.reserved), (56, 44));
    // Usage is taken meanwhile.
    let resend = l.count(&batch("x", 71, 75)).await.unwrap();
    assert_ne!(resend.store, counted.store, "another process");
    assert_eq!((resend.applied_through, resend.resend_from), (40, Some(41)));
    let idle = l.count(&batch("z", 4, 3)).await.unwrap();
    assert_eq!(idle.resend_from, Some(1));
    for (source, first, last) in [("x", 41, 75), ("y", 6, 6), ("z", 1, 3), ("x", 41, 75)] {
        let counted = l.count(&batch(source, first, last)).await.unwrap();
        assert_eq!((counted.applied_through, counted.lost), (last, 0));
    }
    assert_eq!(requests(&l).await, 75 + 6 + 3, "nothing lost, nothing twice");

    becomes(&l, is_ready).await;
    expect(apply(&l, op("m", s, "new", 2, 40)).await, Denied, 0);
    let close = |lease, charged| LeaseOp { close: true, ..says(lease, 9, charged, 50) };
    apply(&l, close("a", 40)).await;
    let state = apply(&l, close("b", 25)).await;
    assert_eq!((state.used, state.reserved), (65, 0));
    keys_that_expire(&mut server.connection().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_server_recovers_too() {
    let server = Server::start().await;
    let timeouts =
        RedisTimeouts { recovery: Duration::from_millis(1_500), ..RedisTimeouts::default() };
    let l = connect(&server, timeouts).await;
    becomes(&l, is_ready).await;
    let mut beside = server.connection().await;
    redis::cmd("FLUSHALL").exec_async(&mut beside).await.unwrap();
    becomes(&l, |health| *health == LedgerHealth::Recovering).await;
    let s = spec(around(l.now_ms().await.unwrap(), 1), 100);
    expect(apply(&l, op("m", s, "a", 1, 40)).await, Recovering, 0);
    becomes(&l, is_ready).await;
    expect(apply(&l, op("m", s, "a", 2, 40)).await, Granted, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let server = Server::start().await;
    let l = connect(&server, patient()).await;
    let s = spec(around(l.now_ms().await.unwrap(), 1), 1_000);
    let mut beside = server.connection().await;
    for seq in 1..=3 {
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut beside).await.unwrap();
        let ops: Vec<LeaseOp> = (0..20)
            .map(|n| LeaseOp { granted: (seq - 1) * 2, ..op("m", s, &n.to_string(), seq, seq * 2) })
            .collect();
        let states = l.lease(&ops).await.unwrap();
        assert!(states.iter().all(|state| state.status == Granted));
        assert_eq!(states[19].reserved, 20 * seq * 2);
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut beside).await.unwrap();
        assert_eq!(l.count(&batch("s", seq, seq)).await.unwrap().applied_through, seq);
    }
    assert!(is_ready(&l.health().borrow()));
}

async fn refused(config: RedisConfig) -> String {
    let asked = Instant::now();
    let error = RedisLedger::connect(config).await.unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(5), "at once, not after {:?}", asked.elapsed());
    let text = error.to_string();
    assert!(!text.contains("hunter2"), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_throw_keys_away_is_refused() {
    let memory = ["--maxmemory", "64mb", "--maxmemory-policy"];
    let evicting = Server::start_with(&[&memory[..], &["volatile-lru"]].concat()).await;
    let text =
        refused(RedisConfig { timeouts: usual(), ..RedisConfig::new([evicting.url()]) }).await;
    assert!(text.contains("volatile-lru") && text.contains("noeviction"), "{text}");

    let keeping = Server::start_with(&[&memory[..], &["noeviction"]].concat()).await;
    connect(&keeping, usual()).await;
    // Without a limit nothing is thrown away.
    let unlimited = Server::start_with(&["--maxmemory-policy", "allkeys-lru"]).await;
    connect(&unlimited, usual()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_password_is_refused_with_where_to_give_it() {
    let server = Server::start().await;
    let mut admin = server.connection().await;
    let mut set = redis::cmd("CONFIG");
    set.arg(&["SET", "requirepass", "hunter2"]).exec_async(&mut admin).await.unwrap();
    let text = refused(RedisConfig { timeouts: usual(), ..RedisConfig::new([server.url()]) }).await;
    assert!(text.contains("SLUICEGATE_REDIS_PASSWORD"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_rights_is_refused_and_told_which() {
    let server = Server::start().await;
    let mut admin = server.connection().await;
    let config = |user: &str, password: &str| RedisConfig {
        password: Some(password.to_owned()),
        timeouts: usual(),
        ..RedisConfig::new([server.url_of(user)])
    };
    // What is taken from a user who may do everything, and what the message must name.
    for (n, (taken, named)) in [
        ("-@scripting", "script"),
        ("-evalsha", "evalsha"),
        ("-script|load", "script|load"),
        ("-info", "info"),
        ("-hset", "hset"),
        ("-hgetall", "hgetall"),
        ("-pexpire", "pexpire"),
        ("-hincrby", "hincrby"),
        ("resetkeys ~other:*", "sluicegate:*"),
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("u{n}");
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg(&user).arg(&["on", ">hunter2", "~*", "+@all"]);
        set.arg(taken.split(' ').collect::<Vec<_>>());
        set.exec_async(&mut admin).await.unwrap();
        let text = refused(config(&user, "hunter2")).await;
        assert!(text.contains(named) && text.contains("+evalsha"), "{taken}: {text}");
    }
    let text = refused(config("u0", "hunter3")).await;
    assert!(text.contains("password"), "{text}");

    // The rights that the message names are enough for everything.
    let text = refused(config("u1", "hunter2")).await;
    let rights: Vec<&str> = text.split("the rights ").nth(1).unwrap().split(' ').collect();
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg("enough").arg(&["on", ">hunter2"]).arg(&rights);
    set.exec_async(&mut admin).await.unwrap();
    let l = RedisLedger::connect(config("enough", "hunter2")).await.unwrap();
    let s = MeterSpec { ttl_ms: 0, ..spec(around(l.now_ms().await.unwrap(), 1), 100) };
    for seq in 1..=3 {
        apply(&l, op("m", s, "a", seq, 40)).await;
        apply(&l, LeaseOp { close: true, ..op("m", s, "b", seq, 40) }).await;
    }
    let jump = UsageBatch { nothing_before: true, ..batch("s", 3, 4) };
    assert_eq!(l.count(&jump).await.unwrap().lost, 2);
    assert_eq!(requests(&l).await, 2);
    assert_eq!(l.meters("", 9).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_a_server_that_is_not_there_yet_but_not_for_ever() {
    let server = Server::prepare(&[]);
    let timeouts = RedisTimeouts { start: Duration::from_millis(1_200), ..usual() };
    let config = RedisConfig { timeouts, ..RedisConfig::new([server.url()]) };
    let error = RedisLedger::connect(config.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");

    let timeouts = RedisTimeouts { start: SOON, ..usual() };
    let late = RedisLedger::connect(RedisConfig { timeouts, ..config });
    let (ledger, ()) = tokio::join!(late, server.run());
    assert!(is_ready(&ledger.unwrap().health().borrow()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tls_is_used_when_its_authority_is_trusted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (certificate, key) = (files.path().join("crt"), files.path().join("key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let port = free_port().to_string();
    let text = |path: &std::path::Path| path.display().to_string();
    let server = Server::start_with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &text(&certificate),
        "--tls-key-file",
        &text(&key),
        "--tls-ca-cert-file",
        &text(&certificate),
    ])
    .await;
    drop(server.connection().await);
    let timeouts = RedisTimeouts { start: Duration::ZERO, ..patient() };
    let tls = RedisTls {
        ca: Some(certificate.clone()),
        identity: Some((certificate.clone(), key.clone())),
    };
    let url = format!("rediss://localhost:{port}/0");
    let trusting = RedisConfig { tls: Some(tls), timeouts, ..RedisConfig::new([url.as_str()]) };
    let l = RedisLedger::connect(trusting.clone()).await.unwrap();
    assert_eq!(l.location(), url);
    assert!(l.now_ms().await.unwrap() > 0);

    // The server wants to know who we are, and we want to know who it is.
    let nameless = RedisTls { ca: Some(certificate), identity: None };
    for tls in [Some(nameless), None] {
        let error =
            RedisLedger::connect(RedisConfig { tls, ..trusting.clone() }).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    let missing = RedisTls { ca: Some("/nowhere/ca.pem".into()), identity: None };
    let text = refused(RedisConfig { tls: Some(missing), ..trusting }).await;
    assert!(text.contains("/nowhere/ca.pem"), "{text}");
}

/// Of several servers the one that takes writes is used, also when they change places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_takes_over_after_a_recovery() {
    let first = Server::start().await;
    let second = Server::start().await;
    let mut at_second = second.connection().await;
    let port = first.url().rsplit(':').next().unwrap().trim_end_matches("/0").to_owned();
    let follow = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(&port).to_owned();
    follow.exec_async(&mut at_second).await.unwrap();
    let timeouts = RedisTimeouts { recovery: Duration::from_millis(1_000), ..patient() };
    let config = RedisConfig { timeouts, ..RedisConfig::new([second.url(), first.url()]) };
    let l = RedisLedger::connect(config).await.unwrap();
    becomes(&l, is_ready).await;
    let s = spec(around(l.now_ms().await.unwrap(), 1), 100);
    expect(apply(&l, op("m", s, "a", 1, 40)).await, Granted, 40);
    let mut at_first = first.connection().await;
    while size(&mut at_second).await < size(&mut at_first).await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    first.process.kill();
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec_async(&mut at_second).await.unwrap();
    becomes(&l, is_away).await;
    becomes(&l, |health| *health == LedgerHealth::Recovering).await;
    becomes(&l, is_ready).await;
    let state = apply(&l, op("m", s, "b", 1, 100)).await;
    assert_eq!((state.granted, state.reserved), (60, 100));
}

/// How many keys there are.
async fn size(connection: &mut MultiplexedConnection) -> u64 {
    redis::cmd("DBSIZE").query_async(connection).await.unwrap()
}
