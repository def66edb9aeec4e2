//! A Redis that dies, and answers that get lost: no job is lost, and each ends once.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fastrand::Rng;
use sluicegate_store::{
    deferred::{
        Claim, Deferred, DeferredError, DeferredLimits, DeliveryOutcome, Finished, Job, JobState,
        Put,
    },
    redis::{RedisConfig, RedisDeferred, RedisTimeouts},
};
use sluicegate_telemetry::task;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::{fixture::*, redis::connect};
use crate::ledger::server::Server;

const SYNCED: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const ROOMY: DeferredLimits = DeferredLimits { queue_jobs: 20_000, jobs: 20_000, ..LIMITS };

fn hasty() -> RedisTimeouts {
    RedisTimeouts {
        connect: Duration::from_secs(2),
        deferred: Duration::from_secs(2),
        probe: Duration::from_millis(10),
        recovery: Duration::ZERO,
        ..RedisTimeouts::default()
    }
}

/// Says it until an answer comes.
async fn insist<T, F: Future<Output = Result<T, DeferredError>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(DeferredError::Store(_)) => sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What runners were told.
#[derive(Debug, Default)]
struct Told {
    /// The result that was recorded, by job.
    recorded: HashMap<String, String>,
    /// How often each was run.
    runs: HashMap<String, u32>,
    delivered: HashMap<String, u32>,
}

