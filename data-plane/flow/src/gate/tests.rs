use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::capacity::Load;
use crate::class::Class;

fn gate(requests: u64, tokens: u64, bounds: Bounds) -> Arc<Gate> {
    let settings = capacity::Settings {
        max_requests: NonZeroU64::new(requests),
        max_tokens: NonZeroU64::new(tokens),
        small_percent: 25,
        adaptive: None,
    };
    Gate::new(settings, bounds)
}

fn wide() -> Bounds {
    Bounds { length: 100_000, tenant_percent: 100, wait_ms: 2_000 }
}

fn request(tenant: &Arc<str>, cost: u64) -> Request<'_> {
    Request { tenant, weight: 1, class: Class::Default, cost }
}

async fn enter(gate: &Arc<Gate>, cost: u64, wait: bool) -> Result<Guard, Refused> {
    let tenant = "t".into();
    let deadline = Instant::now() + Duration::from_secs(60);
    gate.enter(Ask { request: request(&tenant, cost), deadline, wait }).await
}

/// Lets every task run until all of them wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn b2_who_does_not_wait_is_told_when_to_come_back() {
    let gate = gate(1, 0, wide());
    let guard = enter(&gate, 1, false).await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;
    drop(guard);
    let _guard = enter(&gate, 1, false).await.unwrap();
    let refused = enter(&gate, 1, false).await.unwrap_err();
    assert_eq!(refused, Refused::Full { wait_ms: 3_000 });
    assert_eq!(gate.view().used, Load { requests: 1, tokens: 1 });
}

#[tokio::test(start_paused = true)]
async fn b2_who_waits_goes_when_its_turn_comes_or_is_told_in_time() {
    let gate = gate(1, 0, wide());
    let first = enter(&gate, 1, true).await.unwrap();
    let (one, two) = (enter(&gate, 1, true), enter(&gate, 1, true));
    tokio::pin!(one, two);
    assert!(futures_pending(&mut one).await && futures_pending(&mut two).await);
    assert_eq!(gate.view().waiting, 2);
    drop(first);
    let guard = one.await.unwrap();
    let before = Instant::now();
    let refused = two.await.unwrap_err();
    assert!(matches!(refused, Refused::Late { .. }), "{refused}");
    assert_eq!(before.elapsed().as_millis(), 2_000);
    drop(guard);
    assert_eq!(gate.view().waiting, 0);
    assert_eq!(gate.view().used, Load::default());
}

