//! One function per promise, the same for every store of jobs.

use std::collections::BTreeSet;

use bytes::Bytes;
use sluicegate_store::{
    StoreError,
    deferred::{
        Bound, Cancelled, Claim, DeferredError, DeferredLimits, DeliveryOutcome, Finished, Held,
        Job, JobState, Put, QueueCount,
    },
};

use super::fixture::*;

pub async fn b2_a_job_is_kept_run_and_fetched<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    assert_eq!(jobs.get("a").await.unwrap(), None);
    put(jobs, &job("a", "p/m")).await;
    put(jobs, &job("b", "p/m")).await;
    let status = get(jobs, "b").await;
    assert_eq!((status.state, status.attempt, status.ahead), (JobState::Waiting, 0, 1));
    assert_eq!((&*status.queue, &*status.owner), ("p/m", "tenant/key"));
    assert!(status.left_ms <= LONG && status.left_ms > LONG - 60_000, "{status:?}");
    let two = QueueCount { queue: "p/m".into(), waiting: 2, running: 0 };
    assert_eq!(jobs.counts().await.unwrap(), std::slice::from_ref(&two));

    assert_eq!(claim(jobs, "1", "other", 9, LONG).await, []);
    let claimed = claim(jobs, "2", "p/m", 1, LONG).await;
    assert_eq!(given(&claimed), [("a", 1)]);
    assert_eq!((&*claimed[0].body, &*claimed[0].meta), (&b"body of a"[..], &b"meta of a"[..]));
    assert_eq!((&*claimed[0].queue, &*claimed[0].owner), ("p/m", "tenant/key"));
    assert_eq!(get(jobs, "a").await.state, JobState::Running);
    assert_eq!(get(jobs, "b").await.ahead, 0);
    let one = QueueCount { waiting: 1, running: 1, ..two };
    assert_eq!(jobs.counts().await.unwrap(), [one]);
    assert_eq!(jobs.extend("a", 1, LONG).await.unwrap(), Held::Yes);

    assert_eq!(finish(jobs, "a", 1, "answer").await, Finished::Recorded);
    let status = get(jobs, "a").await;
    assert_eq!((status.state, status.result.as_deref()), (JobState::Done, Some(&b"answer"[..])));
    assert_eq!(&*status.meta, b"meta of a");
    assert!(status.left_ms <= LONG && status.left_ms > LONG - 60_000, "{status:?}");
    assert_eq!(jobs.counts().await.unwrap()[0].running, 0);
    assert_eq!(jobs.claim_deliveries(9, LONG).await.unwrap(), [], "nobody wants to be told");
}

pub async fn b2_all_jobs_are_listed_page_by_page<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    assert_eq!(list(jobs, 7).await, []);
    // More than a store gives at once, whatever it is asked for.
    let ids: BTreeSet<String> = (0..200).map(|n| format!("j{n:03}")).collect();
    for id in &ids {
        let queue = if id.as_str() < "j100" { "p" } else { "q" };
        put(jobs, &Job { body: Bytes::new(), ..job(id, queue) }).await;
    }
    claim(jobs, "1", "p", 2, LONG).await;
    finish(jobs, "j001", 1, "answer").await;
    jobs.cancel("j002").await.unwrap();
    for most in [1, 7, 1_000] {
        let listed = list(jobs, most).await;
        let found: BTreeSet<String> = listed.iter().map(|one| one.id.clone()).collect();
        assert_eq!(found, ids, "{most} at a time");
        for one in &listed {
            let state = match &*one.id {
                "j000" => JobState::Running,
                "j001" => JobState::Done,
                "j002" => JobState::Cancelled,
                _ => JobState::Waiting,
            };
            assert_eq!(one.state, state, "{one:?}");
            let standing = get(jobs, &one.id).await;
            assert_eq!((&one.owner, &one.queue), (&standing.owner, &standing.queue));
            assert_eq!(one.attempt, standing.attempt, "{one:?}");
            assert!(one.left_ms <= LONG && one.left_ms > LONG - 60_000, "{one:?}");
        }
    }
    let bad = jobs.list("no page!", 9).await;
    assert!(matches!(bad, Err(DeferredError::Store(StoreError::Refused { .. }))), "{bad:?}");
}

