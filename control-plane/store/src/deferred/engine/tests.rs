use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const LIMITS: DeferredLimits = DeferredLimits {
    body_bytes: 100,
    result_bytes: 100,
    meta_bytes: 100,
    queue_jobs: 6,
    jobs: 20,
    bytes: 1_000,
    claim_bytes: 150,
};

fn job(id: &str, queue: &str) -> Job {
    Job {
        id: id.into(),
        owner: "o".into(),
        party: "p".into(),
        idempotency_key: String::new(),
        queue: queue.into(),
        body: Bytes::from_static(b"body"),
        meta: Bytes::from_static(b"m"),
        expires_ms: 100,
        keep_ms: 50,
        deliver: true,
    }
}

fn claim(call: u64, queue: &str, most: u32, lease_ms: u64) -> Claim {
    let queues = vec![(queue.into(), most)];
    Claim { node: "n".into(), call: call.to_string(), queues, lease_ms }
}

#[test]
fn a13_time_goes_by_small_steps_whatever_the_hosts_clock_does() {
    let mut clock = Clock::new(0, 1_000);
    for (host_ms, expected) in [
        (1_000, 1),
        (1_500, 501),
        (0, 501),
        (10, 511),
        (u64::MAX, 511 + MAX_STEP_MS),
        (5, 511 + MAX_STEP_MS),
        (6, 512 + MAX_STEP_MS),
    ] {
        assert_eq!(clock.at(host_ms), expected, "{host_ms}");
    }
    let mut late = Clock::new(u64::MAX, 0);
    assert_eq!(late.at(9), u64::MAX);
}

#[test]
fn absurd_numbers_end_nothing_and_panic_nowhere() {
    let mut engine = Engine::default();
    let now_ms = u64::MAX - 3;
    engine.begin(now_ms);
    let forever = Job { expires_ms: u64::MAX, keep_ms: u64::MAX, ..job("a", "q") };
    assert_eq!(engine.put(&forever, &LIMITS, now_ms), Ok(Put::Stored));
    assert_eq!(engine.claim(&claim(1, "q", u32::MAX, u64::MAX), &LIMITS, now_ms).len(), 1);
    assert_eq!(engine.extend("a", u64::MAX, 1, now_ms), Held::No);
    assert_eq!(engine.release("a", 1, u64::MAX, now_ms), Held::Yes);
    assert_eq!(engine.finish("a", u64::MAX, u64::MAX, now_ms), Finished::Recorded);
    assert_eq!(engine.claim_deliveries(usize::MAX, u64::MAX, &LIMITS, now_ms).len(), 1);
    engine.begin(u64::MAX);
    assert_eq!(engine.get("a", u64::MAX), None, "all time is over");
}

