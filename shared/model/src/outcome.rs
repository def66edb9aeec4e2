//! What became of one attempt: whose fault it was and whether another place may do better.

/// The result of one attempt at one target, read off status, body, stream and transport together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A whole answer with proof: a finish reason or a terminal event.
    Success,
    /// The upstream's limit on us; it may serve again after a wait.
    RateLimited,
    /// The upstream lacks capacity; the key is innocent.
    Overloaded,
    /// No credit or quota is left on the key.
    QuotaExhausted,
    /// The upstream refused our key.
    KeyRefused,
    /// The key may not do this; another may.
    PermissionDenied,
    /// The upstream does not know the model, or not for this key.
    ModelMissing,
    /// The caller's request is wrong; it would be wrong everywhere.
    InvalidRequest,
    /// The prompt does not fit the model's window.
    ContextTooLong,
    /// A content policy stopped the request.
    ContentFiltered,
    /// The upstream failed, or answered what no client can use.
    ProviderError,
    /// No connection, or it broke before an answer.
    Network,
    /// A clock ran out before an answer.
    Timeout,
    /// The answer broke off after bytes had reached the caller.
    StreamInterrupted,
    /// The stream ended in order but never said why: neither finish reason nor error.
    NoFinishReason,
    /// The caller left.
    ClientCancelled,
}

/// Whose fault an outcome is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    Nobody,
    Caller,
    Credential,
    Upstream,
}

impl Outcome {
    /// All outcomes, for metrics.
    pub const ALL: [Self; 16] = [
        Self::Success,
        Self::RateLimited,
        Self::Overloaded,
        Self::QuotaExhausted,
        Self::KeyRefused,
        Self::PermissionDenied,
        Self::ModelMissing,
        Self::InvalidRequest,
        Self::ContextTooLong,
        Self::ContentFiltered,
        Self::ProviderError,
        Self::Network,
        Self::Timeout,
        Self::StreamInterrupted,
        Self::NoFinishReason,
        Self::ClientCancelled,
    ];

    /// Stable name for logs, records and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::QuotaExhausted => "quota_exhausted",
            Self::KeyRefused => "key_refused",
            Self::PermissionDenied => "permission_denied",
            Self::ModelMissing => "model_missing",
            Self::InvalidRequest => "invalid_request",
            Self::ContextTooLong => "context_too_long",
            Self::ContentFiltered => "content_filtered",
            Self::ProviderError => "provider_error",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::StreamInterrupted => "stream_interrupted",
            Self::NoFinishReason => "no_finish_reason",
            Self::ClientCancelled => "client_cancelled",
        }
    }

    /// Whose fault it is.
    pub fn blame(self) -> Blame {
        match self {
            Self::Success => Blame::Nobody,
            Self::InvalidRequest
            | Self::ContextTooLong
            | Self::ContentFiltered
            | Self::ClientCancelled => Blame::Caller,
            Self::RateLimited
            | Self::QuotaExhausted
            | Self::KeyRefused
            | Self::PermissionDenied
            | Self::ModelMissing => Blame::Credential,
            Self::Overloaded
            | Self::ProviderError
            | Self::Network
            | Self::Timeout
            | Self::StreamInterrupted
            | Self::NoFinishReason => Blame::Upstream,
        }
    }

    /// May another target or key do better, provided that nothing has reached the caller yet?
    pub fn may_fail_over(self) -> bool {
        matches!(self.blame(), Blame::Credential | Blame::Upstream)
    }
}