pub async fn b2_the_same_key_gives_the_same_id<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    let keyed = |id: &str, key: &str| Job { idempotency_key: key.into(), ..job(id, "q") };
    put(jobs, &keyed("a", "k")).await;
    for repeated in [keyed("a", "k"), keyed("b", "k"), keyed("a", "")] {
        let answer = jobs.put(&repeated).await.unwrap().answer;
        assert_eq!(answer, Put::Existing("a".into()), "{repeated:?}");
    }
    assert_eq!(jobs.get("b").await.unwrap(), None);
    put(jobs, &keyed("c", "other")).await;
    put(jobs, &Job { owner: "tenant/other".into(), ..keyed("d", "k") }).await;
    // Without a key each is its own.
    put(jobs, &keyed("e", "")).await;
    put(jobs, &keyed("f", "")).await;
    // Also when it has ended, for as long as it is kept.
    assert_eq!(jobs.cancel("c").await.unwrap().answer, Cancelled::Done);
    let answer = jobs.put(&keyed("g", "other")).await.unwrap().answer;
    assert_eq!(answer, Put::Existing("c".into()));
    let short = Job { keep_ms: 1, ..keyed("h", "short") };
    put(jobs, &short).await;
    jobs.cancel("h").await.unwrap();
    forgotten(jobs, "h").await;
    put(jobs, &Job { id: "i".into(), ..short }).await;
}

pub async fn b2_queues_are_first_in_first_out<F: DeferredFixture>() {
    let f = F::start(DeferredLimits { claim_bytes: 100, ..LIMITS }).await;
    let jobs = f.jobs();
    // Names that begin alike are queues of their own.
    for n in 0..12 {
        put(jobs, &job(&format!("{}", 11 - n), if n % 3 == 0 { "p/m-2" } else { "p/m" })).await;
    }
    let queues = vec![("p/m".to_owned(), 3), ("p/m-2".to_owned(), 1), ("p/".to_owned(), 9)];
    let both = Claim { node: "n".into(), call: "1".into(), queues, lease_ms: LONG };
    let claimed = jobs.claim(&both).await.unwrap();
    assert_eq!(given(&claimed), [("10", 1), ("9", 1), ("7", 1), ("11", 1)]);
    // An answer has a bound, and at least one job.
    for (n, length) in [40, 60, 90, 10].into_iter().enumerate() {
        let body = Bytes::from(vec![0; length]);
        put(jobs, &Job { body, meta: Bytes::new(), ..job(&format!("big{n}"), "big") }).await;
    }
    for expected in [&[("big0", 1), ("big1", 1)][..], &[("big2", 1), ("big3", 1)], &[]] {
        let claimed = claim(jobs, &format!("{expected:?}"), "big", 9, LONG).await;
        assert_eq!(given(&claimed), expected);
    }
    put(jobs, &Job { body: Bytes::from(vec![0; 999]), ..job("huge", "big") }).await;
    assert_eq!(given(&claim(jobs, "h", "big", 9, LONG).await), [("huge", 1)]);
}

/// Whoever came first with a thousand jobs holds up nobody for longer than one turn.
pub async fn b2_parties_take_turns<F: DeferredFixture>() {
    let mut f = F::start(LIMITS).await;
    for n in 0..5 {
        put(f.jobs(), &of("a", &format!("a{n}"), "q")).await;
    }
    assert_eq!(given(&claim(f.jobs(), "1", "q", 2, LONG).await), [("a0", 1), ("a1", 1)]);
    for (party, id) in [("b", "b0"), ("b", "b1"), ("b", "b2"), ("c", "c0")] {
        put(f.jobs(), &of(party, id, "q")).await;
    }
    put(f.jobs(), &of("b", "b9", "another")).await;
    assert_eq!(get(f.jobs(), "b0").await.ahead, 1);
    assert_eq!(get(f.jobs(), "c0").await.ahead, 2);
    assert_eq!(get(f.jobs(), "a4").await.ahead, 5, "a2, b0, c0, a3, b1");
    // A turn is kept by a job that comes back, and by a store that is opened again.
    assert_eq!(f.jobs().release("a1", 1, 0).await.unwrap(), Held::Yes);
    f.reopen(LIMITS).await;
    let jobs = f.jobs();
    let mut order = Vec::new();
    while let Some(one) = claim(jobs, &format!("turn {}", order.len()), "q", 1, LONG).await.pop() {
        order.push(one.id);
    }
    assert_eq!(order, ["a1", "a2", "b0", "c0", "a3", "b1", "a4", "b2"]);
    // Nobody waits: what a party had before does not count against it.
    put(jobs, &of("a", "a5", "q")).await;
    put(jobs, &of("d", "d0", "q")).await;
    assert_eq!(given(&claim(jobs, "x", "q", 9, LONG).await), [("a5", 1), ("d0", 1)]);
    // One that comes back to its old turn does not make it that of others.
    for n in 0..4 {
        put(jobs, &of("e", &format!("e{n}"), "r")).await;
    }
    assert_eq!(given(&claim(jobs, "y", "r", 1, LONG).await), [("e0", 1)]);
    claim(jobs, "z", "r", 2, LONG).await;
    for n in 0..2 {
        put(jobs, &of("f", &format!("f{n}"), "r")).await;
    }
    assert_eq!(jobs.release("e0", 1, 0).await.unwrap(), Held::Yes);
    for n in 0..2 {
        put(jobs, &of("g", &format!("g{n}"), "r")).await;
    }
    let claimed = claim(jobs, "w", "r", 9, LONG).await;
    let order: Vec<&str> = claimed.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(order, ["e0", "e3", "f0", "g0", "f1", "g1"]);
}