/// What a run of random operations may do.
#[derive(Debug, Clone)]
enum Step {
    Put { id: u8, party: u8, queue: u8, key: u8, expires_ms: u64 },
    Claim { call: u8, queue: u8, most: u32, lease_ms: u64 },
    Extend { id: u8, attempt: u64, lease_ms: u64 },
    Finish { id: u8, attempt: u64 },
    Release { id: u8, attempt: u64, after_ms: u64 },
    Cancel { id: u8 },
    Deliver { most: usize },
    Delivered { id: u8, attempt: u64, after_ms: Option<u64> },
    Wait { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (id, attempt, time) = (0..12_u8, 0..4_u64, 0..120_u64);
    prop_oneof![
        3 => (id.clone(), 0..3_u8, 0..2_u8, 0..4_u8, time.clone()).prop_map(
            |(id, party, queue, key, expires_ms)| Step::Put { id, party, queue, key, expires_ms }
        ),
        3 => (0..5_u8, 0..2_u8, 0..5_u32, time.clone())
            .prop_map(|(call, queue, most, lease_ms)| Step::Claim { call, queue, most, lease_ms }),
        1 => (id.clone(), attempt.clone(), time.clone())
            .prop_map(|(id, attempt, lease_ms)| Step::Extend { id, attempt, lease_ms }),
        1 => (id.clone(), attempt.clone()).prop_map(|(id, attempt)| Step::Finish { id, attempt }),
        1 => (id.clone(), attempt.clone(), time.clone())
            .prop_map(|(id, attempt, after_ms)| Step::Release { id, attempt, after_ms }),
        1 => id.clone().prop_map(|id| Step::Cancel { id }),
        1 => (0..4_usize).prop_map(|most| Step::Deliver { most }),
        1 => (id, attempt, proptest::option::of(time.clone()))
            .prop_map(|(id, attempt, after_ms)| Step::Delivered { id, attempt, after_ms }),
        2 => time.prop_map(|ms| Step::Wait { ms }),
    ]
}

fn act(engine: &mut Engine, step: &Step, now_ms: u64) {
    let name = |id: &u8| format!("j{id}");
    match step {
        Step::Put { id, party, queue, key, expires_ms } => {
            let key = if *key == 0 { String::new() } else { key.to_string() };
            let job = Job {
                party: format!("p{party}"),
                idempotency_key: key,
                expires_ms: *expires_ms,
                ..job(&name(id), &format!("q{queue}"))
            };
            drop(engine.put(&job, &LIMITS, now_ms));
        }
        Step::Claim { call, queue, most, lease_ms } => {
            let claim = claim((*call).into(), &format!("q{queue}"), *most, *lease_ms);
            drop(engine.claim(&claim, &LIMITS, now_ms));
        }
        Step::Extend { id, attempt, lease_ms } => {
            engine.extend(&name(id), *attempt, *lease_ms, now_ms);
        }
        Step::Finish { id, attempt } => drop(engine.finish(&name(id), *attempt, 7, now_ms)),
        Step::Release { id, attempt, after_ms } => {
            engine.release(&name(id), *attempt, *after_ms, now_ms);
        }
        Step::Cancel { id } => drop(engine.cancel(&name(id), now_ms)),
        Step::Deliver { most } => drop(engine.claim_deliveries(*most, 20, &LIMITS, now_ms)),
        Step::Delivered { id, attempt, after_ms } => {
            let outcome = match after_ms {
                Some(after_ms) => DeliveryOutcome::Again { after_ms: *after_ms },
                None => DeliveryOutcome::Over,
            };
            engine.delivered(&name(id), *attempt, outcome, now_ms);
        }
        Step::Wait { .. } => {}
    }
}

/// Everything that is kept, read anew.
fn reloaded(records: &HashMap<String, Record>) -> Engine {
    let mut engine = Engine::default();
    for (id, record) in records {
        let bytes = record.encode();
        engine.load(id, Record::decode(&bytes).unwrap());
    }
    engine
}

fn indexes(engine: &Engine) -> impl PartialEq + std::fmt::Debug + '_ {
    let Jobs { all, by_key, ready, fresh, turns, timers, deliveries, claims, .. } = &engine.jobs;
    let Jobs { queues, bytes, queue_parties, parties, .. } = &engine.jobs;
    let places = (ready, fresh, turns);
    (all, by_key, places, timers, (deliveries, claims, queues, bytes), queue_parties, parties)
}

proptest! {
    /// Indexes follow from records whatever happens; what has ended stays as it ended; every change is
    /// told.
    #[test]
    fn b2_what_has_ended_stays_and_indexes_agree(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut engine = Engine::default();
        let mut now_ms = 1;
        for step in &steps {
            if let Step::Wait { ms } = step {
                now_ms += ms;
            }
            let before = engine.jobs.all.clone();
            engine.begin(now_ms);
            act(&mut engine, step, now_ms);
            for (id, old) in before.iter().filter(|(_, old)| old.state.has_ended()) {
                if let Some(new) = engine.jobs.all.get(id).filter(|new| new.seq == old.seq) {
                    prop_assert_eq!((new.state, new.attempt), (old.state, old.attempt));
                }
            }
            prop_assert!(engine.jobs.all.len() <= 20);
            prop_assert!(engine.jobs.queues.values().all(|(waiting, running)| waiting + running <= 6));
            let reloaded = reloaded(&engine.jobs.all);
            prop_assert_eq!(indexes(&engine), indexes(&reloaded));
            // What is written is what was changed, and nothing else.
            for (id, old, new) in engine.changes() {
                prop_assert_eq!(old, before.get(id));
                prop_assert_eq!(new, engine.jobs.all.get(id));
            }
            let changed: BTreeSet<&str> = engine.changes().iter().map(|(id, ..)| *id).collect();
            let ids = before.keys().chain(engine.jobs.all.keys());
            for id in ids.filter(|id| before.get(*id) != engine.jobs.all.get(*id)) {
                prop_assert!(changed.contains(id.as_str()));
            }
        }
    }
}
