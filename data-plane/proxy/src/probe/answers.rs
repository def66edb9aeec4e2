//! Judging an answer that comes at once.

use std::time::Duration;

use sluicegate_model::Usage;

use super::{
    finding::{Check, Finding, Verdict, quoted, words},
    heard::{Exchange, Said},
};

/// Could anybody be reached, and how?
pub(super) fn reachable(exchange: &Exchange) -> Finding {
    let check = Check::Reachable;
    let Some(connected) = exchange.connected else {
        let why = match &exchange.said {
            Said::Untried(why) => why.clone(),
            Said::Failed(fault, _) => words(exchange, fault),
            Said::Answer(..) | Said::Stream(_) => "it is not known how".to_owned(),
        };
        return Finding::new(check, Verdict::Bad, why)
            .advise("check base_url, the network, proxies, certificates and connect_ms");
    };
    let version = exchange.head.as_ref().map(|head| format!("{:?}, ", head.version));
    let seen = format!("{}connected in {}", version.unwrap_or_default(), ms(connected));
    Finding::good(check, seen)
}

/// Was a plain question answered?
pub(super) fn answer(exchange: &Exchange) -> Finding {
    let check = Check::Answer;
    match &exchange.said {
        Said::Untried(why) => Finding::skipped(check, why.clone()),
        Said::Stream(_) => Finding::new(check, Verdict::Bad, "a stream nobody asked for"),
        Said::Failed(fault, _) => Finding::new(check, Verdict::Bad, words(exchange, fault))
            .advise("give a key and a model that work there: --credential, --model"),
        Said::Answer(_, answer) => match &answer.finish_reason {
            Some(reason) => {
                Finding::good(check, format!("finish reason '{}'", quoted(reason)))
            }
            None => Finding::new(check, Verdict::Bad, "no finish reason")
                .advise("an answer that was cut short cannot be told from a whole one; the record says no_finish_reason"),
        },
    }
}

/// Does an answer say what it cost?
pub(super) fn usage(exchange: &Exchange) -> Finding {
    let check = Check::UsageInAnswer;
    match exchange.usage() {
        None => Finding::skipped(check, "there was no answer"),
        Some(None) => Finding::new(check, Verdict::Bad, "none")
            .advise("with fill_usage the gateway puts an estimate in, marked as one"),
        Some(Some(usage)) => told(check, usage, ""),
    }
}

/// A finding about usage that was reported, and how.
pub(super) fn told(check: Check, usage: Usage, how: &str) -> Finding {
    let seen = format!("{} tokens in, {} out{how}", usage.input, usage.output);
    if usage.input == 0 || usage.output == 0 {
        return Finding::new(check, Verdict::Note, seen)
            .advise("zero beside text cannot be true: the gateway estimates what it counts");
    }
    Finding::good(check, seen)
}

/// A time in milliseconds.
pub(super) fn ms(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluicegate_dialect::Fault;
    use sluicegate_model::Outcome;

    use super::*;
    use crate::probe::heard::tests::{answer as answered, body};

    #[test]
    fn a15_usage_in_answers() {
        let message = json!({ "content": "OK" });
        assert_eq!(usage(&answered(message.clone(), true)).seen, "7 tokens in, 2 out");
        let none = usage(&answered(message, false));
        assert_eq!((none.verdict, none.seen.as_str()), (Verdict::Bad, "none"));
        let zero = r#"{"choices":[{"message":{"content":"OK"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#;
        assert_eq!(usage(&body(200, "application/json", zero)).verdict, Verdict::Note);
        assert_eq!(usage(&body(500, "text/html", "<html>")).verdict, Verdict::Skipped);
    }

    #[test]
    fn a15_answers() {
        let good = answer(&answered(json!({ "content": "OK" }), true));
        assert_eq!((good.verdict, good.seen.as_str()), (Verdict::Good, "finish reason 'stop'"));
        let bare = r#"{"choices":[{"message":{"content":"OK"}}]}"#;
        assert_eq!(answer(&body(200, "application/json", bare)).seen, "no finish reason");
        let refused = r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#;
        let refused = answer(&body(429, "application/json", refused));
        assert_eq!(refused.seen, "429, read as quota_exhausted: no credit");
    }

    #[test]
    fn a15_nobody_there() {
        let fault = Fault::new(Outcome::Network, "the connection could not be made");
        let said = Said::Failed(fault, bytes::Bytes::new());
        let finding = reachable(&Exchange { connected: None, head: None, said });
        assert_eq!(finding.verdict, Verdict::Bad);
        assert_eq!(finding.seen, "read as network: the connection could not be made");
        let there = reachable(&body(200, "application/json", "{}"));
        assert_eq!(there.seen, "HTTP/1.1, connected in 1 ms");
    }
}