/// No party can take the room of all others, whichever bound it is.
pub async fn b2_nobody_fills_the_room_of_others<F: DeferredFixture>() {
    let share = |error: DeferredError| match error {
        DeferredError::ShareFull { bound, limit } => (bound, limit),
        other => panic!("{other}"),
    };
    let ten = |party: &str, id: String, queue: &str| Job {
        body: Bytes::from_static(b"1234567"),
        meta: Bytes::from_static(b"890"),
        ..of(party, &id, queue)
    };
    for (limits, bound, limit) in [
        (DeferredLimits { queue_jobs: 12, ..LIMITS }, Bound::QueueJobs, 12),
        (DeferredLimits { jobs: 12, ..LIMITS }, Bound::Jobs, 12),
        (DeferredLimits { bytes: 120, ..LIMITS }, Bound::Bytes, 120),
    ] {
        let f = F::start(limits).await;
        let jobs = f.jobs();
        // Half of it for the first, half of the rest for the second, and so on.
        for (party, most) in [("a", 6), ("b", 3), ("c", 2)] {
            for n in 0..most {
                put(jobs, &ten(party, format!("{party}{n}"), "q")).await;
            }
            let error = jobs.put(&ten(party, format!("{party}-more"), "q")).await.unwrap_err();
            assert_eq!(share(error), (bound, limit), "{party}");
        }
        // What is over makes room again; what is kept of it does not where all jobs count.
        claim(jobs, "1", "q", 99, LONG).await;
        for n in 0..6 {
            assert_eq!(finish(jobs, &format!("a{n}"), 1, "").await, Finished::Recorded);
        }
        let again = jobs.put(&ten("a", "again".into(), "q")).await;
        match bound {
            Bound::Jobs => assert_eq!(share(again.unwrap_err()), (bound, limit)),
            Bound::QueueJobs | Bound::Bytes => assert_eq!(again.unwrap().answer, Put::Stored),
        }
        put(jobs, &ten("d", "d0".into(), "q")).await;
    }
}

pub async fn b2_a_lost_answer_to_a_claim_is_given_again<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    for id in ["a", "b", "c"] {
        put(jobs, &job(id, "q")).await;
    }
    assert_eq!(given(&claim(jobs, "1", "q", 2, LONG).await), [("a", 1), ("b", 1)]);
    for _ in 0..2 {
        let again = claim(jobs, "1", "q", 2, LONG).await;
        assert_eq!(given(&again), [("a", 1), ("b", 1)]);
        assert_eq!(&*again[1].body, b"body of b");
    }
    finish(jobs, "a", 1, "done").await;
    assert_eq!(given(&claim(jobs, "1", "q", 2, LONG).await), [("b", 1)]);
    assert_eq!(given(&claim(jobs, "2", "q", 2, LONG).await), [("c", 1)]);
    let other =
        Claim { node: "m".into(), call: "2".into(), queues: vec![("q".into(), 2)], lease_ms: LONG };
    assert_eq!(jobs.claim(&other).await.unwrap(), [], "another node's calls are its own");
}

