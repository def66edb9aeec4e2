//! What a check costs that a lease answers: one take and one settle.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_protocol::quota::{Balance, Taken};

fn lease(bench: &mut Criterion) {
    let balance = Balance::default();
    balance.grant(1 << 50, u64::MAX);
    bench.bench_function("take and settle", |bencher| {
        bencher.iter(|| {
            assert!(matches!(balance.take(black_box(100), 1), Taken::Yes { .. }));
            balance.settle(100, black_box(30));
        });
    });
    bench.bench_function("take, charge at once and correct", |bencher| {
        bencher.iter(|| {
            assert!(matches!(balance.take(black_box(100), 1), Taken::Yes { .. }));
            balance.charge(100);
            balance.correct(100, black_box(30));
        });
    });
}

criterion_group!(benches, lease);
criterion_main!(benches);
