//! A failed attempt, understood: what it was, whom it concerns, what it says, how long to wait.

use std::time::Duration;

use sluicegate_model::Outcome;

/// Whom a failure concerns among the keys of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// This key with this model.
    Pair,
    /// This key with every model.
    Key,
    /// Every key of this key's account.
    Account,
    /// No key: the place, the request or the way there.
    Nobody,
}

impl Level {
    /// Whom an outcome concerns where nothing says more.
    pub fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::RateLimited | Outcome::PermissionDenied | Outcome::ModelMissing => Self::Pair,
            Outcome::QuotaExhausted | Outcome::KeyRefused => Self::Key,
            Outcome::Success
            | Outcome::Overloaded
            | Outcome::InvalidRequest
            | Outcome::ContextTooLong
            | Outcome::ContentFiltered
            | Outcome::ProviderError
            | Outcome::Network
            | Outcome::Timeout
            | Outcome::StreamInterrupted
            | Outcome::NoFinishReason
            | Outcome::ClientCancelled => Self::Nobody,
        }
    }
}

/// What an upstream's failure means. Whoever shows `message` to a caller passes it through
/// [`crate::redact::message`] first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub outcome: Outcome,
    pub level: Level,
    /// The upstream's HTTP status, when one came.
    pub status: Option<u16>,
    /// The upstream's words, as they were.
    pub message: Option<String>,
    /// The upstream's error code or type.
    pub code: Option<String>,
    /// The request member that the upstream blames.
    pub param: Option<String>,
    /// How long the upstream asks us to wait.
    pub wait: Option<Duration>,
    /// The upstream's own word on whether to try again (`x-should-retry`).
    pub should_retry: Option<bool>,
    /// The upstream cannot have seen the request: nothing of it was sent.
    pub unsent: bool,
}

impl Fault {
    /// A fault without words of the upstream's.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            level: Level::of(outcome),
            status: None,
            message: Some(message.into()),
            code: None,
            param: None,
            wait: None,
            should_retry: None,
            unsent: false,
        }
    }
}
