//! What an upstream's error means: one classifier for every wire format, fed by declared tables.
//!
//! The order: what the body says is found in whatever envelope it came ([`stated`]); the format's own
//! [`Row`]s are asked from the top, and the first that fits decides; else the status does. Words of a
//! message count only where a row names them: texts such as "limit" or "balance" stand in errors of
//! every kind.

mod by_status;
mod stated;
mod table;

use http::{HeaderMap, StatusCode};
use sluicegate_model::Outcome;

pub use stated::Stated;
pub(crate) use stated::is_truthy_text as is_truthy;
pub use table::{Errors, Resets, Row, any, code, prefix};

use crate::{
    fault::{Fault, Level},
    wait,
};

impl Errors {
    /// Understands an answer with another status than 2xx.
    pub fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
        let stated = stated::in_refusal(headers, body);
        let mut fault = self.understand(status.as_u16(), headers, stated);
        fault.status = Some(status.as_u16());
        fault
    }

    /// Finds the error that stands in a 2xx body or in a stream's event, and understands it. `None`:
    /// there is none.
    pub fn in_band(&self, body: &[u8]) -> Option<Fault> {
        let stated = stated::in_band(body)?;
        Some(self.understand(200, &HeaderMap::new(), stated))
    }

    /// Understands an event that its stream calls an error, whatever it says.
    pub fn event(&self, data: &[u8]) -> Fault {
        let stated = stated::in_refusal(&HeaderMap::new(), data);
        self.understand(200, &HeaderMap::new(), stated)
    }

    /// The same of an event whose name is the error's code.
    pub fn named_event(&self, name: &str, data: &[u8]) -> Fault {
        let mut stated = stated::in_refusal(&HeaderMap::new(), data);
        stated.kind = Some(name.to_owned());
        self.understand(200, &HeaderMap::new(), stated)
    }

    /// Understands what was found in an error body, or is known without one.
    pub fn understand(&self, status: u16, headers: &HeaderMap, stated: Stated) -> Fault {
        // A status within the body, as some servers have under 200.
        let inner = stated
            .status
            .or_else(|| stated.code.as_deref().and_then(|code| code.parse().ok()))
            .filter(|code| (400..600).contains(code) && status < 400);
        let means = self.rows.iter().find(|row| row.fits(status, &stated));
        let outcome = means.map_or_else(
            || {
                let status = inner.unwrap_or(if status < 400 { 500 } else { status });
                match by_status::outcome(status) {
                    // What is missing is something else that the request names, such as a file.
                    Outcome::ModelMissing if stated.names_another_param() => {
                        Outcome::InvalidRequest
                    }
                    outcome => outcome,
                }
            },
            |row| row.outcome,
        );
        let asked = wait::asked(headers, &stated, self.resets, wall_clock());
        let wait = match outcome {
            // A short wait that goes with a spent quota is not the quota's.
            Outcome::QuotaExhausted => asked.filter(|wait| *wait >= wait::LONG),
            // No time makes a wrong key right: numbers in such a text mean something else.
            Outcome::KeyRefused | Outcome::PermissionDenied | Outcome::ModelMissing => None,
            _ => asked,
        };
        let until = means.and_then(|row| row.until).map(|until| until.left(wall_clock()));
        Fault {
            outcome,
            level: means.and_then(|row| row.level).unwrap_or_else(|| Level::of(outcome)),
            status: None,
            wait: wait.or(until).or_else(|| means.and_then(|row| row.rest)),
            should_retry: wait::should_retry(headers),
            unsent: false,
            message: stated.message,
            code: stated.code.or(stated.kind),
            param: stated.param,
        }
    }
}

/// An error that no table knows: by its status alone.
pub fn outcome_of_status(status: u16) -> Outcome {
    by_status::outcome(status)
}

/// Dates in headers and bodies are the one thing here that needs the time of day.
#[expect(clippy::disallowed_methods, reason = "Retry-After may be an HTTP date")]
pub(crate) fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

#[cfg(test)]
mod tests;
