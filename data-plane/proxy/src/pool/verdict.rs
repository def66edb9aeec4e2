//! What a failed attempt says of the key that it was sent with.

use std::time::Duration;

use sluicegate_dialect::{Fault, fault::Level, redact};
use sluicegate_model::Outcome;
use sluicegate_protocol::pool::State;

/// What is to become of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub state: State,
    /// [`Level::Nobody`] never: then there is no verdict.
    pub level: Level,
    /// How long the upstream wants to be left alone, if it says so. Milliseconds.
    pub told_ms: Option<u64>,
    /// The upstream's words, redacted.
    pub reason: String,
}

/// Longest rest that is believed of a limit.
const RESTING_MOST: Duration = Duration::from_secs(24 * 3600);
/// How long a key is left alone at most that is no good for other reasons.
const TRIED_AFTER: Duration = Duration::from_secs(3600);

/// The one place that decides it. `None`: the key is innocent.
pub fn verdict(fault: &Fault) -> Option<Verdict> {
    let state = match fault.outcome {
        Outcome::RateLimited => State::Resting,
        Outcome::QuotaExhausted => State::Exhausted,
        Outcome::KeyRefused => State::Refused,
        Outcome::PermissionDenied => State::Suspended,
        Outcome::ModelMissing => State::ModelMissing,
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
        | Outcome::ClientCancelled => return None,
    };
    if fault.level == Level::Nobody {
        return None;
    }
    let words = fault.message.as_deref().map(redact::message).filter(|words| !words.is_empty());
    let reason = match (words, fault.status) {
        (Some(words), Some(status)) => format!("{status}: {words}"),
        (Some(words), None) => words,
        (None, Some(status)) => format!("{status} without words"),
        (None, None) => fault.outcome.name().to_owned(),
    };
    // A spent key may be filled up long before its provider says: it is tried now and then.
    let most = if state == State::Resting { RESTING_MOST } else { TRIED_AFTER };
    let told_ms = fault.wait.map(|wait| u64::try_from(wait.min(most).as_millis()).unwrap_or(0));
    Some(Verdict { state, level: fault.level, told_ms, reason })
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn c5_only_what_concerns_a_key_is_held_against_it() {
        let states = Outcome::ALL.map(|outcome| {
            let verdict = verdict(&Fault::new(outcome, "words"))?;
            Some((outcome.name(), verdict.state, verdict.level))
        });
        let states: Vec<_> = states.into_iter().flatten().collect();
        assert_eq!(
            states,
            [
                ("rate_limited", State::Resting, Level::Pair),
                ("quota_exhausted", State::Exhausted, Level::Key),
                ("key_refused", State::Refused, Level::Key),
                ("permission_denied", State::Suspended, Level::Pair),
                ("model_missing", State::ModelMissing, Level::Pair),
            ]
        );
        let nobodys = Fault { level: Level::Nobody, ..Fault::new(Outcome::RateLimited, "all") };
        assert_eq!(verdict(&nobodys), None);
    }

    #[test]
    fn reasons_are_redacted_and_waits_kept() {
        let fault = Fault {
            status: Some(401),
            wait: Some(Duration::from_millis(1_500)),
            ..Fault::new(Outcome::KeyRefused, "Incorrect API key provided: sk-canary-1234.")
        };
        let found = verdict(&fault).unwrap();
        assert_eq!(found.reason, "401: Incorrect API key provided: [redacted]");
        assert_eq!(found.told_ms, Some(1_500));
        let silent = Fault { message: None, ..fault };
        assert_eq!(verdict(&silent).unwrap().reason, "401 without words");
    }
}
