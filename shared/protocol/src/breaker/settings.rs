//! When a breaker opens and how it closes again: numbers that are checked once.

use std::ops::Deref;

use super::Counts;

/// Longest window. Milliseconds.
const MAX_WINDOW_MS: u64 = 600_000;
/// Longest of all other times. Milliseconds.
const MAX_TIME_MS: u64 = 86_400_000;
/// Most failure rates of one breaker.
const MAX_RATES: usize = 8;
/// Most slow calls in a row that can be asked for: their times are kept.
const MAX_IN_A_ROW: u32 = 1_000;

/// When a breaker opens and how it closes again. Windows are counted in whole seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// It opens for an operator only.
    pub off: bool,
    /// So many calls in a row that fail before their first event open it; 0: they do not.
    pub failures_in_a_row: u32,
    /// Any of these opens it.
    pub failure_rates: Vec<Rate>,
    pub slow_after: SlowAfter,
    /// Such a share of calls with a slow first event opens it.
    pub slow_rate: Option<Rate>,
    pub slow_in_a_row: Count,
    /// So many streams that stall, if they are such a share of all calls, open it.
    pub stalls: Option<Stalls>,
    /// So many calls that run out of memory open it.
    pub memory_errors: Count,
    /// One word of a dead engine opens it: every later call would fail.
    pub engine_dead: bool,
    /// How long it is open the first time; each time that follows doubles it.
    pub open_ms: u64,
    /// The longest it is open, before a spread of a fifth.
    pub max_open_ms: u64,
    /// A probe that has no first event after this time has failed.
    pub probe_ms: u64,
    pub ramp: Ramp,
}

/// A share of the calls of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub window_ms: u64,
    /// Above 0, at most 1.
    pub ratio: f64,
    /// With fewer calls in the window nothing is concluded.
    pub min_requests: u32,
}

/// So many within a window; a count of 0 means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub window_ms: u64,
    pub count: u32,
}

/// Streams that stall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stalls {
    pub window_ms: u64,
    pub count: u32,
    /// Above 0, at most 1.
    pub ratio: f64,
}

/// When a first event is slow. Total time says nothing: it grows with the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowAfter {
    pub base_ms: u64,
    /// More for each 1000 tokens of the prompt.
    pub per_1k_prompt_tokens_ms: u64,
}

/// How traffic comes back: 10, 25, 50 percent, then all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// How long each step lasts at least.
    pub step_ms: u64,
    /// The next step needs a smaller share of failures than this.
    pub max_failure_ratio: f64,
    /// The next step needs a smaller share of slow calls than this.
    pub max_slow_ratio: f64,
    /// A larger share of failures than this opens it again.
    pub reopen_ratio: f64,
}

impl Ramp {
    /// Does what was seen let more traffic come back? Calls of which nothing is known yet do not.
    pub(super) fn goes_on(&self, counts: &Counts) -> bool {
        !counts.is_pending()
            && counts.failure_ratio() < self.max_failure_ratio
            && counts.slow_ratio() < self.max_slow_ratio
    }
}

/// The shares of traffic of a ramp, in percent. What follows the last is all.
pub(super) const RAMP: [u8; 3] = [10, 25, 50];

impl Default for Settings {
    fn default() -> Self {
        Self {
            off: false,
            failures_in_a_row: 5,
            failure_rates: vec![
                Rate { window_ms: 10_000, ratio: 0.5, min_requests: 20 },
                Rate { window_ms: 60_000, ratio: 0.25, min_requests: 100 },
            ],
            slow_after: SlowAfter { base_ms: 10_000, per_1k_prompt_tokens_ms: 1_000 },
            slow_rate: Some(Rate { window_ms: 10_000, ratio: 0.6, min_requests: 20 }),
            slow_in_a_row: Count { window_ms: 15_000, count: 0 },
            stalls: Some(Stalls { window_ms: 60_000, count: 3, ratio: 0.2 }),
            memory_errors: Count { window_ms: 30_000, count: 2 },
            engine_dead: true,
            open_ms: 5_000,
            max_open_ms: 120_000,
            probe_ms: 15_000,
            ramp: Ramp {
                step_ms: 5_000,
                max_failure_ratio: 0.1,
                max_slow_ratio: 0.2,
                reopen_ratio: 0.3,
            },
        }
    }
}

