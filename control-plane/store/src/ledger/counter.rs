//! What one meter has counted, and how that changes as time goes by. No leases here, and no clock.
//!
//! Redis' scripts compute the same in the same order, with the same 64-bit floating point numbers.

use super::{CalendarWindow, LeaseOp, MAX_AMOUNT, MeterKind, MeterSpec, MeterView, OnExpiry};

pub(super) const DAY_MS: u64 = 86_400_000;
/// A time that does not come. All times, counts and sums stay at or below it.
pub(crate) const NEVER: u64 = 1 << 53;
/// What is added to the time that a meter is needed: clocks and callers may be late.
const GRACE_MS: u64 = 60_000;
/// No meter is kept longer without being asked for.
const LONGEST_MS: u64 = 400 * DAY_MS;
/// Slots come back when somebody is done, which nobody can foresee.
const SLOT_RETRY_MS: u64 = 1_000;

/// The kind of a meter, without its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Counting {
    /// Nothing was counted yet.
    #[default]
    Nothing,
    Bucket,
    Sliding,
    Calendar,
    Slots,
}

impl Counting {
    /// As it is stored.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Nothing => '-',
            Self::Bucket => 'b',
            Self::Sliding => 's',
            Self::Calendar => 'c',
            Self::Slots => 'x',
        }
    }

    pub(crate) fn from_letter(letter: char) -> Self {
        match letter {
            'b' => Self::Bucket,
            's' => Self::Sliding,
            'c' => Self::Calendar,
            'x' => Self::Slots,
            _ => Self::Nothing,
        }
    }
}

/// The numbers of a meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counter {
    pub(crate) counting: Counting,
    /// Of a bucket: what drains in an interval.
    pub(crate) amount: u64,
    /// Of a bucket and of a sliding window.
    pub(crate) interval_ms: u64,
    pub(crate) capacity: u64,
    /// Only a bucket has fractions.
    pub(crate) used: f64,
    /// Used in the window before, for a sliding one.
    pub(crate) previous: f64,
    pub(crate) reserved: u64,
    pub(crate) holders: u32,
    /// The newest time that was seen.
    pub(crate) at_ms: u64,
    /// Number of the present window, of a sliding one or a calendar.
    pub(crate) window: u64,
    /// End of the present window of a calendar.
    pub(crate) window_end_ms: u64,
    /// No lease has to be looked after before this time is over.
    pub(crate) due_ms: u64,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            counting: Counting::Nothing,
            amount: 0,
            interval_ms: 0,
            capacity: 0,
            used: 0.0,
            previous: 0.0,
            reserved: 0,
            holders: 0,
            at_ms: 0,
            window: 0,
            window_end_ms: 0,
            due_ms: NEVER,
        }
    }
}

/// What the passing of time did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rolled {
    /// The time is in none of the windows given; nothing was changed.
    OtherWindow,
    /// The leases are as they were.
    Same,
    /// A new window of a calendar has begun: the leases belong to the one before.
    NewWindow,
}

impl Counter {
    /// Takes the meter to `now_ms`, which is not before [`Counter::at_ms`], and to these rules.
    pub(super) fn roll(&mut self, now_ms: u64, spec: &MeterSpec) -> Rolled {
        let (counting, amount, interval_ms, window) = match spec.kind {
            MeterKind::Bucket { amount, window_ms } => (Counting::Bucket, amount, window_ms, None),
            MeterKind::Sliding { window_ms } => (Counting::Sliding, 0, window_ms, None),
            MeterKind::Calendar { windows } => {
                let present = windows.iter().find(|w| w.start_ms <= now_ms && now_ms < w.end_ms);
                let Some(&present) = present else { return Rolled::OtherWindow };
                (Counting::Calendar, 0, 0, Some(present))
            }
            MeterKind::Slots => (Counting::Slots, 0, 0, None),
        };
        let renumbered = counting == Counting::Sliding && interval_ms != self.interval_ms;
        if counting != self.counting || renumbered {
            (self.used, self.previous, self.window) = (0.0, 0.0, 0);
        }
        let lowered = spec.capacity < self.capacity;
        self.counting = counting;
        (self.amount, self.interval_ms, self.capacity) = (amount, interval_ms, spec.capacity);
        let rolled = self.pass(now_ms, window);
        if lowered && matches!(counting, Counting::Bucket | Counting::Sliding) {
            // What was allowed then is no debt now.
            self.used = self.used.min(spec.capacity as f64);
            self.previous = self.previous.min(spec.capacity as f64);
        }
        rolled
    }

