//! The form of an error table: rows that say what a code means at one provider.

use std::time::Duration;

use sluicegate_model::Outcome;

use super::Stated;
use crate::{fault::Level, wait::Until};

/// How one provider says what went wrong.
#[derive(Debug)]
pub struct Errors {
    /// Asked from the top; the first that fits decides.
    pub rows: &'static [Row],
    /// In what form its reset headers are.
    pub resets: Resets,
}

/// The form of headers that tell when a limit begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resets {
    /// None, or none that can be used.
    None,
    /// `x-ratelimit-reset-*` as Go duration text.
    GoDuration,
    /// `x-ratelimit-reset-*` in whole seconds.
    Seconds,
    /// `anthropic-ratelimit-*-reset` as RFC 3339 times, `-unified-reset` in seconds of Unix time.
    Anthropic,
}

/// One documented error.
#[derive(Debug)]
pub struct Row {
    status: Option<u16>,
    code: Is,
    kind: Option<&'static str>,
    detail: Option<&'static str>,
    /// All of these stand in the message, whatever their case.
    words: &'static [&'static str],
    pub(super) outcome: Outcome,
    pub(super) level: Option<Level>,
    /// Rest where the provider names no time.
    pub(super) rest: Option<Duration>,
    /// A point of the calendar at which it ends.
    pub(super) until: Option<Until>,
}

#[derive(Debug)]
enum Is {
    Any,
    /// The code, or failing one the type, is exactly this.
    Exactly(&'static str),
    /// The code begins with this and a dot, or is this.
    Under(&'static str),
}

/// A row for one code. It is looked for in `code`, then in `type`, then among the details.
pub const fn code(code: &'static str) -> Row {
    Row { code: Is::Exactly(code), ..any() }
}

/// A row for a family of dotted codes.
pub const fn prefix(code: &'static str) -> Row {
    Row { code: Is::Under(code), ..any() }
}

/// A row for any code, to be narrowed.
pub const fn any() -> Row {
    Row {
        status: None,
        code: Is::Any,
        kind: None,
        detail: None,
        words: &[],
        outcome: Outcome::ProviderError,
        level: None,
        rest: None,
        until: None,
    }
}

impl Row {
    /// Only with this HTTP status.
    #[must_use]
    pub const fn at(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Only with this `type`.
    #[must_use]
    pub const fn kind(self, kind: &'static str) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Only if one of the error's details holds this text.
    #[must_use]
    pub const fn detail(self, detail: &'static str) -> Self {
        Self { detail: Some(detail), ..self }
    }

    /// Only if the message holds all of these words, whatever their case.
    #[must_use]
    pub const fn saying(self, words: &'static [&'static str]) -> Self {
        Self { words, ..self }
    }

    /// What it means.
    #[must_use]
    pub const fn means(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    /// Whom it concerns, where that is not what the outcome says.
    #[must_use]
    pub const fn of(self, level: Level) -> Self {
        Self { level: Some(level), ..self }
    }

    /// How long to rest where the provider names no time. Seconds.
    #[must_use]
    pub const fn rest_s(self, seconds: u64) -> Self {
        Self { rest: Some(Duration::from_secs(seconds)), ..self }
    }

    /// It ends at this point of the calendar, unless the provider names another time.
    #[must_use]
    pub const fn until(self, until: Until) -> Self {
        Self { until: Some(until), ..self }
    }

    pub(super) fn fits(&self, status: u16, stated: &Stated) -> bool {
        let is = |text: &Option<String>, wanted: &str| text.as_deref() == Some(wanted);
        let under = |text: &Option<String>, wanted: &str| {
            text.as_deref()
                .and_then(|text| text.strip_prefix(wanted))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let code = match self.code {
            Is::Any => true,
            Is::Exactly(wanted) => {
                is(&stated.code, wanted)
                    || is(&stated.kind, wanted)
                    || stated.details.iter().any(|detail| detail == wanted)
            }
            Is::Under(wanted) => under(&stated.code, wanted) || under(&stated.kind, wanted),
        };
        let message = || stated.message.as_deref().unwrap_or_default().to_lowercase();
        code && self.status.is_none_or(|wanted| wanted == status)
            && self.kind.is_none_or(|wanted| is(&stated.kind, wanted))
            && self
                .detail
                .is_none_or(|wanted| stated.details.iter().any(|detail| detail.contains(wanted)))
            && (self.words.is_empty() || {
                let message = message();
                self.words.iter().all(|word| message.contains(&word.to_lowercase()))
            })
    }
}