/// A setting with which a breaker would not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{field} must be above 0 and at most 1")]
    Ratio { field: String },
    #[error("{field} must be from 1 ms to 10 minutes")]
    Window { field: String },
    #[error("{field} must be from 1 ms to one day")]
    Time { field: &'static str },
    #[error("{field} must not be 0")]
    Zero { field: String },
    #[error("max_open_ms ({max_open_ms}) must not be below open_ms ({open_ms})")]
    OpenTimes { open_ms: u64, max_open_ms: u64 },
    #[error("ramp.reopen_ratio must not be below ramp.max_failure_ratio")]
    RampRatios,
    #[error("{field} may hold at most {most}")]
    TooMany { field: &'static str, most: usize },
    #[error("nothing would ever open the breaker; set a condition, or off")]
    NeverOpens,
}

/// Settings with which a breaker opens and closes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules(Settings);

impl Deref for Rules {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.0
    }
}

impl Settings {
    /// Makes rules of them.
    ///
    /// # Errors
    /// A number with which the breaker would not work; names its field.
    pub fn checked(self) -> Result<Rules, SettingsError> {
        for (index, rate) in self.failure_rates.iter().enumerate() {
            rate.check(&format!("failure_rates[{index}]"))?;
        }
        if self.failure_rates.len() > MAX_RATES {
            return Err(SettingsError::TooMany { field: "failure_rates", most: MAX_RATES });
        }
        // No first event comes in no time: every probe would be slow, and the breaker stay open.
        time("slow_after.base_ms", self.slow_after.base_ms)?;
        if self.slow_after.per_1k_prompt_tokens_ms > MAX_TIME_MS {
            return Err(SettingsError::Time { field: "slow_after.per_1k_prompt_tokens_ms" });
        }
        if let Some(rate) = &self.slow_rate {
            rate.check("slow_rate")?;
        }
        window("slow_in_a_row", self.slow_in_a_row.window_ms)?;
        if self.slow_in_a_row.count > MAX_IN_A_ROW {
            let most = MAX_IN_A_ROW as usize;
            return Err(SettingsError::TooMany { field: "slow_in_a_row.count", most });
        }
        if let Some(stalls) = &self.stalls {
            let rate = Rate {
                window_ms: stalls.window_ms,
                ratio: stalls.ratio,
                min_requests: stalls.count,
            };
            rate.check("stalls")?;
        }
        window("memory_errors", self.memory_errors.window_ms)?;
        time("open_ms", self.open_ms)?;
        time("max_open_ms", self.max_open_ms)?;
        if self.max_open_ms < self.open_ms {
            let (open_ms, max_open_ms) = (self.open_ms, self.max_open_ms);
            return Err(SettingsError::OpenTimes { open_ms, max_open_ms });
        }
        window("probe_ms", self.probe_ms)?;
        window("ramp.step_ms", self.ramp.step_ms)?;
        ratio("ramp.max_failure_ratio", self.ramp.max_failure_ratio)?;
        ratio("ramp.max_slow_ratio", self.ramp.max_slow_ratio)?;
        ratio("ramp.reopen_ratio", self.ramp.reopen_ratio)?;
        if self.ramp.reopen_ratio < self.ramp.max_failure_ratio {
            return Err(SettingsError::RampRatios);
        }
        if !self.off && !self.can_open() {
            return Err(SettingsError::NeverOpens);
        }
        Ok(Rules(self))
    }

    fn can_open(&self) -> bool {
        self.failures_in_a_row > 0
            || !self.failure_rates.is_empty()
            || self.slow_rate.is_some()
            || self.slow_in_a_row.count > 0
            || self.stalls.is_some()
            || self.memory_errors.count > 0
            || self.engine_dead
    }

    /// The longest window that is looked at. Milliseconds.
    pub(super) fn longest_window_ms(&self) -> u64 {
        let rates = self.failure_rates.iter().chain(&self.slow_rate).map(|rate| rate.window_ms);
        let others = [
            self.stalls.map_or(0, |stalls| stalls.window_ms),
            self.memory_errors.window_ms,
            self.slow_in_a_row.window_ms,
            self.ramp.step_ms,
        ];
        rates.chain(others).max().unwrap_or(0).min(MAX_WINDOW_MS)
    }
}

