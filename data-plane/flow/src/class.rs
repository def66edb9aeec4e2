//! How urgent a request is.

/// Urgency, the most urgent first. It comes from policy; a caller may at most lower it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Class {
    /// What must go even when little goes.
    Critical,
    /// Somebody is waiting for it.
    Interactive,
    #[default]
    Default,
    /// Nobody is waiting for it.
    Batch,
}

impl Class {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::Interactive, Self::Default, Self::Batch];

    /// Its name in logs, metrics and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Interactive => "interactive",
            Self::Default => "default",
            Self::Batch => "batch",
        }
    }
}
