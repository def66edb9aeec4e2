//! What a running fake knows: its keys, how they stand, and how fast it talks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Dialect;
use super::ernie::Tokens;
use super::rows::{self, ErrorRow, Meaning};

/// How a provider treats a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    Good,
    /// Unknown, revoked or disabled.
    Refused,
    /// Over its rate for now.
    Limited,
    /// Without money or quota.
    Exhausted,
}

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) dialect: Dialect,
    /// The pause between the events of a stream.
    pub(super) pace: Duration,
    /// Access tokens that were given out.
    pub(super) tokens: Tokens,
    keys: Mutex<Vec<(String, KeyState)>>,
}

impl Scene {
    pub(super) fn new(
        dialect: Dialect,
        keys: Vec<String>,
        pace: Duration,
        token_life: Duration,
    ) -> Self {
        let keys = keys.into_iter().map(|key| (key, KeyState::Good)).collect();
        Self { dialect, pace, tokens: Tokens::new(token_life), keys: Mutex::new(keys) }
    }

    pub(super) fn first_key(&self) -> String {
        self.keys(|keys| keys.first().map(|(key, _)| key.clone())).unwrap_or_default()
    }

    pub(super) fn set_key(&self, key: &str, state: KeyState) {
        self.keys(|keys| {
            keys.retain(|(known, _)| known != key);
            keys.push((key.to_owned(), state));
        });
    }

    /// How that key stands; one nobody knows is refused.
    pub(super) fn state(&self, key: &str) -> KeyState {
        let known = self.keys(|keys| keys.iter().find(|(k, _)| k == key).map(|(_, state)| *state));
        known.unwrap_or(KeyState::Refused)
    }

    /// Whether there is a key, other than a refused one, that `select` accepts.
    pub(super) fn knows(&self, select: impl Fn(&str) -> bool) -> bool {
        let good = |(key, state): &(String, KeyState)| *state != KeyState::Refused && select(key);
        self.keys(|keys| keys.iter().any(good))
    }

    /// The error a call with that key gets; `None` if it may pass.
    pub(super) fn turns_away(&self, key: Option<&str>) -> Option<&'static ErrorRow> {
        self.row_of(key.map_or(KeyState::Refused, |key| self.state(key)))
    }

    /// The error that a key in such a state gets: the first row with that meaning.
    pub(super) fn row_of(&self, state: KeyState) -> Option<&'static ErrorRow> {
        let meaning = match state {
            KeyState::Good => return None,
            KeyState::Refused => Meaning::AuthFailed,
            KeyState::Limited => Meaning::RateLimited,
            KeyState::Exhausted => Meaning::QuotaExhausted,
        };
        rows::first_of(self.dialect, meaning)
    }

    fn keys<T>(&self, act: impl FnOnce(&mut Vec<(String, KeyState)>) -> T) -> T {
        act(&mut self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
