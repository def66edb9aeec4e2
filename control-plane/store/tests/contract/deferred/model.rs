//! Random operations on a store and on the engine alone: both must answer the same in everything that
//! does not depend on time.

use std::collections::BTreeMap;

use bytes::Bytes;
use fastrand::Rng;
use sluicegate_store::deferred::{
    Claim, Deferred, DeferredError, DeferredLimits, DeliveryOutcome, Job, Listed,
    engine::{Engine, Full, Standing},
};

use super::fixture::*;

const FEW: DeferredLimits =
    DeferredLimits { queue_jobs: 8, jobs: 25, bytes: 300, claim_bytes: 60, ..LIMITS };

pub async fn the_store_agrees_with_the_engine<F: DeferredFixture>() {
    let seeds = std::env::var("SLUICEGATE_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..seeds.unwrap_or(3) {
        let f = F::start(FEW).await;
        agrees(f.jobs(), seed, 250).await;
    }
}

/// Time that ends nothing: whatever the engine's clock says, nothing of it comes to an end, except
/// where it is over at once.
fn time(rng: &mut Rng) -> u64 {
    if rng.u32(0..4) == 0 { 0 } else { LONG }
}

async fn agrees(jobs: &dyn Deferred, seed: u64, steps: usize) {
    let mut rng = Rng::with_seed(seed);
    let mut engine = Engine::default();
    for step in 0..steps {
        let now_ms = 1 + step as u64;
        // Each step has a millisecond of its own at the store, too, so that both have one order.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        engine.begin(now_ms);
        let at = format!("seed {seed}, step {step}");
        let id = format!("j{}", rng.u32(0..30));
        let (attempt, queue) = (rng.u64(0..4), format!("q{}", rng.u32(0..4)));
        match rng.u32(0..9) {
            0 | 1 => {
                let job = Job {
                    idempotency_key: rng.u32(0..20).to_string(),
                    body: Bytes::from(vec![b'x'; rng.usize(0..30)]),
                    meta: Bytes::new(),
                    expires_ms: time(&mut rng),
                    keep_ms: time(&mut rng),
                    deliver: rng.bool(),
                    ..of(&format!("t{}", rng.u32(0..3)), &id, &queue)
                };
                let expected = engine.put(&job, &FEW, now_ms);
                let answer = match jobs.put(&job).await {
                    Ok(kept) => Ok(kept.answer),
                    Err(DeferredError::Full { bound, .. }) => Err(Full { bound, is_share: false }),
                    Err(DeferredError::ShareFull { bound, .. }) => {
                        Err(Full { bound, is_share: true })
                    }
                    Err(DeferredError::Store(error)) => panic!("{at}: {error}"),
                };
                assert_eq!(answer, expected, "{at}: put {job:?}");
            }
            2 | 3 => {
                let mut queues: Vec<_> = (0..4).map(|n| (format!("q{n}"), rng.u32(0..3))).collect();
                rng.shuffle(&mut queues);
                let (node, call) = (rng.u32(0..2).to_string(), rng.u32(0..40).to_string());
                let claim = Claim { node, call, queues, lease_ms: time(&mut rng) };
                let expected = engine.claim(&claim, &FEW, now_ms);
                let expected: Vec<_> =
                    expected.iter().map(|one| (one.id.as_str(), one.attempt)).collect();
                let answer = jobs.claim(&claim).await.unwrap();
                assert_eq!(given(&answer), expected, "{at}: {claim:?}");
            }
            4 => {
                let lease_ms = time(&mut rng);
                let expected = engine.extend(&id, attempt, lease_ms, now_ms);
                let answer = jobs.extend(&id, attempt, lease_ms).await.unwrap();
                assert_eq!(answer, expected, "{at}: extend {id} {attempt}");
            }
            5 => {
                let result = Bytes::from(vec![b'y'; rng.usize(0..30)]);
                let expected = engine.finish(&id, attempt, result.len() as u64, now_ms);
                let answer = jobs.finish(&id, attempt, &result).await.unwrap().answer;
                assert_eq!(answer, expected, "{at}: finish {id} {attempt}");
            }
            6 => {
                let after_ms = time(&mut rng);
                let expected = engine.release(&id, attempt, after_ms, now_ms);
                let answer = jobs.release(&id, attempt, after_ms).await.unwrap();
                assert_eq!(answer, expected, "{at}: release {id} {attempt}");
            }
            7 => {
                let expected = engine.cancel(&id, now_ms);
                assert_eq!(jobs.cancel(&id).await.unwrap().answer, expected, "{at}: cancel {id}");
            }
            _ => {
                let most = rng.usize(0..3);
                let due = engine.claim_deliveries(most, LONG, &FEW, now_ms);
                let told = jobs.claim_deliveries(most, LONG).await.unwrap();
                let of = |id: &str, attempt, state| (id.to_owned(), attempt, state);
                let expected: Vec<_> =
                    due.iter().map(|one| of(&one.id, one.attempt, one.state)).collect();
                let answer: Vec<_> =
                    told.iter().map(|one| of(&one.id, one.attempt, one.state)).collect();
                assert_eq!(answer, expected, "{at}: deliveries");
                for one in due {
                    let outcome = match rng.u32(0..3) {
                        0 => DeliveryOutcome::Again { after_ms: 1 },
                        1 => DeliveryOutcome::Again { after_ms: LONG },
                        _ => DeliveryOutcome::Over,
                    };
                    engine.delivered(&one.id, one.attempt, outcome, now_ms);
                    jobs.delivered(&one.id, one.attempt, outcome).await.unwrap();
                }
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
        // What is over at once is so by the next operation.
        engine.begin(now_ms);
        look(jobs, &engine, &id, now_ms, &at).await;
    }
    let mut counts = jobs.counts().await.unwrap();
    counts.sort_by(|a, b| a.queue.cmp(&b.queue));
    assert_eq!(counts, engine.counts(), "seed {seed}");
    let timeless = |listed: Vec<Listed>| -> BTreeMap<String, Listed> {
        let one = |one: Listed| (one.id.clone(), Listed { age_ms: 0, left_ms: 0, ..one });
        listed.into_iter().map(one).collect()
    };
    let expected = engine.list("", usize::MAX, 0).jobs;
    assert_eq!(timeless(list(jobs, 5).await), timeless(expected), "seed {seed}");
}

/// Both say the same of one job, apart from how long it has been there.
async fn look(jobs: &dyn Deferred, engine: &Engine, id: &str, now_ms: u64, at: &str) {
    let expected = engine.get(id, now_ms);
    let answer = jobs.get(id).await.unwrap();
    let answer = answer.map(|status| Standing {
        owner: status.owner,
        queue: status.queue,
        state: status.state,
        attempt: status.attempt,
        ahead: status.ahead,
        age_ms: 0,
        left_ms: 0,
    });
    let timeless = expected.map(|standing| Standing { age_ms: 0, left_ms: 0, ..standing });
    assert_eq!(answer, timeless, "{at}: {id}");
}
