//! Judging how calls are refused: what the gateway would take the refusal for decides what it does.

use sluicegate_dialect::Fault;
use sluicegate_model::Outcome;

use super::{
    finding::{Check, Finding, Verdict, words},
    heard::{Exchange, Said},
    shape::envelope,
};

/// How a key is refused that opens nothing.
pub(super) fn wrong_key(exchange: &Exchange) -> Finding {
    let check = Check::WrongKey;
    let taken = "the key is not looked at: the provider may as well be keyless";
    let (fault, seen) = match refusal(check, exchange, taken) {
        Ok(refused) => refused,
        Err(finding) => return finding,
    };
    match fault.outcome {
        Outcome::KeyRefused => Finding::good(check, seen),
        Outcome::PermissionDenied => Finding::new(check, Verdict::Note, seen)
            .advise("a key that was taken back looks like one that may not use the model"),
        _ => Finding::new(check, Verdict::Bad, seen)
            .advise("a key that was taken back is not noticed as such: it stays in use"),
    }
}

/// How a model is refused that is not there.
pub(super) fn unknown_model(exchange: &Exchange) -> Finding {
    let check = Check::UnknownModel;
    let taken = "a wrong name in a target is not noticed: another model answers";
    let (fault, seen) = match refusal(check, exchange, taken) {
        Ok(refused) => refused,
        Err(finding) => return finding,
    };
    match fault.outcome {
        Outcome::ModelMissing => Finding::good(check, seen),
        _ => Finding::new(check, Verdict::Bad, seen)
            .advise("a wrong name in a target looks like another failure; check names by hand"),
    }
}

/// How a prompt is refused that is too large.
pub(super) fn oversized(exchange: &Exchange) -> Finding {
    let check = Check::OversizedInput;
    if let Said::Answer(_, answer) = &exchange.said {
        /// Tokens that a prompt of 2 MiB has at the very least.
        const LEAST: u64 = 200_000;
        let counted = answer.usage.map(|usage| usage.input);
        return match counted {
            Some(input) if input < LEAST => {
                let seen = format!("2 MiB are taken, but only {input} tokens of them are read");
                Finding::new(check, Verdict::Bad, seen)
                    .advise("prompts are cut without a word: bound them at the callers")
            }
            _ => Finding::good(check, "2 MiB are taken"),
        };
    }
    let (fault, seen) = match refusal(check, exchange, "") {
        Ok(refused) => refused,
        Err(finding) => return finding,
    };
    match fault.outcome {
        Outcome::ContextTooLong => Finding::good(check, seen),
        Outcome::InvalidRequest => Finding::new(check, Verdict::Note, seen)
            .advise("callers are told that their request is wrong, not that it is too long"),
        Outcome::RateLimited => Finding::new(check, Verdict::Note, seen).advise(
            "the prompt is larger than a limit on tokens: nothing can be told of the model",
        ),
        _ => Finding::new(check, Verdict::Bad, seen).advise(
            "too long a prompt looks like a failing provider, and is tried at every target",
        ),
    }
}

/// What a refusal was taken for, and that in words. `taken` is the advice where there was none.
///
/// # Errors
/// A finding for a call that was not refused, or not made.
fn refusal<'a>(
    check: Check,
    exchange: &'a Exchange,
    taken: &str,
) -> Result<(&'a Fault, String), Finding> {
    match &exchange.said {
        Said::Untried(why) => Err(Finding::skipped(check, why.clone())),
        Said::Answer(..) | Said::Stream(_) => {
            Err(Finding::new(check, Verdict::Note, "answered as if nothing were wrong")
                .advise(taken))
        }
        Said::Failed(fault, body) => {
            let name = fault.outcome.name();
            let seen = match &exchange.head {
                // What was announced as an answer has no envelope of errors.
                Some(head) if head.status.is_success() => words(exchange, fault),
                Some(head) => {
                    format!("{} with {}, read as {name}", head.status.as_u16(), envelope(body))
                }
                None => format!("no answer, read as {name}"),
            };
            Ok((fault, seen))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::probe::heard::tests::{answer, body};

    fn json_body(status: u16, text: &str) -> Exchange {
        body(status, "application/json", text)
    }

    #[test]
    fn a15_wrong_keys() {
        let envelope = r#"{"error":{"message":"bad key","code":"invalid_api_key"}}"#;
        check(
            json_body(401, envelope),
            Verdict::Good,
            "401 with OpenAI's envelope, read as key_refused",
        );
        check(
            body(500, "text/html", "<html>"),
            Verdict::Bad,
            "500 with HTML, read as provider_error",
        );
        check(json_body(403, "{}"), Verdict::Note, "403 with JSON of another form");
        check(answer(json!({ "content": "OK" }), true), Verdict::Note, "answered as if");

        #[track_caller]
        fn check(exchange: Exchange, verdict: Verdict, seen: &str) {
            let finding = wrong_key(&exchange);
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.seen.starts_with(seen), "{finding:?}");
            assert_eq!(finding.advice.is_empty(), verdict == Verdict::Good);
        }
    }

    #[test]
    fn a15_unknown_models() {
        let disguised = unknown_model(&json_body(200, r#"{"error":{"message":"no such model"}}"#));
        assert_eq!(disguised.seen, "200, read as provider_error: no such model");
        let known = r#"{"error":{"message":"no such model","code":"model_not_found"}}"#;
        assert_eq!(unknown_model(&json_body(404, known)).verdict, Verdict::Good);
        let odd = unknown_model(&json_body(400, r#"{"message":"?"}"#));
        assert_eq!(odd.seen, "400 with a bare message, read as invalid_request");
        assert_eq!(odd.verdict, Verdict::Bad);
        let taken = unknown_model(&answer(json!({ "content": "OK" }), true));
        assert_eq!(taken.verdict, Verdict::Note);
    }

    #[test]
    fn a15_oversized_prompts() {
        let known = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
        assert_eq!(oversized(&json_body(400, known)).verdict, Verdict::Good);
        assert_eq!(oversized(&json_body(413, "{}")).verdict, Verdict::Note);
        assert_eq!(oversized(&body(500, "text/plain", "boom")).verdict, Verdict::Bad);
        // It says that it read seven tokens.
        let cut = oversized(&answer(json!({ "content": "OK" }), true));
        assert_eq!((cut.verdict, cut.seen.contains("only 7 tokens")), (Verdict::Bad, true));
        assert_eq!(oversized(&answer(json!({ "content": "OK" }), false)).verdict, Verdict::Good);
    }
}
