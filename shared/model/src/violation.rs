//! What is wrong with a resource: which field, what about it, what to do.

use std::fmt;

use crate::{name::ResourceRef, path::Path};

/// One fault in one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The resource, when it is known which.
    pub subject: Option<ResourceRef>,
    /// The field inside the resource; empty: the resource as a whole.
    pub path: Path,
    /// What is wrong. Lower case, no final stop, never a secret.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Violation {
    /// A fault of a field whose resource is filled in later.
    pub fn new(path: Path, message: impl Into<String>) -> Self {
        Self { subject: None, path, message: message.into(), hint: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the resource, if none is named yet.
    #[must_use]
    pub fn of(mut self, subject: &ResourceRef) -> Self {
        self.subject.get_or_insert_with(|| subject.clone());
        self
    }

    /// Message and hint in one sentence.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// `kind/name.field`, as far as it is known.
    pub fn location(&self) -> String {
        match &self.subject {
            Some(subject) if self.path.is_empty() => subject.to_string(),
            Some(subject) => format!("{subject}: {}", self.path),
            None => self.path.to_string(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.location();
        if location.is_empty() {
            f.write_str(&self.text())
        } else {
            write!(f, "{location}: {}", self.text())
        }
    }
}

/// Everything found wrong at once; never empty when it is an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    /// `Ok` with `value` when nothing was found.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Names the resource in every fault that names none.
    #[must_use]
    pub fn of(self, subject: &ResourceRef) -> Self {
        Self(self.0.into_iter().map(|violation| violation.of(subject)).collect())
    }
}

impl std::error::Error for Violations {}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{violation}")?;
        }
        Ok(())
    }
}

impl From<Violation> for Violations {
    fn from(violation: Violation) -> Self {
        Self(vec![violation])
    }
}
