//! The errors of the providers as data: one row for each that is documented.

use super::{Dialect, anthropic, azure, bedrock, dashscope, ernie, gemini, openai};
use crate::upstream::{AUTO, Step};

/// An error as it goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRow {
    /// What `fail:` calls it; unique within its dialect. The provider's own code, followed by what
    /// tells it from others with that code.
    pub name: &'static str,
    pub status: u16,
    /// Beside `content-type`, which is JSON unless it is among these.
    pub headers: &'static [(&'static str, &'static str)],
    /// Byte for byte.
    pub body: &'static str,
    /// What the provider wants to say.
    pub means: Meaning,
}

/// What an error says, in words that are the same for all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    RateLimited,
    Overloaded,
    ProviderError,
    Timeout,
    QuotaExhausted,
    AuthFailed,
    PermissionDenied,
    ModelNotFound,
    InvalidRequest,
    ContextLengthExceeded,
    ContentFiltered,
    /// A collision; the same call may succeed at once.
    Conflict,
    /// The provider took the caller for gone.
    Cancelled,
}

/// Every error row of a dialect. The first of a meaning is the usual one.
pub fn error_rows(dialect: Dialect) -> &'static [ErrorRow] {
    match dialect {
        Dialect::Azure => azure::ROWS,
        Dialect::Anthropic => anthropic::ROWS,
        Dialect::Gemini => gemini::ROWS,
        Dialect::DashScope => dashscope::ROWS,
        Dialect::Ernie => ernie::ROWS,
        Dialect::Bedrock => bedrock::ROWS,
        Dialect::OpenAi
        | Dialect::DeepSeek
        | Dialect::Ark
        | Dialect::Zhipu
        | Dialect::QwenCompat
        | Dialect::QianfanV2
        | Dialect::Moonshot
        | Dialect::Mistral
        | Dialect::Vllm
        | Dialect::SgLang
        | Dialect::Ollama
        | Dialect::QwenDemo => openai::rows(dialect),
    }
}

/// The row of that name.
pub(super) fn named(dialect: Dialect, name: &str) -> Option<&'static ErrorRow> {
    error_rows(dialect).iter().find(|row| row.name == name)
}

/// The usual row of that meaning.
pub(super) fn first_of(dialect: Dialect, means: Meaning) -> Option<&'static ErrorRow> {
    error_rows(dialect).iter().find(|row| row.means == means)
}

/// The answer to a wish for a row that there is not: no provider answers so.
pub(super) static NO_SUCH_ROW: ErrorRow = row(
    "no_such_row",
    501,
    Meaning::InvalidRequest,
    r#"{"fake":"there is no error row of that name; see error_rows"}"#,
);

/// A row with no headers of its own.
pub(super) const fn row(
    name: &'static str,
    status: u16,
    means: Meaning,
    body: &'static str,
) -> ErrorRow {
    ErrorRow { name, status, headers: &[], body, means }
}

impl ErrorRow {
    /// The same row with these headers.
    pub(super) const fn with(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    /// The answer that is this error.
    pub(super) fn steps(&self) -> Vec<Step> {
        let own = self.headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let mut headers: Vec<(String, String)> = own.collect();
        if !self.headers.iter().any(|(name, _)| *name == "content-type") {
            headers.insert(0, ("content-type".into(), "application/json".into()));
        }
        headers.push(("content-length".into(), AUTO.into()));
        vec![Step::Head(self.status, headers), Step::send(self.body), Step::End]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_dialect_has_the_usual_errors() {
        for dialect in Dialect::ALL {
            let rows = error_rows(dialect);
            let names: HashSet<_> = rows.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), rows.len(), "{dialect:?}");
            assert!(names.iter().all(|name| !name.contains([' ', ':'])), "{names:?}");
            for means in [Meaning::AuthFailed, Meaning::InvalidRequest, Meaning::ProviderError] {
                assert!(first_of(dialect, means).is_some(), "{dialect:?} {means:?}");
            }
        }
    }

    #[test]
    fn a_body_that_is_said_to_be_json_is_json() {
        for dialect in Dialect::ALL {
            for row in error_rows(dialect) {
                let said = row.headers.iter().any(|(name, _)| *name == "content-type");
                let is = serde_json::from_str::<serde_json::Value>(row.body).is_ok();
                assert!(said || is, "{dialect:?} {}: {}", row.name, row.body);
            }
        }
    }
}
