//! Tokens of one answer.

/// What an upstream reported, or what was counted in its place. All counts are tokens; cached ones
/// are part of `input`, reasoning ones are part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub reasoning: u64,
}
