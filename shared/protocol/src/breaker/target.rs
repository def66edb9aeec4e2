//! What one breaker stands for.

use std::fmt;

/// Longest name of a provider or a model, in bytes.
const MAX_NAME: usize = 1_024;

/// A provider with one of its models: what a breaker opens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    pub provider: String,
    /// Model name that is sent upstream.
    pub model: String,
}

/// Names that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("names must have 1 to {MAX_NAME} bytes and no control characters")]
pub struct InvalidName;

impl TargetKey {
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }

    /// Itself, if its names can be kept.
    ///
    /// # Errors
    /// A name is empty, too long, or holds control characters.
    pub fn checked(self) -> Result<Self, InvalidName> {
        check(&self.provider)?;
        check(&self.model)?;
        Ok(self)
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Can the name be kept?
pub(super) fn check(name: &str) -> Result<(), InvalidName> {
    let good = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    if good { Ok(()) } else { Err(InvalidName) }
}
