//! MiniMax. Every failure comes under status 200, as a `base_resp` with a code of its own; 0 is well.
//!
//! Sources: MiniMax's API documentation as public gateways read it.

use sluicegate_model::Outcome::{
    ContentFiltered, InvalidRequest, KeyRefused, ProviderError, QuotaExhausted, RateLimited,
};

use super::{Rule, Variant};
use crate::{
    call::Endpoint,
    errors::{Row, code},
    fault::Level::Account,
};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    chat_path: Some("/text/chatcompletion_v2"),
    lacks: &[Endpoint::Completions, Endpoint::Embeddings],
    members: &[
        ("max_completion_tokens", Rule::Rename("max_tokens")),
        ("n", Rule::Only(&["1"], "it gives one answer")),
        ("user", Rule::Drop),
        ("metadata", Rule::Drop),
        ("logit_bias", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
    ],
    ..Variant::new("minimax", ROWS)
};

const ROWS: &[Row] = &[
    code("1000").means(ProviderError),
    code("1002").means(RateLimited).rest_s(3),
    code("1004").means(KeyRefused),
    code("1008").means(QuotaExhausted).of(Account),
    code("1013").means(ProviderError),
    code("1026").means(ContentFiltered),
    code("1027").means(ContentFiltered),
    // Tokens of a minute.
    code("1039").means(RateLimited).rest_s(20),
    code("2013").means(InvalidRequest),
    code("2049").means(KeyRefused),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use sluicegate_model::Outcome;

    use super::*;
    use crate::{
        Level, StreamEvent, StreamReader,
        fault::Fault,
        openai_chat::{response, stream::Reader},
        sse::Framer,
    };

    fn whole(body: &str) -> Result<(), Fault> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        response::read(&VARIANT, Endpoint::Chat, &body).map(drop)
    }

    fn last_event(stream: &str) -> StreamEvent {
        static MINIMAX: Variant = VARIANT;
        let mut framer = Framer::default();
        framer.push(Bytes::copy_from_slice(stream.as_bytes()));
        let mut reader = Reader::new(&MINIMAX, true, 1);
        let mut last = StreamEvent::Hidden;
        while let Some(frame) = framer.next_frame().unwrap() {
            last = reader.read(&frame);
        }
        last
    }

    #[test]
    fn c3_every_code_of_base_resp_is_classified_under_200() {
        check(1000, "unknown error", Outcome::ProviderError, Level::Nobody, None);
        check(1002, "rate limit", Outcome::RateLimited, Level::Pair, Some(3));
        check(1004, "login fail", Outcome::KeyRefused, Level::Key, None);
        check(1008, "insufficient balance", Outcome::QuotaExhausted, Level::Account, None);
        check(1013, "internal error", Outcome::ProviderError, Level::Nobody, None);
        check(1026, "input new_sensitive", Outcome::ContentFiltered, Level::Nobody, None);
        check(1027, "output new_sensitive", Outcome::ContentFiltered, Level::Nobody, None);
        check(1039, "token limit", Outcome::RateLimited, Level::Pair, Some(20));
        check(2013, "invalid params", Outcome::InvalidRequest, Level::Nobody, None);
        check(2049, "invalid api key", Outcome::KeyRefused, Level::Key, None);

        #[track_caller]
        fn check(code: u16, words: &str, outcome: Outcome, level: Level, wait_s: Option<u64>) {
            let base = format!(r#""base_resp":{{"status_code":{code},"status_msg":"{words}"}}"#);
            let answered = r#""choices":[{"index":0,"message":{"content":""}}]"#;
            for rest in [r#""choices":null"#, r#""choices":[]"#, answered] {
                let body = format!(r#"{{"id":"0",{base},{rest}}}"#);
                let fault = whole(&body).unwrap_err();
                let wait = wait_s.map(Duration::from_secs);
                assert_eq!(
                    (fault.outcome, fault.level, fault.wait),
                    (outcome, level, wait),
                    "{body}"
                );
                let StreamEvent::Failed(streamed) = last_event(&format!("data: {body}\n\n")) else {
                    panic!("{body} passed");
                };
                assert_eq!(streamed, fault, "{body}");
            }
        }
    }

    #[test]
    fn c3_the_failure_may_come_with_the_last_usage() {
        let last = last_event(concat!(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"total_tokens\":9,\"prompt_tokens\":4},",
            "\"base_resp\":{\"status_code\":1027,\"status_msg\":\"output new_sensitive\"}}\n\n",
        ));
        assert!(
            matches!(last, StreamEvent::Failed(fault) if fault.outcome == Outcome::ContentFiltered)
        );
    }

    #[test]
    fn a_status_of_zero_is_well() {
        let base = r#""base_resp":{"status_code":0,"status_msg":""}"#;
        let choice = r#""choices":[{"index":0,"message":{"content":"A"},"finish_reason":"stop"}]"#;
        assert_eq!(whole(&format!("{{{choice},{base}}}")), Ok(()));
        let chunk = r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#;
        let event = last_event(&format!("data: {{{chunk},{base}}}\n\n"));
        assert!(matches!(event, StreamEvent::Content(_)));
    }
}
