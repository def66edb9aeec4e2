//! May a failed attempt be made again, and where?

use std::time::Duration;

use sluicegate_dialect::Fault;
use sluicegate_model::{
    Outcome,
    outcome::Blame,
    resource::{Again, Retry, retry::RetryRule},
};

/// The one place that decides it. `fallback`: another model than the one that was asked for has failed;
/// what it refuses is not wrong by that.
pub(super) fn again(fault: &Fault, retry: &Retry, fallback: bool) -> Again {
    // What was never sent cannot have been done: repeating it repeats nothing.
    let rule = retry.rules.iter().find(|rule| !fault.unsent && matches(rule, fault));
    if let Some(rule) = rule {
        return rule.again;
    }
    let usual = match fault.outcome.blame() {
        Blame::Caller if fallback && fault.outcome != Outcome::ClientCancelled => Again::Elsewhere,
        Blame::Caller | Blame::Nobody => Again::Never,
        Blame::Credential => Again::Elsewhere,
        Blame::Upstream if passes(fault) => Again::Here,
        Blame::Upstream => Again::Elsewhere,
    };
    match (usual, fault.should_retry) {
        (Again::Here, Some(false)) => Again::Elsewhere,
        (Again::Elsewhere, Some(true)) if fault.outcome.blame() == Blame::Upstream => Again::Here,
        _ => usual,
    }
}

/// Is it a failure of a kind that passes by itself? A server that says that it has a fault has it in a
/// second, too; one that is full, away, or behind a proxy that says so may be back.
fn passes(fault: &Fault) -> bool {
    match fault.outcome {
        Outcome::Overloaded | Outcome::Network | Outcome::Timeout => true,
        _ => matches!(fault.status, Some(502..=504 | 529)),
    }
}

fn matches(rule: &RetryRule, fault: &Fault) -> bool {
    rule.status.is_none_or(|status| fault.status == Some(status))
        && rule.outcome.is_none_or(|outcome| fault.outcome == outcome)
        && rule.code.as_ref().is_none_or(|code| fault.code.as_ref() == Some(code))
}

/// How long to wait before a target is asked for the time after `tries`: exponential, with half of it
/// by chance, so that those who failed together do not come back together; or as long as the upstream
/// said. `random` is from 0 to 1. `None`: longer than is waited for. ("Equal jitter" of "Exponential
/// backoff and jitter", AWS Architecture Blog, 2015.)
pub(super) fn backoff(
    retry: &Retry,
    tries: u32,
    told: Option<Duration>,
    random: f64,
) -> Option<Duration> {
    let doublings = tries.saturating_sub(1).min(20);
    let step = retry.backoff.saturating_mul(1 << doublings).min(retry.max_backoff);
    let own = step / 2 + (step / 2).mul_f64(random.clamp(0.0, 1.0));
    match told {
        Some(told) if told > retry.max_backoff => None,
        Some(told) => Some(own.max(told)),
        None => Some(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b6_a_rule_against_repeats_does_not_hold_back_what_was_never_sent() {
        let never = RetryRule {
            status: None,
            code: None,
            outcome: Some(Outcome::Network),
            again: Again::Never,
        };
        let retry = retry(vec![never]);
        let sent = Fault::new(Outcome::Network, "closed");
        assert_eq!(again(&sent, &retry, false), Again::Never);
        let unsent = Fault { unsent: true, ..sent };
        assert_eq!(again(&unsent, &retry, false), Again::Here);
    }

    fn retry(rules: Vec<RetryRule>) -> Retry {
        Retry {
            max_attempts: 4,
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(8),
            budget: 0.1,
            budget_min: 2,
            rules,
        }
    }

    fn fault(outcome: Outcome, status: Option<u16>) -> Fault {
        Fault { status, ..Fault::new(outcome, "m") }
    }

    #[test]
    fn b6_what_passes_is_tried_again_and_what_is_permanent_never() {
        use Again::{Elsewhere, Here, Never};
        for (outcome, status, expected) in [
            (Outcome::ProviderError, Some(502), Here),
            (Outcome::Overloaded, Some(503), Here),
            (Outcome::ProviderError, Some(504), Here),
            (Outcome::Timeout, None, Here),
            (Outcome::Network, None, Here),
            (Outcome::ProviderError, Some(500), Elsewhere),
            (Outcome::ProviderError, None, Elsewhere),
            (Outcome::RateLimited, Some(429), Elsewhere),
            (Outcome::KeyRefused, Some(401), Elsewhere),
            (Outcome::InvalidRequest, Some(400), Never),
            (Outcome::ContextTooLong, Some(400), Never),
            (Outcome::ContentFiltered, Some(400), Never),
            (Outcome::ClientCancelled, None, Never),
        ] {
            let found = again(&fault(outcome, status), &retry(Vec::new()), false);
            assert_eq!(found, expected, "{outcome:?} {status:?}");
        }
    }

    #[test]
    fn b6_the_upstreams_word_counts_and_rules_before_it() {
        let says = |fault: Fault, should_retry| Fault { should_retry, ..fault };
        let none = retry(Vec::new());
        let broken = || fault(Outcome::ProviderError, Some(500));
        let full = || fault(Outcome::Overloaded, Some(503));
        assert_eq!(again(&says(broken(), Some(true)), &none, false), Again::Here);
        assert_eq!(again(&says(full(), Some(false)), &none, false), Again::Elsewhere);
        let refused = fault(Outcome::InvalidRequest, Some(400));
        assert_eq!(again(&says(refused.clone(), Some(true)), &none, false), Again::Never);
        assert_eq!(again(&refused, &none, true), Again::Elsewhere, "of a fallback");
        let rule = RetryRule {
            status: Some(400),
            code: Some("busy".into()),
            outcome: None,
            again: Again::Here,
        };
        let ruled = retry(vec![rule]);
        let busy = Fault { code: Some("busy".into()), ..refused.clone() };
        assert_eq!(again(&busy, &ruled, false), Again::Here);
        assert_eq!(again(&refused, &ruled, false), Again::Never);
    }

    #[test]
    fn b6_waits_double_up_to_a_ceiling_and_half_is_by_chance() {
        let retry = retry(Vec::new());
        for (tries, least_ms, most_ms) in [
            (1, 500, 1_000),
            (2, 1_000, 2_000),
            (3, 2_000, 4_000),
            (4, 4_000, 8_000),
            (40, 4_000, 8_000),
        ] {
            let ms = |random| backoff(&retry, tries, None, random).unwrap().as_millis();
            assert_eq!((ms(0.0), ms(1.0)), (least_ms, most_ms), "{tries}");
        }
        let told = |secs| backoff(&retry, 1, Some(Duration::from_secs(secs)), 0.0);
        assert_eq!(told(3), Some(Duration::from_secs(3)));
        assert_eq!(told(9), None);
    }
}