pub async fn b2_a_lease_that_runs_out_gives_the_job_back<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    put(jobs, &job("a", "q")).await;
    put(jobs, &job("b", "q")).await;
    assert_eq!(given(&claim(jobs, "1", "q", 1, 20).await), [("a", 1)]);
    // In its old place.
    becomes(jobs, "a", JobState::Waiting).await;
    assert_eq!(get(jobs, "b").await.ahead, 1);
    // Whoever had it has it again, as long as nobody else does.
    assert_eq!(jobs.extend("a", 1, 20).await.unwrap(), Held::Yes);
    assert_eq!(jobs.counts().await.unwrap()[0].running, 1);
    becomes(jobs, "a", JobState::Waiting).await;
    let claimed = claim_soon(jobs, "2", "q").await;
    assert_eq!((&*claimed.id, claimed.attempt), ("a", 2));
    assert_eq!(jobs.extend("a", 1, LONG).await.unwrap(), Held::No);
    assert_eq!(jobs.release("a", 1, 0).await.unwrap(), Held::No);
    assert_eq!(jobs.extend("a", 2, LONG).await.unwrap(), Held::Yes);
    assert_eq!(jobs.extend("b", 0, LONG).await.unwrap(), Held::No, "nobody has it");
    assert_eq!(jobs.extend("none", 1, LONG).await.unwrap(), Held::No);
}

pub async fn b2_the_first_result_stands<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    put(jobs, &job("a", "q")).await;
    claim(jobs, "1", "q", 1, 1).await;
    becomes(jobs, "a", JobState::Waiting).await;
    claim_soon(jobs, "2", "q").await;
    assert_eq!(finish(jobs, "a", 2, "second").await, Finished::Recorded);
    assert_eq!(finish(jobs, "a", 1, "first").await, Finished::Already);
    assert_eq!(finish(jobs, "a", 2, "again").await, Finished::Recorded, "its own answer was lost");
    assert_eq!(get(jobs, "a").await.result.as_deref(), Some(&b"second"[..]));
    assert_eq!(jobs.extend("a", 2, LONG).await.unwrap(), Held::No);
    assert_eq!(jobs.release("a", 2, 0).await.unwrap(), Held::No);
    assert_eq!(jobs.cancel("a").await.unwrap().answer, Cancelled::Already);
    assert_eq!(claim(jobs, "3", "q", 1, LONG).await, []);
    assert_eq!(finish(jobs, "none", 1, "x").await, Finished::Unknown);
}

pub async fn b2_a_late_result_counts_if_there_is_none<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    put(jobs, &job("a", "q")).await;
    put(jobs, &job("b", "q")).await;
    assert_eq!(claim(jobs, "1", "q", 2, 1).await.len(), 2);
    becomes(jobs, "a", JobState::Waiting).await;
    assert_eq!(finish(jobs, "a", 1, "late").await, Finished::Recorded);
    // The other runs again meanwhile.
    let again = claim_soon(jobs, "2", "q").await;
    assert_eq!((&*again.id, again.attempt), ("b", 2));
    assert_eq!(finish(jobs, "b", 1, "late").await, Finished::Recorded);
    assert_eq!(jobs.extend("b", 2, LONG).await.unwrap(), Held::No, "it may stop");
    assert_eq!(finish(jobs, "b", 2, "later").await, Finished::Already);
    for id in ["a", "b"] {
        assert_eq!(get(jobs, id).await.result.as_deref(), Some(&b"late"[..]));
    }
    assert_eq!(jobs.counts().await.unwrap(), []);
}

pub async fn b2_a_released_job_waits_in_its_old_place<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    put(jobs, &job("a", "q")).await;
    put(jobs, &job("b", "q")).await;
    claim(jobs, "1", "q", 1, LONG).await;
    for _ in 0..2 {
        assert_eq!(jobs.release("a", 1, 0).await.unwrap(), Held::Yes, "repeating changes nothing");
    }
    assert_eq!(jobs.extend("a", 1, LONG).await.unwrap(), Held::No, "it was given back");
    assert_eq!(given(&claim(jobs, "2", "q", 1, LONG).await), [("a", 2)]);
    assert_eq!(jobs.release("a", 2, LONG).await.unwrap(), Held::Yes);
    // Later means later.
    assert_eq!(given(&claim(jobs, "3", "q", 9, LONG).await), [("b", 1)]);
    assert_eq!(get(jobs, "a").await.state, JobState::Waiting);
    assert_eq!(jobs.release("b", 1, 20).await.unwrap(), Held::Yes);
    assert_eq!(claim(jobs, "4", "q", 9, LONG).await, []);
    assert_eq!(claim_soon(jobs, "5", "q").await.id, "b");
}