    fn pass(&mut self, now_ms: u64, calendar: Option<CalendarWindow>) -> Rolled {
        let mut rolled = Rolled::Same;
        match self.counting {
            Counting::Bucket => {
                let elapsed = (now_ms - self.at_ms) as f64;
                let drained = self.amount as f64 * elapsed / self.interval_ms as f64;
                self.used = (self.used - drained).max(0.0);
            }
            Counting::Sliding => {
                let index = now_ms / self.interval_ms;
                if index > self.window {
                    self.previous = if index == self.window + 1 { self.used } else { 0.0 };
                    (self.used, self.window) = (0.0, index);
                }
            }
            Counting::Calendar => {
                let (id, end_ms) = calendar.map_or((0, 0), |w| (w.id, w.end_ms));
                if id > self.window {
                    (self.used, self.reserved, self.holders) = (0.0, 0, 0);
                    (self.window, self.due_ms) = (id, NEVER);
                    rolled = Rolled::NewWindow;
                }
                if id == self.window {
                    self.window_end_ms = end_ms;
                }
            }
            Counting::Nothing | Counting::Slots => {}
        }
        self.at_ms = now_ms;
        rolled
    }

    /// What still counts of the window before the present one.
    pub(super) fn weighted(&self) -> f64 {
        if self.previous > 0.0 {
            self.previous * self.interval_left() as f64 / self.interval_ms as f64
        } else {
            0.0
        }
    }

    /// Until the present window of a sliding one is over.
    fn interval_left(&self) -> u64 {
        self.interval_ms - self.at_ms % self.interval_ms
    }

    /// Until the present window of a calendar is over.
    pub(super) fn window_left(&self) -> u64 {
        if self.counting == Counting::Calendar {
            self.window_end_ms.saturating_sub(self.at_ms)
        } else {
            0
        }
    }

    /// What nobody used or reserved, with its fraction; negative when the capacity was lowered.
    pub(super) fn free(&self) -> f64 {
        self.capacity as f64 - self.weighted() - self.used - self.reserved as f64
    }

    /// Used in all, rounded up.
    pub(super) fn used_up(&self) -> u64 {
        (self.weighted() + self.used).ceil() as u64
    }

    /// Counts `amount` as used.
    pub(super) fn charge(&mut self, amount: u64) {
        self.used = (self.used + amount as f64).min(NEVER as f64);
    }

    /// Takes back what was counted as used: from the present window first.
    pub(super) fn refund(&mut self, amount: u64) {
        let amount = amount as f64;
        let beyond = (amount - self.used).max(0.0);
        self.used = (self.used - amount).max(0.0);
        if self.counting == Counting::Sliding {
            self.previous = (self.previous - beyond).max(0.0);
        }
    }

    /// Counts what was charged under a lease that this meter does not know, or no longer. Of what
    /// a rate let through, the older part has drained meanwhile.
    pub(super) fn charge_late(&mut self, amount: u64) {
        match self.counting {
            Counting::Bucket | Counting::Sliding => {
                let filled = (self.used + amount as f64).min(self.capacity as f64);
                self.used = self.used.max(filled);
            }
            Counting::Nothing | Counting::Calendar | Counting::Slots => self.charge(amount),
        }
    }

    pub(super) fn reserve(&mut self, amount: u64) {
        self.reserved = (self.reserved + amount).min(NEVER);
    }

    pub(super) fn release(&mut self, amount: u64) {
        self.reserved = self.reserved.saturating_sub(amount);
    }

    /// Until `amount` is free if no reservation is given back.
    pub(super) fn retry_ms(&self, amount: u64) -> u64 {
        let missing = amount as f64 - self.free();
        if missing <= 0.0 {
            return 0;
        }
        match self.counting {
            Counting::Bucket => {
                at_most_never((missing * self.interval_ms as f64 / self.amount as f64).ceil())
            }
            Counting::Sliding => self.sliding_retry_ms(amount as f64, missing),
            Counting::Calendar => self.window_left(),
            Counting::Nothing | Counting::Slots => SLOT_RETRY_MS,
        }
    }

