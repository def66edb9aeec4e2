//! Random operations on a ledger and on the engine, which is told the ledger's time: both must
//! answer the same in everything.

use fastrand::Rng;
use sluicegate_store::ledger::{
    CalendarWindow, LeaseOp, Ledger, MeterKind, MeterSpec, OnExpiry,
    meter::{Meter, Phase},
};

use super::fixture::LONG;

/// Leases that live this long are past a recovery that took no time; longer ones are not.
pub const SHORT: u64 = 20;

/// Does `steps` random operations of one meter. `recovering` is the same ledger while it gives
/// nothing.
pub async fn agrees(ledger: &dyn Ledger, recovering: Option<&dyn Ledger>, seed: u64, steps: usize) {
    let mut rng = Rng::with_seed(seed);
    let now_ms = ledger.now_ms().await.unwrap();
    let mut meter = Meter::default();
    let name = format!("model/{seed}");
    let kinds = kinds(now_ms);
    let mut kind = kinds[rng.usize(0..kinds.len())];
    let on_expiry = if rng.bool() { OnExpiry::Hold } else { OnExpiry::Return };
    for step in 0..steps {
        // Rarely, the configuration is changed.
        if rng.u32(0..200) == 0 {
            kind = kinds[rng.usize(0..kinds.len())];
        }
        let settling = rng.u32(0..8) == 0;
        let halted = recovering.filter(|_| rng.u32(0..10) == 0);
        let ttl_ms = if settling { LONG } else { rng.u64(0..=SHORT) };
        let phase = match (halted, settling) {
            (Some(_), _) => Phase::Recovering,
            (None, true) => Phase::Settling,
            (None, false) => Phase::Normal,
        };
        let op = operation(&mut rng, &name, MeterSpec { kind, capacity: 500, on_expiry, ttl_ms });
        let state = halted.unwrap_or(ledger).lease(std::slice::from_ref(&op)).await.unwrap()[0];
        let expected = meter.apply(state.now_ms, &op, phase);
        assert_eq!(state, expected, "seed {seed}, step {step}, {phase:?}: {op:?}");
        if rng.u32(0..20) == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(rng.u64(0..40))).await;
        }
    }
    let views = ledger.meters(&name, 1).await.unwrap();
    let (view, now_ms) = (&views[0], ledger.now_ms().await.unwrap());
    let expected = meter.view(&name, now_ms);
    assert_eq!((view.capacity, view.holders), (expected.capacity, expected.holders));
}

fn kinds(now_ms: u64) -> Vec<MeterKind> {
    // Windows that turn while the test runs, and may all be over in the end.
    let window = |id, start_ms, end_ms| CalendarWindow { id, start_ms, end_ms };
    let turns = |n: u64| MeterKind::Calendar {
        windows: [
            window(n, now_ms + 150 * n, now_ms + 150 * (n + 1)),
            window(n + 1, now_ms + 150 * (n + 1), now_ms + 150 * (n + 2)),
        ],
    };
    vec![
        MeterKind::Bucket { amount: 7, window_ms: 3 },
        MeterKind::Bucket { amount: 100, window_ms: 777 },
        MeterKind::Sliding { window_ms: 130 },
        MeterKind::Sliding { window_ms: 37 },
        MeterKind::Slots,
        turns(0),
        turns(1),
        MeterKind::Calendar { windows: [window(9, 0, now_ms), window(10, now_ms, now_ms + LONG)] },
    ]
}

fn operation(rng: &mut Rng, meter: &str, spec: MeterSpec) -> LeaseOp {
    let charged = rng.u64(0..150);
    LeaseOp {
        meter: meter.to_owned(),
        spec,
        lease: rng.u32(0..6).to_string(),
        seq: rng.u64(0..40),
        charged,
        refunded: if rng.bool() { 0 } else { rng.u64(0..200) },
        granted: if rng.bool() { 0 } else { rng.u64(0..250) },
        wanted: rng.u64(0..300),
        minimum: rng.u64(0..120),
        close: rng.u32(0..12) == 0,
        window: if rng.u32(0..4) > 0 { 0 } else { rng.u64(0..4) },
    }
}