impl Rate {
    fn check(&self, field: &str) -> Result<(), SettingsError> {
        window(field, self.window_ms)?;
        ratio(&format!("{field}.ratio"), self.ratio)?;
        if self.min_requests == 0 {
            return Err(SettingsError::Zero { field: format!("{field}'s count") });
        }
        Ok(())
    }
}

fn ratio(field: &str, ratio: f64) -> Result<(), SettingsError> {
    if ratio > 0.0 && ratio <= 1.0 {
        return Ok(());
    }
    Err(SettingsError::Ratio { field: field.to_owned() })
}

fn window(field: &str, window_ms: u64) -> Result<(), SettingsError> {
    if (1..=MAX_WINDOW_MS).contains(&window_ms) {
        return Ok(());
    }
    let field =
        if field.ends_with("_ms") { field.to_owned() } else { format!("{field}.window_ms") };
    Err(SettingsError::Window { field })
}

fn time(field: &'static str, time_ms: u64) -> Result<(), SettingsError> {
    if (1..=MAX_TIME_MS).contains(&time_ms) {
        return Ok(());
    }
    Err(SettingsError::Time { field })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_settings_that_would_not_work_are_refused_by_name() {
        type Spoil = fn(&mut Settings);
        let rows: [(Spoil, &str); 19] = [
            (|s| s.failure_rates[1].ratio = 0.0, "failure_rates[1].ratio"),
            (|s| s.failure_rates[0].ratio = f64::NAN, "failure_rates[0].ratio"),
            (|s| s.failure_rates[0].min_requests = 0, "failure_rates[0]"),
            (|s| s.failure_rates[0].window_ms = 0, "failure_rates[0].window_ms"),
            (|s| s.failure_rates[0].window_ms = 600_001, "failure_rates[0].window_ms"),
            (|s| s.failure_rates = vec![s.failure_rates[0]; 9], "failure_rates"),
            (|s| s.slow_after.base_ms = 0, "slow_after.base_ms"),
            (|s| s.slow_after.per_1k_prompt_tokens_ms = u64::MAX, "slow_after.per_1k"),
            (|s| s.slow_rate.as_mut().unwrap().ratio = 1.01, "slow_rate.ratio"),
            (|s| s.slow_in_a_row.window_ms = 0, "slow_in_a_row.window_ms"),
            (|s| s.slow_in_a_row.count = u32::MAX, "slow_in_a_row.count"),
            (|s| s.stalls.as_mut().unwrap().ratio = -0.1, "stalls.ratio"),
            (|s| s.memory_errors.window_ms = u64::MAX, "memory_errors.window_ms"),
            (|s| s.open_ms = 0, "open_ms"),
            (|s| s.max_open_ms = 4_999, "max_open_ms"),
            (|s| s.probe_ms = 0, "probe_ms"),
            (|s| s.ramp.max_failure_ratio = 0.0, "ramp.max_failure_ratio"),
            (|s| s.ramp.max_slow_ratio = 0.0, "ramp.max_slow_ratio"),
            (|s| s.ramp.reopen_ratio = 0.05, "ramp.reopen_ratio"),
        ];
        for (spoil, field) in rows {
            let mut settings = Settings::default();
            spoil(&mut settings);
            let error = settings.checked().expect_err(field).to_string();
            assert!(error.starts_with(field), "{field}: {error}");
        }
        Settings::default().checked().unwrap();
    }

    #[test]
    fn b1_a_breaker_that_never_opens_says_so() {
        let never = Settings {
            failures_in_a_row: 0,
            failure_rates: vec![],
            slow_rate: None,
            stalls: None,
            memory_errors: Count { window_ms: 1, count: 0 },
            engine_dead: false,
            ..Settings::default()
        };
        assert_eq!(never.clone().checked(), Err(SettingsError::NeverOpens));
        Settings { off: true, ..never.clone() }.checked().unwrap();
        Settings { engine_dead: true, ..never }.checked().unwrap();
    }
}
