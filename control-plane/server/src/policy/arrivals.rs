//! How many data planes come at one time.
//!
//! When a replica goes, or all start, a fleet comes at once, and each wants a whole state. They are let in at a
//! bounded rate; the others are told at once when to come back, each at another time. The generic cell rate
//! algorithm (ITU-T I.371), with a second clock for those who were sent away.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Streams that begin in a second, and how many at once.
const EACH_SECOND: u32 = 50;
const AT_ONCE: u32 = 100;
/// Nobody is sent away for longer.
const LONGEST: Duration = Duration::from_secs(10);

/// The door for policy streams.
#[derive(Debug)]
pub(crate) struct Arrivals(Mutex<Clocks>);

#[derive(Debug, Clone, Copy)]
struct Clocks {
    /// When those who were let in would have come, one after the other.
    let_in: Instant,
    /// When those who were sent away were told to come back.
    promised: Instant,
}

impl Default for Arrivals {
    fn default() -> Self {
        let now = Instant::now();
        Self(Mutex::new(Clocks { let_in: now, promised: now }))
    }
}

impl Arrivals {
    /// May one more come in?
    ///
    /// # Errors
    /// When to come back.
    pub(crate) fn admit(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let each = Duration::from_secs(1) / EACH_SECOND;
        let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = clocks.let_in.max(now);
        if next <= now + each * (AT_ONCE - 1) {
            clocks.let_in = next + each;
            return Ok(());
        }
        // Those who come back find room again by then, behind those who were told so before.
        let back = clocks.promised.max(now) + each;
        if back > now + LONGEST {
            // Beyond that, no order is kept; but they need not come together.
            return Err(LONGEST.mul_f64(0.5 + fastrand::f64() / 2.0));
        }
        clocks.promised = back;
        Err(back - now)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn d2_a_storm_is_let_in_at_a_bounded_rate_and_all_come_in_as_they_are_told() {
        let door = Arrivals::default();
        let begun = Instant::now();
        let mut waiting: Vec<Instant> = vec![begun; 400];
        let mut tries = 0;
        let mut at_once = 0;
        while !waiting.is_empty() {
            let mut later = Vec::new();
            for at in std::mem::take(&mut waiting) {
                if at > Instant::now() {
                    later.push(at);
                    continue;
                }
                tries += 1;
                match door.admit() {
                    Ok(()) => at_once += usize::from(begun.elapsed().is_zero()),
                    Err(wait) => later.push(Instant::now() + wait),
                }
            }
            waiting = later;
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(at_once, 100);
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(5_900), "300 at 50 a second, but after {took:?}");
        assert!(took < Duration::from_secs(9), "after {took:?}");
        assert!(tries < 1_000, "{tries} tries of 400");
        advance(Duration::from_secs(2)).await;
        assert!((0..100).all(|_| door.admit().is_ok()), "after a quiet time all is as at first");
        assert!(door.admit().unwrap_err() <= LONGEST);
    }
}