pub async fn b2_a_cancelled_job_is_not_run<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    put(jobs, &Job { deliver: true, ..job("a", "q") }).await;
    put(jobs, &job("b", "q")).await;
    for _ in 0..2 {
        assert_eq!(jobs.cancel("a").await.unwrap().answer, Cancelled::Done);
    }
    assert_eq!(given(&claim(jobs, "1", "q", 9, LONG).await), [("b", 1)]);
    assert_eq!(jobs.cancel("b").await.unwrap().answer, Cancelled::Done);
    assert_eq!(jobs.extend("b", 1, LONG).await.unwrap(), Held::No, "whoever runs it learns it");
    assert_eq!(finish(jobs, "b", 1, "too late").await, Finished::Already);
    let status = get(jobs, "b").await;
    assert_eq!((status.state, status.result), (JobState::Cancelled, None));
    assert_eq!(jobs.cancel("none").await.unwrap().answer, Cancelled::Unknown);
    assert_eq!(jobs.counts().await.unwrap(), []);
    assert_eq!(jobs.claim_deliveries(9, LONG).await.unwrap(), [], "who cancels knows");
}

pub async fn b2_jobs_and_results_expire<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    let brief = Job { expires_ms: 30, deliver: true, ..job("a", "q") };
    put(jobs, &brief).await;
    becomes(jobs, "a", JobState::Expired).await;
    assert_eq!(claim(jobs, "1", "q", 9, LONG).await, []);
    assert_eq!(finish(jobs, "a", 1, "too late").await, Finished::Already);
    assert_eq!(jobs.cancel("a").await.unwrap().answer, Cancelled::Already);
    let told = jobs.claim_deliveries(9, LONG).await.unwrap();
    assert_eq!((&*told[0].id, told[0].state), ("a", JobState::Expired));
    // One that runs is not disturbed; one that comes back after its time is over.
    put(jobs, &Job { expires_ms: 200, ..job("b", "q") }).await;
    assert_eq!(claim(jobs, "2", "q", 9, LONG).await.len(), 1);
    tokio::time::sleep(std::time::Duration::from_millis(230)).await;
    assert_eq!(get(jobs, "b").await.state, JobState::Running);
    assert_eq!(jobs.extend("b", 1, 1).await.unwrap(), Held::Yes);
    becomes(jobs, "b", JobState::Expired).await;
    // Results are forgotten.
    put(jobs, &Job { keep_ms: 50, ..job("c", "q") }).await;
    claim(jobs, "3", "q", 9, LONG).await;
    finish(jobs, "c", 1, "answer").await;
    forgotten(jobs, "c").await;
    assert_eq!(finish(jobs, "c", 1, "answer").await, Finished::Unknown);
    assert_eq!(jobs.counts().await.unwrap(), []);
}

pub async fn b2_ends_are_delivered_until_somebody_has_them<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    for id in ["a", "b", "c"] {
        put(jobs, &Job { deliver: true, ..job(id, "q") }).await;
    }
    assert_eq!(jobs.claim_deliveries(9, LONG).await.unwrap(), []);
    claim(jobs, "1", "q", 9, LONG).await;
    finish(jobs, "a", 1, "of a").await;
    finish(jobs, "b", 1, "of b").await;
    let told = jobs.claim_deliveries(1, 20).await.unwrap();
    assert_eq!((told.len(), &*told[0].id, told[0].attempt), (1, "a", 1));
    assert_eq!(told[0].state, JobState::Done);
    assert_eq!(told[0].result.as_deref(), Some(&b"of a"[..]));
    assert_eq!(&*told[0].meta, b"meta of a");
    let told = jobs.claim_deliveries(9, LONG).await.unwrap();
    assert_eq!((told.len(), &*told[0].id), (1, "b"), "the other is being delivered");
    jobs.delivered("b", 1, DeliveryOutcome::Over).await.unwrap();
    // Whoever had it died; its late word does not count for the next one.
    let next = soon(jobs).await;
    assert_eq!((&*next.id, next.attempt), ("a", 2));
    jobs.delivered("a", 1, DeliveryOutcome::Over).await.unwrap();
    for _ in 0..2 {
        jobs.delivered("a", 2, DeliveryOutcome::Again { after_ms: 20 }).await.unwrap();
    }
    let next = soon(jobs).await;
    assert_eq!((&*next.id, next.attempt), ("a", 3));
    assert!(next.age_ms >= 20, "{next:?}");
    for _ in 0..2 {
        jobs.delivered("a", 3, DeliveryOutcome::Over).await.unwrap();
    }
    jobs.delivered("none", 1, DeliveryOutcome::Over).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    assert_eq!(jobs.claim_deliveries(9, LONG).await.unwrap(), []);
    assert_eq!(
        get(jobs, "a").await.result.as_deref(),
        Some(&b"of a"[..]),
        "it can be fetched, too"
    );
}

