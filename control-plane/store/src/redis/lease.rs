//! Operations on leases, as the script takes and answers them.

use ::redis::Cmd;

use super::scripts::Scripts;
use crate::ledger::{
    LeaseOp, LeaseState, LeaseStatus, MeterKind, OnExpiry,
    counter::{Counting, bounded},
    meter::Phase,
};

/// Where a meter is kept: its numbers, and its leases. Both are on one server of a cluster.
pub(super) fn keys(prefix: &str, meter: &str) -> [String; 2] {
    let hash: String = blake3::hash(meter.as_bytes()).to_hex().chars().take(32).collect();
    [format!("{prefix}q:{{{hash}}}:m"), format!("{prefix}q:{{{hash}}}:l")]
}

/// Calls the script for one operation.
pub(super) fn command(prefix: &str, scripts: &Scripts, op: &LeaseOp, phase: Phase) -> Cmd {
    let op = bounded(op);
    let flag = |set: bool| if set { "1" } else { "0" };
    let phase = match phase {
        Phase::Normal => 0,
        Phase::Settling => 1,
        Phase::Recovering => 2,
    };
    let (counting, amount, interval_ms, windows) = match op.spec.kind {
        MeterKind::Bucket { amount, window_ms } => (Counting::Bucket, amount, window_ms, None),
        MeterKind::Sliding { window_ms } => (Counting::Sliding, 0, window_ms, None),
        MeterKind::Calendar { windows } => (Counting::Calendar, 0, 0, Some(windows)),
        MeterKind::Slots => (Counting::Slots, 0, 0, None),
    };
    let mut command = ::redis::cmd("EVALSHA");
    command.arg(scripts.lease.get_hash()).arg(2).arg(&keys(prefix, &op.meter));
    command.arg(&op.meter).arg(counting.letter().to_string()).arg(&op.lease);
    command.arg(flag(op.spec.on_expiry == OnExpiry::Hold)).arg(flag(op.close));
    command.arg(phase).arg(amount).arg(interval_ms).arg(op.spec.capacity).arg(op.spec.ttl_ms);
    command.arg(op.seq).arg(op.charged).arg(op.refunded).arg(op.granted).arg(op.wanted);
    command.arg(op.minimum).arg(op.window);
    for window in windows.into_iter().flatten() {
        command.arg(window.id).arg(window.start_ms).arg(window.end_ms);
    }
    command
}

/// Reads the script's answer.
pub(super) fn state(answer: &[i64]) -> Option<LeaseState> {
    let number = |at: usize| u64::try_from(*answer.get(at)?).ok();
    let status = match number(0)? {
        0 => LeaseStatus::Granted,
        1 => LeaseStatus::Partial,
        2 => LeaseStatus::Denied,
        3 => LeaseStatus::Expired,
        4 => LeaseStatus::WindowOver,
        5 => LeaseStatus::OtherWindow,
        6 => LeaseStatus::Overtaken,
        7 => LeaseStatus::Recovering,
        _ => return None,
    };
    Some(LeaseState {
        status,
        granted: number(1)?,
        used: number(2)?,
        reserved: number(3)?,
        holders: u32::try_from(number(4)?).ok()?,
        retry_ms: number(5)?,
        reset_ms: number(6)?,
        window: number(7)?,
        window_left_ms: number(8)?,
        only_reserved: number(9)? == 1,
        now_ms: number(10)?,
    })
}
