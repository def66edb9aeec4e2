//! What it costs a request to enter a target and leave it, alone and in a crowd.

#![allow(clippy::unwrap_used, reason = "a bench may end in a panic")]

use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_flow::Class;
use sluicegate_flow::admission::{Admission, Request};
use sluicegate_flow::capacity::Settings;
use sluicegate_flow::gate::{Ask, Gate};
use sluicegate_flow::queue::Bounds;
use tokio::time::Instant;

fn gate(bench: &mut Criterion) {
    let settings = Settings {
        max_requests: NonZeroU64::new(1_000),
        max_tokens: NonZeroU64::new(1_000_000),
        ..Settings::default()
    };
    let tenant: Arc<str> = "tenant".into();
    let request = Request { tenant: &tenant, weight: 1, class: Class::Default, cost: 1_000 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();

    let door = Gate::new(settings, Bounds::default());
    let deadline = Instant::now() + Duration::from_secs(3_600);
    let ask = Ask { request, deadline, wait: true };
    bench.bench_function("enter and leave, with room", |bencher| {
        bencher.iter(|| drop(runtime.block_on(door.enter(black_box(ask))).unwrap()));
    });
    bench.bench_function("the same without the runtime's part", |bencher| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        bencher.iter(|| {
            let future = std::pin::pin!(door.enter(black_box(ask)));
            assert!(future.poll(&mut context).is_ready(), "there is room");
        });
    });
    bench.bench_function("refused, a thousand waiting", |bencher| {
        let mut admission =
            Admission::new(settings, Bounds { wait_ms: 1 << 40, ..Bounds::default() });
        let _slots: Vec<_> = std::iter::from_fn(|| admission.enter(&request, 0).ok()).collect();
        for n in 0..1_000_u32 {
            let tenant: Arc<str> = format!("t{}", n % 50).into();
            admission.wait(&Request { tenant: &tenant, ..request }, 1 << 50, n, 0).unwrap();
        }
        bencher.iter(|| admission.enter(black_box(&request), 1).unwrap_err());
    });
    bench.bench_function("wait and go, a thousand waiting", |bencher| {
        let mut admission = Admission::new(
            Settings { max_requests: NonZeroU64::new(1), adaptive: None, ..Settings::default() },
            Bounds { length: 2_000, wait_ms: 1 << 40, ..Bounds::default() },
        );
        let mut inside = Some(admission.enter(&request, 0).unwrap());
        let names: Vec<Arc<str>> = (0..50).map(|n| format!("t{n}").into()).collect();
        let mut next = 0;
        let mut wait = |admission: &mut Admission<()>| {
            next = (next + 1) % names.len();
            let tenant = names.get(next).unwrap();
            admission.wait(&Request { tenant, ..request }, 1 << 50, (), 0).unwrap();
        };
        (0..1_000).for_each(|_| wait(&mut admission));
        bencher.iter(|| {
            wait(&mut admission);
            admission.leave(inside.take().unwrap(), 0, 0);
            let Some(sluicegate_flow::admission::Next::Go((), slot)) = admission.next(0) else {
                panic!("there is room for one");
            };
            inside = Some(slot);
        });
    });
}

criterion_group!(benches, gate);
criterion_main!(benches);