async fn soon(
    jobs: &dyn sluicegate_store::deferred::Deferred,
) -> sluicegate_store::deferred::Delivery {
    let waiting = async {
        loop {
            if let Some(next) = jobs.claim_deliveries(1, 40).await.unwrap().pop() {
                return next;
            }
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.expect("it comes again")
}

pub async fn b2_bounds_are_named<F: DeferredFixture>() {
    let limits = DeferredLimits { queue_jobs: 2, jobs: 4, bytes: 60, ..LIMITS };
    let f = F::start(limits).await;
    let jobs = f.jobs();
    // Each of a party of its own, so that all of the room can be used.
    let small = |id: &str, queue: &str| Job {
        body: Bytes::from_static(b"1234567"),
        meta: Bytes::from_static(b"890"),
        keep_ms: 1,
        ..of(id, id, queue)
    };
    let full = |error: DeferredError| match error {
        DeferredError::Full { bound, limit } => (bound, limit),
        other => panic!("{other}"),
    };
    put(jobs, &small("a", "q")).await;
    put(jobs, &small("b", "q")).await;
    let error = full(jobs.put(&small("c", "q")).await.unwrap_err());
    assert_eq!(error, (Bound::QueueJobs, 2));
    assert_eq!(jobs.put(&small("a", "q")).await.unwrap().answer, Put::Existing("a".into()));
    // Running ones count.
    claim(jobs, "1", "q", 9, LONG).await;
    let error = full(jobs.put(&small("c", "q")).await.unwrap_err());
    assert_eq!(error, (Bound::QueueJobs, 2));
    put(jobs, &small("d", "r")).await;
    let big = Job { body: Bytes::from(vec![0; 28]), ..small("e", "r") };
    let error = full(jobs.put(&big).await.unwrap_err());
    assert_eq!(error, (Bound::Bytes, 60));
    put(jobs, &Job { body: Bytes::from(vec![0; 27]), ..big }).await;
    let error = full(jobs.put(&small("f", "s")).await.unwrap_err());
    assert_eq!(error, (Bound::Jobs, 4));
    // What is forgotten makes room.
    for id in ["a", "b", "d", "e"] {
        jobs.cancel(id).await.unwrap();
        forgotten(jobs, id).await;
    }
    put(jobs, &small("g", "q")).await;

    let large = |length| Job { body: Bytes::from(vec![0; length]), ..job("h", "t") };
    let error = jobs.put(&large(1_001)).await.unwrap_err();
    let is_named = |error: DeferredError, named: &str, over: usize| match error {
        DeferredError::Store(StoreError::TooLarge { what, actual, limit }) => {
            assert_eq!((actual, limit), (over, over - 1));
            assert!(what.contains(named), "{what}");
        }
        other => panic!("{other}"),
    };
    is_named(error, "body", 1_001);
    let error = jobs.put(&Job { meta: Bytes::from(vec![0; 101]), ..job("h", "t") }).await;
    is_named(error.unwrap_err(), "note", 101);
    let error = jobs.finish("g", 1, &Bytes::from(vec![0; 1_001])).await;
    is_named(error.unwrap_err(), "result", 1_001);
}

pub async fn names_that_cannot_be_kept_are_refused<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    for bad in [
        job("", "q"),
        job("a/b", "q"),
        job(&"x".repeat(65), "q"),
        job("a", ""),
        job("a", "q\u{1f}"),
        job("a", &"q".repeat(1_281)),
        Job { owner: String::new(), ..job("a", "q") },
        Job { idempotency_key: "\n".into(), ..job("a", "q") },
    ] {
        let error = jobs.put(&bad).await.unwrap_err();
        let refused = matches!(&error, DeferredError::Store(StoreError::Refused { .. }));
        assert!(refused, "{bad:?}: {error}");
    }
    let claim =
        |node: &str, queues| Claim { node: node.into(), call: "1".into(), queues, lease_ms: 1 };
    for bad in [
        claim("", vec![]),
        claim("n\u{1f}", vec![]),
        claim("n", vec![("\u{1f}".into(), 1)]),
        claim("n", vec![("q".into(), 1); 257]),
    ] {
        let error = jobs.claim(&bad).await.unwrap_err();
        assert!(matches!(error, DeferredError::Store(_)), "{error}");
    }
    assert_eq!(jobs.claim(&claim("n", vec![])).await.unwrap(), []);
    assert_eq!(jobs.counts().await.unwrap(), []);
}

pub async fn two_claimers_never_get_the_same_job<F: DeferredFixture>() {
    let f = F::start(LIMITS).await;
    let jobs = f.jobs();
    for n in 0..120 {
        put(jobs, &job(&n.to_string(), "q")).await;
    }
    let claimer = async |name: usize| {
        let (mut all, mut call) = (Vec::new(), 0);
        loop {
            call += 1;
            let claimed = claim(jobs, &format!("{name}/{call}"), "q", 3, LONG).await;
            if claimed.is_empty() {
                return all;
            }
            for one in claimed {
                assert_eq!(one.attempt, 1);
                assert_eq!(finish(jobs, &one.id, 1, "x").await, Finished::Recorded);
                all.push(one.id);
            }
        }
    };
    let (a, b, c) = tokio::join!(claimer(1), claimer(2), claimer(3));
    let all: Vec<String> = [a, b, c].concat();
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (120, 120));
}