/// Polls it once.
async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn b2_a_deadline_that_is_near_is_not_waited_for() {
    let gate = gate(1, 0, wide());
    let guard = enter(&gate, 1, true).await.unwrap();
    (0..200).for_each(|_| guard.first_event(800, 10));
    let tenant = "t".into();
    let ask = |ms| Ask {
        request: request(&tenant, 1),
        deadline: Instant::now() + Duration::from_millis(ms),
        wait: true,
    };
    let before = Instant::now();
    assert!(matches!(gate.enter(ask(790)).await, Err(Refused::Late { .. })));
    assert_eq!(before.elapsed().as_millis(), 0, "there is no time for an answer");
    assert!(matches!(gate.enter(ask(1_500)).await, Err(Refused::Late { .. })));
    assert!((700..=710).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn b2_a_waiter_that_is_dropped_lets_the_next_one_go() {
    let gate = gate(0, 100, wide());
    let small = enter(&gate, 25, true).await.unwrap();
    let _other = enter(&gate, 25, true).await.unwrap();
    let mut large = Box::pin(enter(&gate, 100, true));
    assert!(futures_pending(&mut large).await);
    // It would fit, but the room is kept for the large one.
    let mut next = Box::pin(enter(&gate, 25, true));
    assert!(futures_pending(&mut next).await);
    drop(large);
    let guard = next.await.unwrap();
    // The same where the answer was under way already.
    let mut fills = Vec::new();
    while let Ok(guard) = enter(&gate, 25, false).await {
        fills.push(guard);
    }
    let mut one = Box::pin(enter(&gate, 25, true));
    let mut two = Box::pin(enter(&gate, 25, true));
    assert!(futures_pending(&mut one).await && futures_pending(&mut two).await);
    drop(small);
    drop(one);
    let two = two.await.unwrap();
    drop((guard, two, fills));
    assert_eq!(gate.view().used, Load { requests: 1, tokens: 25 });
}

#[tokio::test(start_paused = true)]
async fn b2_room_for_a_crowd_that_leaves_as_it_is_told_goes_to_the_one_who_stayed() {
    const CROWD: usize = 20_000;
    let gate = gate(1, 0, Bounds { length: CROWD + 1, ..wide() });
    let tenant = "t".into();
    let mut first = Some(gate.lock().enter(&request(&tenant, 1), 0).unwrap());
    // Waiters whose other ends are gone, but who have not taken themselves out.
    for _ in 0..CROWD {
        let (waiter, _) = oneshot::channel();
        gate.lock().wait(&request(&tenant, 1), 60_000, waiter, 0).unwrap();
    }
    let (waiter, mut answer) = oneshot::channel();
    gate.lock().wait(&request(&tenant, 1), 60_000, waiter, 0).unwrap();
    gate.change(0, |admission| admission.leave(first.take().unwrap(), 0, 0));
    let guard = answer.try_recv().unwrap().unwrap();
    assert_eq!((gate.view().used.requests, gate.view().waiting), (1, 0));
    drop(guard);
    assert_eq!(gate.view().used, Load::default());
}

#[tokio::test(start_paused = true)]
async fn more_room_lets_those_in_who_fit() {
    let gate = gate(1, 0, wide());
    let _guard = enter(&gate, 1, true).await.unwrap();
    let mut waits: Vec<_> = (0..3).map(|_| Box::pin(enter(&gate, 1, true))).collect();
    for wait in &mut waits {
        assert!(futures_pending(wait).await);
    }
    gate.set(capacity::Settings { max_requests: NonZeroU64::new(3), ..Default::default() }, wide());
    settle().await;
    let view = gate.view();
    assert_eq!((view.used.requests, view.waiting), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn refusals_of_the_upstream_make_a_limit() {
    let gate = Gate::new(capacity::Settings::default(), wide());
    let mut guards = Vec::new();
    for _ in 0..10 {
        guards.push(enter(&gate, 10_000, false).await.unwrap());
    }
    guards[3].refused();
    assert_eq!(gate.view().limits.requests, Some(7));
    assert!(matches!(enter(&gate, 1, false).await, Err(Refused::Full { .. })));
}

/// Thousands of tasks on several threads that enter, wait, leave and are cancelled at any moment: the limit
/// holds, nobody is forgotten, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c10_under_stress_nothing_is_lost() {
    const TASKS: u64 = 12_000;
    let bounds = Bounds { wait_ms: 300_000, ..wide() };
    let gate = gate(16, 4_000, bounds);
    let inside = Arc::new(AtomicU64::new(0));
    let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..TASKS {
        let (gate, inside, counts) = (Arc::clone(&gate), Arc::clone(&inside), Arc::clone(&counts));
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(n);
            let tenant: Arc<str> = format!("t{}", n % 7).into();
            let class = Class::ALL[random.usize(..4)];
            let cost = if n % 50 == 0 { 100_000 } else { random.u64(1..500) };
            let request = Request { tenant: &tenant, weight: 1, class, cost };
            let deadline = Instant::now() + Duration::from_secs(600);
            let entering = gate.enter(Ask { request, deadline, wait: true });
            let patience = Duration::from_micros(random.u64(0..400_000));
            let cancels = random.bool();
            let entered = if cancels {
                let Ok(entered) = tokio::time::timeout(patience, entering).await else {
                    counts[0].fetch_add(1, Ordering::Relaxed);
                    return;
                };
                entered
            } else {
                entering.await
            };
            match entered {
                Ok(guard) => {
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 16);
                    counts[1].fetch_add(1, Ordering::Relaxed);
                    if random.bool() {
                        tokio::time::sleep(Duration::from_micros(random.u64(0..300))).await;
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
                Err(_) => {
                    counts[2].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let [cancelled, entered, refused] =
        [0, 1, 2].map(|at: usize| counts[at].load(Ordering::Relaxed));
    println!("of {TASKS}: {entered} entered, {cancelled} left while waiting, {refused} refused");
    assert_eq!(cancelled + entered + refused, TASKS);
    assert_eq!(refused, 0, "there was time for all");
    assert!(cancelled > 1_000 && entered > 5_000, "both were tested");
    let view = gate.view();
    assert_eq!((view.used, view.waiting), (Load::default(), 0));
}
