//! Time that goes on in suspend and can be compared after a restart of the process.

use std::{fs, sync::LazyLock};

use nix::time::{ClockId, clock_gettime};
use sluicegate_telemetry::clock;

/// Where Linux says which boot this is.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// This boot of the machine as the kernel names it; empty when it does not say.
pub fn boot_id() -> &'static str {
    static ID: LazyLock<String> = LazyLock::new(|| {
        fs::read_to_string(BOOT_ID_FILE).map(|text| text.trim().to_owned()).unwrap_or_default()
    });
    &ID
}

/// [`boot_id`] as a number; 0 when it is not known.
fn boot_tag() -> u64 {
    static TAG: LazyLock<u64> = LazyLock::new(|| {
        let digits: String = boot_id().chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    });
    *TAG
}

/// Milliseconds since the machine booted, those in suspend included.
pub fn boottime_ms() -> u64 {
    let since_boot = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every Linux has this clock");
    let whole = u64::try_from(since_boot.tv_sec()).unwrap_or(0).saturating_mul(1000);
    whole.saturating_add(u64::try_from(since_boot.tv_nsec()).unwrap_or(0) / 1_000_000)
}

/// A point in time that means something to another process on the same disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Which boot of the machine; 0 when it is not known.
    pub boot: u64,
    /// Milliseconds since that boot.
    pub boot_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
}

impl Moment {
    /// The present.
    pub fn now() -> Self {
        Self { boot: boot_tag(), boot_ms: boottime_ms(), wall_ms: clock::unix_ms() }
    }

    /// Milliseconds from `earlier` to this moment, never negative. Within one boot nobody who sets
    /// the clock has a say in it; over a reboot only the wall clock can tell.
    pub fn since(self, earlier: Self) -> u64 {
        if self.boot == earlier.boot && self.boot != 0 {
            self.boot_ms.saturating_sub(earlier.boot_ms)
        } else {
            self.wall_ms.saturating_sub(earlier.wall_ms)
        }
    }

    /// The moment this many milliseconds later.
    #[must_use]
    pub fn after(self, ms: u64) -> Self {
        Self {
            boot: self.boot,
            boot_ms: self.boot_ms.saturating_add(ms),
            wall_ms: self.wall_ms.saturating_add(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d4_age_goes_by_the_boot_clock_and_by_the_wall_clock_over_a_reboot() {
        let then = Moment { boot: 7, boot_ms: 5_000, wall_ms: 100_000 };
        let stepped = Moment { boot: 7, boot_ms: 6_000, wall_ms: 20 };
        assert_eq!(stepped.since(then), 1_000, "the wall clock was set back meanwhile");
        let rebooted = Moment { boot: 8, boot_ms: 10, wall_ms: 103_000 };
        assert_eq!(rebooted.since(then), 3_000);
        assert_eq!(then.since(rebooted), 0, "never negative");
        let unknown = Moment { boot: 0, boot_ms: 1, wall_ms: 9 };
        assert_eq!(Moment { boot: 0, boot_ms: 99, wall_ms: 10 }.since(unknown), 1);
    }

    #[test]
    fn the_present_moves_on() {
        let (first, second) = (Moment::now(), Moment::now());
        assert_eq!(first.boot, second.boot);
        assert!(second.boot_ms >= first.boot_ms && first.boot_ms > 0);
        assert_eq!(boot_id().len(), 36, "{:?}", boot_id());
    }
}
