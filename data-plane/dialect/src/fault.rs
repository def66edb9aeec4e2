//! A failed attempt, understood: what it was, what it says, how long to wait.

use std::time::Duration;

use sluicegate_model::Outcome;

/// What an upstream's failure means. Whoever shows `message` to a caller passes it through
/// [`crate::redact::message`] first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub outcome: Outcome,
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
    /// Whom it concerns.
    pub level: Level,
}

/// Whom a failure concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The key with this model.
    Pair,
    /// The key, whatever the model.
    Key,
    /// Every key of the account.
    Account,
    /// No key.
    Nobody,
}

impl Level {
    /// Whom an outcome concerns where nothing more is known.
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

impl Fault {
    /// A fault without words of the upstream's.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            status: None,
            message: Some(message.into()),
            code: None,
            param: None,
            wait: None,
            level: Level::of(outcome),
        }
    }
}