    /// The window before fades until the present one is over; then the present one fades.
    fn sliding_retry_ms(&self, amount: f64, missing: f64) -> u64 {
        let interval = self.interval_ms as f64;
        if missing <= self.weighted() {
            return at_most_never((missing * interval / self.previous).ceil());
        }
        let room = self.capacity as f64 - self.reserved as f64 - amount;
        let fades = if self.used <= room {
            0.0
        } else if room < 0.0 {
            interval
        } else {
            (interval * (1.0 - room / self.used)).ceil()
        };
        at_most_never(self.interval_left() as f64 + fades)
    }

    /// Until nothing is used if no more is charged.
    pub(super) fn reset_ms(&self) -> u64 {
        match self.counting {
            Counting::Bucket => {
                at_most_never((self.used * self.interval_ms as f64 / self.amount as f64).ceil())
            }
            Counting::Sliding if self.used > 0.0 => self.interval_left() + self.interval_ms,
            Counting::Sliding if self.previous > 0.0 => self.interval_left(),
            Counting::Calendar => self.window_left(),
            Counting::Nothing | Counting::Sliding | Counting::Slots => 0,
        }
    }

    /// How long the meter has to be kept if it is not asked for again.
    pub(super) fn keep_ms(&self, spec: &MeterSpec) -> u64 {
        let settles = 2 * spec.ttl_ms + GRACE_MS;
        let keep = match self.counting {
            Counting::Bucket => self.reset_ms() + settles,
            Counting::Sliding => 2 * self.interval_ms + settles,
            Counting::Calendar => self.window_left() + spec.ttl_ms + DAY_MS,
            Counting::Nothing | Counting::Slots => settles,
        };
        let held = if spec.on_expiry == OnExpiry::Hold { DAY_MS + settles } else { 0 };
        keep.max(held).min(LONGEST_MS)
    }

    /// As people are to see it at `now_ms`.
    pub(crate) fn view(&self, meter: &str, now_ms: u64) -> MeterView {
        let mut then = *self;
        let now_ms = now_ms.max(self.at_ms);
        let over = self.counting == Counting::Calendar && now_ms >= self.window_end_ms;
        if over {
            (then.used, then.reserved, then.holders) = (0.0, 0, 0);
        }
        let calendar = CalendarWindow { id: self.window, start_ms: 0, end_ms: self.window_end_ms };
        then.pass(now_ms, Some(calendar));
        MeterView {
            meter: meter.to_owned(),
            capacity: then.capacity,
            used: then.used_up(),
            reserved: then.reserved,
            holders: then.holders,
            reset_ms: then.reset_ms(),
        }
    }
}

/// A time in milliseconds, whole and not negative.
fn at_most_never(ms: f64) -> u64 {
    ms.min(NEVER as f64) as u64
}

/// The operation with every number in the range that is counted exactly. Larger amounts count as
/// the largest one, and intervals of nothing as the shortest.
pub(crate) fn bounded(op: &LeaseOp) -> LeaseOp {
    let time = |ms: u64| ms.min(MAX_AMOUNT);
    let kind = match op.spec.kind {
        MeterKind::Bucket { amount, window_ms } => MeterKind::Bucket {
            amount: amount.clamp(1, MAX_AMOUNT),
            window_ms: window_ms.clamp(1, LONGEST_MS),
        },
        MeterKind::Sliding { window_ms } => {
            MeterKind::Sliding { window_ms: window_ms.clamp(1, LONGEST_MS) }
        }
        MeterKind::Calendar { windows } => MeterKind::Calendar {
            windows: windows.map(|w| CalendarWindow {
                id: w.id.clamp(1, MAX_AMOUNT),
                start_ms: time(w.start_ms),
                end_ms: time(w.end_ms),
            }),
        },
        MeterKind::Slots => MeterKind::Slots,
    };
    // A slot is in use or it is not.
    let charged = if kind == MeterKind::Slots { 0 } else { op.charged.min(MAX_AMOUNT) };
    LeaseOp {
        meter: op.meter.clone(),
        spec: MeterSpec {
            kind,
            capacity: op.spec.capacity.min(MAX_AMOUNT),
            on_expiry: op.spec.on_expiry,
            ttl_ms: op.spec.ttl_ms.min(LONGEST_MS),
        },
        lease: op.lease.clone(),
        seq: op.seq.min(MAX_AMOUNT),
        charged,
        refunded: op.refunded.min(charged),
        granted: op.granted.min(MAX_AMOUNT),
        wanted: op.wanted.min(MAX_AMOUNT),
        minimum: op.minimum.min(MAX_AMOUNT),
        close: op.close,
        window: op.window.min(MAX_AMOUNT),
    }
}