/// Puts, runs and delivers `count` jobs while faults go on around it. Everybody says everything until
/// it is answered, sometimes twice; some runners die with what they have. Says how many jobs were run
/// more than once.
async fn run(jobs: &dyn Deferred, count: u32, seed: u64) -> usize {
    let told = Mutex::new(Told::default());
    let is_over = || told.lock().unwrap().delivered.len() == count as usize;
    let putting = async {
        let mut rng = Rng::with_seed(seed);
        for n in 0..count {
            let keyed = Job {
                idempotency_key: n.to_string(),
                deliver: true,
                ..job(&format!("j{n}"), &format!("q{}", n % 3))
            };
            for _ in 0..=rng.u32(0..2) {
                // Whether it is on disk is not known while the server is away.
                let kept = loop {
                    let kept = insist(|| jobs.put(&keyed)).await;
                    if kept.durable {
                        break kept;
                    }
                };
                if let Put::Existing(id) = kept.answer {
                    assert_eq!(id, keyed.id);
                }
            }
        }
    };
    let running = async |name: u64| {
        let mut rng = Rng::with_seed(seed * 100 + name);
        let mut call = 0;
        while !is_over() {
            call += 1;
            let queues = (0..3).map(|n| (format!("q{n}"), 2)).collect();
            let (node, call) = (format!("n{name}"), call.to_string());
            let claim = Claim { node, call, queues, lease_ms: 300 };
            let claimed = insist(|| jobs.claim(&claim)).await;
            if claimed.is_empty() {
                sleep(Duration::from_millis(20)).await;
            }
            for one in claimed {
                assert_eq!(one.body, job(&one.id, "q").body);
                *told.lock().unwrap().runs.entry(one.id.clone()).or_default() += 1;
                match rng.u32(0..10) {
                    // It dies.
                    0 => continue,
                    1 => {
                        insist(|| jobs.release(&one.id, one.attempt, 10)).await;
                        continue;
                    }
                    2 => sleep(Duration::from_millis(400)).await,
                    3 => drop(insist(|| jobs.extend(&one.id, one.attempt, 300)).await),
                    _ => {}
                }
                let result = format!("{} by n{name} in attempt {}", one.id, one.attempt);
                let bytes = Bytes::from(result.clone());
                for _ in 0..=rng.u32(0..2) {
                    let finished = loop {
                        let finished = insist(|| jobs.finish(&one.id, one.attempt, &bytes)).await;
                        if finished.durable {
                            break finished;
                        }
                    };
                    assert_ne!(finished.answer, Finished::Unknown, "{} was lost", one.id);
                    if finished.answer == Finished::Recorded {
                        let mut told = told.lock().unwrap();
                        let before = told.recorded.insert(one.id.clone(), result.clone());
                        assert!(before.is_none_or(|before| before == result), "{}", one.id);
                    }
                }
            }
        }
    };
    let delivering = async {
        while !is_over() {
            for one in insist(|| jobs.claim_deliveries(10, 300)).await {
                assert_eq!(one.state, JobState::Done);
                *told.lock().unwrap().delivered.entry(one.id.clone()).or_default() += 1;
                insist(|| jobs.delivered(&one.id, one.attempt, DeliveryOutcome::Over)).await;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::join!(putting, running(1), running(2), running(3), delivering);
    let told = told.into_inner().unwrap();
    for n in 0..count {
        let id = format!("j{n}");
        let status = insist(|| jobs.get(&id)).await.expect("it is kept");
        let result = String::from_utf8(status.result.unwrap().to_vec()).unwrap();
        assert_eq!(Some(&result), told.recorded.get(&id), "the first result stands");
    }
    assert_eq!(insist(|| jobs.counts()).await, []);
    told.runs.values().filter(|runs| **runs > 1).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_a_server_that_is_killed_again_and_again_loses_nothing() {
    let server = Arc::new(Server::start_with(&SYNCED).await);
    let config = RedisConfig { timeouts: hasty(), ..RedisConfig::new([server.url()]) };
    let jobs = RedisDeferred::connect(config, ROOMY).await.unwrap();
    let over = AtomicBool::new(false);
    let killing = async {
        let (mut rng, mut kills) = (Rng::with_seed(7), 0);
        while !over.load(Ordering::Acquire) {
            sleep(Duration::from_millis(rng.u64(50..250))).await;
            server.process.kill();
            server.run().await;
            kills += 1;
        }
        kills
    };
    let working = async {
        let again = run(&jobs, 400, 1).await;
        over.store(true, Ordering::Release);
        again
    };
    let (kills, again) = tokio::join!(killing, working);
    println!("{kills} times killed, {again} of 400 jobs run more than once");
    assert!(kills >= 3, "{kills}");
}

/// Passes bytes on to a server; after some answers it cuts the connection instead.
async fn cutting(to: String, seed: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(task::spawn("cutting", async move {
        let mut rng = Rng::with_seed(seed);
        while let Ok((mut near, _)) = listener.accept().await {
            let Ok(mut far) = TcpStream::connect(&to).await else { continue };
            // Getting acquainted takes some answers.
            let answers = rng.u32(10..120);
            drop(task::spawn("cut", async move {
                let ((mut from_near, mut to_near), (mut from_far, mut to_far)) =
                    (near.split(), far.split());
                let there = tokio::io::copy(&mut from_near, &mut to_far);
                let back = async {
                    let mut bytes = vec![0; 64 * 1024];
                    for _ in 0..answers {
                        let read = from_far.read(&mut bytes).await.unwrap_or(0);
                        if read == 0 || to_near.write_all(&bytes[..read]).await.is_err() {
                            return;
                        }
                    }
                    // What was asked is done, and nobody hears of it.
                    drop(from_far.read(&mut bytes).await);
                };
                tokio::select! {
                    _ = there => {}
                    () = back => {}
                }
            }));
        }
    }));
    format!("redis://{address}/0")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_answers_that_are_lost_are_given_again() {
    let server = Server::start_with(&SYNCED).await;
    let to = server.url().trim_start_matches("redis://").trim_end_matches("/0").to_owned();
    for seed in 0..2 {
        let url = cutting(to.clone(), seed).await;
        let prefix = format!("s{seed}:");
        let config = RedisConfig { timeouts: hasty(), prefix, ..RedisConfig::new([url]) };
        let jobs = RedisDeferred::connect(config, ROOMY).await.unwrap();
        let again = run(&jobs, 300, seed).await;
        println!("seed {seed}: {again} of 300 jobs run more than once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_durable_is_what_is_on_disk() {
    for (options, durable) in [
        (&SYNCED[..], true),
        (&[][..], false),
        // An older server tells nobody when it has written.
        (&["--appendonly", "yes", "--appendfsync", "no"][..], false),
    ] {
        let server = Server::start_with(options).await;
        let jobs = connect(&server, LIMITS).await;
        let kept = jobs.put(&job("a", "q")).await.unwrap();
        assert_eq!(kept.durable, durable, "{options:?}");
        assert_eq!(jobs.finish("a", 1, &Bytes::new()).await.unwrap().durable, durable);
        assert_eq!(jobs.cancel("a").await.unwrap().durable, durable);
    }
}

/// Passes bytes on to a server, and answers WAITAOF in its place, as newer ones do.
async fn newer(to: String, answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(task::spawn("newer", async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect(&to).await.unwrap();
            drop(task::spawn("newer-connection", async move {
                let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
                loop {
                    let (from_far, bytes) = tokio::select! {
                        read = near.read(&mut asked) => (false, &asked[..read.unwrap_or(0)]),
                        read = far.read(&mut answered) => (true, &answered[..read.unwrap_or(0)]),
                    };
                    let passed_on = if bytes.is_empty() {
                        return;
                    } else if from_far {
                        near.write_all(bytes).await
                    } else if bytes.starts_with(b"*4\r\n$7\r\nWAITAOF") {
                        near.write_all(answer.as_bytes()).await
                    } else {
                        far.write_all(bytes).await
                    };
                    passed_on.unwrap();
                }
            }));
        }
    }));
    format!("redis://{address}/0")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_newer_servers_are_asked_whether_it_is_on_disk() {
    let server = Server::start().await;
    let to = server.url().trim_start_matches("redis://").trim_end_matches("/0").to_owned();
    for (answer, durable) in [
        ("*2\r\n:1\r\n:0\r\n", true),
        // It was not done in time; it keeps no file.
        ("*2\r\n:0\r\n:0\r\n", false),
        ("-ERR WAITAOF cannot be used when appendonly is disabled.\r\n", false),
    ] {
        let url = newer(to.clone(), answer).await;
        let config = RedisConfig { timeouts: hasty(), ..RedisConfig::new([url]) };
        let jobs = RedisDeferred::connect(config, LIMITS).await.unwrap();
        // Many at once are one question.
        let asked: Vec<_> = (0..20).map(|n| job(&format!("j{n}"), "q")).collect();
        for kept in futures_util::future::join_all(asked.iter().map(|job| jobs.put(job))).await {
            assert_eq!(kept.unwrap().durable, durable, "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_later_is_used_then() {
    let server = Server::prepare(&SYNCED);
    let config = RedisConfig { timeouts: hasty(), ..RedisConfig::new([server.url()]) };
    let jobs = RedisDeferred::connect(config, LIMITS).await.unwrap();
    let late = job("a", "q");
    let error = jobs.put(&late).await.unwrap_err();
    assert!(matches!(error, DeferredError::Store(_)), "{error}");
    server.run().await;
    let kept = loop {
        let kept = insist(|| jobs.put(&late)).await;
        if kept.durable {
            break kept;
        }
    };
    assert!(matches!(kept.answer, Put::Stored | Put::Existing(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_told_at_once() {
    let server = Server::start().await;
    let config = RedisConfig { timeouts: hasty(), ..RedisConfig::new([server.url()]) };
    let jobs = RedisDeferred::connect(config, LIMITS).await.unwrap();
    put(&jobs, &job("a", "q")).await;
    server.process.kill();
    for _ in 0..20 {
        let asked = tokio::time::Instant::now();
        let error = jobs.get("a").await.unwrap_err();
        assert!(matches!(error, DeferredError::Store(_)), "{error}");
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    }
}