pub async fn jobs_outlive_the_process<F: DeferredFixture>() {
    let mut f = F::start(LIMITS).await;
    for id in ["a", "b", "c", "d"] {
        let job = Job { deliver: true, idempotency_key: id.into(), ..job(id, "q") };
        put(f.jobs(), &job).await;
    }
    claim(f.jobs(), "1", "q", 2, LONG).await;
    finish(f.jobs(), "a", 1, "answer").await;
    f.jobs().cancel("c").await.unwrap();
    for _ in 0..2 {
        f.reopen(LIMITS).await;
        let jobs = f.jobs();
        assert_eq!(get(jobs, "a").await.result.as_deref(), Some(&b"answer"[..]));
        assert_eq!(get(jobs, "b").await.state, JobState::Running);
        assert_eq!(get(jobs, "c").await.state, JobState::Cancelled);
        let answer = jobs.put(&Job { idempotency_key: "d".into(), ..job("e", "q") }).await;
        assert_eq!(answer.unwrap().answer, Put::Existing("d".into()));
        assert_eq!(given(&claim(jobs, "1", "q", 2, LONG).await), [("b", 1)]);
        let counts = QueueCount { queue: "q".into(), waiting: 1, running: 1 };
        assert_eq!(jobs.counts().await.unwrap(), [counts]);
    }
    let jobs = f.jobs();
    assert_eq!(given(&claim(jobs, "2", "q", 2, LONG).await), [("d", 1)]);
    assert_eq!(jobs.claim_deliveries(9, LONG).await.unwrap()[0].id, "a");
}

pub async fn a13_a_clock_that_is_set_ends_nothing<F: DeferredFixture>() {
    let mut f = F::start(LIMITS).await;
    let hours = 5 * 3_600_000;
    put(f.jobs(), &job("running", "q")).await;
    claim(f.jobs(), "1", "q", 1, LONG).await;
    put(f.jobs(), &job("waiting", "q")).await;
    for by_ms in [hours, -2 * hours, hours] {
        f.set_clock(by_ms).await;
        assert_eq!(get(f.jobs(), "running").await.state, JobState::Running, "{by_ms}");
        let status = get(f.jobs(), "waiting").await;
        assert_eq!(status.state, JobState::Waiting, "{by_ms}");
        assert!(status.left_ms > LONG - 4 * 60_000, "{by_ms}: {status:?}");
    }
    // And nothing lasts longer than it should.
    put(f.jobs(), &Job { expires_ms: 30, ..job("brief", "q") }).await;
    f.set_clock(-hours).await;
    becomes(f.jobs(), "brief", JobState::Expired).await;
}
