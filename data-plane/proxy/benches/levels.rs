//! What degradations cost a request: nothing declared, many of which none has begun, and one that has.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_model::{
    Resource,
    document::{Document, References},
    resource::{Degradation, degradation::ByHand, degradation::Level},
};
use sluicegate_proxy::{Policy, levels::Levels};

fn policy(count: usize, by_hand: bool) -> Policy {
    let one = |n: usize| {
        format!("  - {{ name: d{n}, levels: [{{ level: 2, enter_when: tool_timeouts > 2 }}] }}\n")
    };
    let text = format!("degradations:\n{}", (0..count.max(1)).map(one).collect::<String>());
    let document = Document::parse("bench", &text, References::Open).expect("it is valid");
    let parsed = document.resources.iter();
    let parsed = parsed.map(|declared| Resource::parse(&declared.resource).expect("it is valid"));
    let mut degradations: Vec<Degradation> = parsed
        .filter_map(|resource| match resource {
            Resource::Degradation(spec) => Some(spec),
            _ => None,
        })
        .take(count)
        .collect();
    let mut policy = Policy::default();
    if by_hand && let Some(first) = degradations.first_mut() {
        let (level, expires_unix_ms) = (Level::AllTools, u64::MAX);
        first.manual = Some(ByHand { level, expires_unix_ms, comment: String::new() });
        policy.degraded_by_hand_until = Some(expires_unix_ms);
    }
    policy.degradations = degradations;
    policy
}

fn levels(bench: &mut Criterion) {
    let levels = Levels::default();
    let tenants = ["team".to_owned(), "org".to_owned()];
    for (name, policy) in [
        ("none is declared", policy(0, false)),
        ("none of 50 has begun", policy(50, false)),
        ("one of 50 has begun", policy(50, true)),
    ] {
        bench.bench_function(name, |bencher| {
            bencher.iter(|| black_box(levels.effect(black_box(&policy), "m", &tenants)).level());
        });
    }
}

criterion_group!(benches, levels);
criterion_main!(benches);
