//! The profile that comes of what was seen.

use sluicegate_model::{Profile, StreamEnd};

use super::{
    heard::{End, Exchange, Said},
    streams::refuses,
};

/// What the gateway has to make up for. What could not be told stays as the format has it.
///
/// `asked` is the stream that usage was asked of, `None` where the format has no such wish;
/// `asks_by_default`: the gateway would ask without being told to.
pub(super) fn of(
    whole: &Exchange,
    unasked: &Exchange,
    asked: Option<&Exchange>,
    asks_by_default: bool,
) -> Profile {
    let refused = asked.is_some_and(refuses);
    let by_itself = unasked.usage();
    // Usage in the streams that the gateway will get.
    let streamed = match asked.and_then(Exchange::usage) {
        Some(usage) => Some(usage.or(by_itself.flatten())),
        None if refused || asked.is_none() => by_itself,
        None => by_itself.filter(Option::is_some),
    };
    let only_when_asked =
        by_itself == Some(None) && asked.and_then(Exchange::usage).flatten().is_some();
    let ask_usage = match (refused, only_when_asked && !asks_by_default) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    };
    let lacks = |usage| usage == Some(None);
    Profile {
        ask_usage,
        fill_usage: lacks(whole.usage()) || lacks(streamed),
        stream_end: asked.and_then(end).or_else(|| end(unasked)).unwrap_or_default(),
    }
}

/// What proves the end of such a stream; `None`: nothing can be told.
fn end(exchange: &Exchange) -> Option<StreamEnd> {
    let Said::Stream(stream) = &exchange.said else { return None };
    if !exchange.has_answered() {
        return None;
    }
    match (stream.complete, stream.done, stream.end) {
        (true, ..) => Some(StreamEnd::Finish),
        (false, true, _) => Some(StreamEnd::Done),
        (false, false, End::Clean) => Some(StreamEnd::Close),
        (false, false, End::Broke | End::Open | End::TooLong) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::probe::heard::tests::{answer, body, stream};

    const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
    const STOP: &str =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    const USAGE: &str =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    fn of_text(parts: &[&str]) -> Exchange {
        stream(&parts.concat(), End::Clean)
    }

    fn whole(usage: bool) -> Exchange {
        answer(json!({ "content": "OK" }), usage)
    }

    #[test]
    fn a15_a_sound_upstream_needs_no_profile() {
        let (without, with) = (of_text(&[TEXT, STOP, DONE]), of_text(&[TEXT, STOP, USAGE, DONE]));
        for unasked in [&without, &with] {
            assert_eq!(of(&whole(true), unasked, Some(&with), true), Profile::default());
        }
        // A failure tells nothing.
        let busy = body(429, "application/json", r#"{"error":{"message":"slow down"}}"#);
        assert_eq!(of(&busy, &without, Some(&busy), true), Profile::default());
        assert_eq!(of(&whole(true), &busy, None, true), Profile::default());
    }

    #[test]
    fn a16_usage_that_never_comes_is_filled_in() {
        let without = of_text(&[TEXT, STOP, DONE]);
        let with = of_text(&[TEXT, STOP, USAGE, DONE]);
        let fill = Profile { fill_usage: true, ..Profile::default() };
        assert_eq!(of(&whole(false), &with, Some(&with), true), fill);
        assert_eq!(of(&whole(true), &without, Some(&without), true), fill);
        assert_eq!(of(&whole(true), &without, None, false), fill);
    }

    #[test]
    fn a15_the_wish_for_usage() {
        let without = of_text(&[TEXT, STOP, DONE]);
        let with = of_text(&[TEXT, STOP, USAGE, DONE]);
        let refused = body(400, "application/json", r#"{"error":{"message":"unknown field"}}"#);
        let silent = Profile { ask_usage: Some(false), ..Profile::default() };
        assert_eq!(of(&whole(true), &with, Some(&refused), true), silent);
        let filled = Profile { fill_usage: true, ..silent };
        assert_eq!(of(&whole(true), &without, Some(&refused), true), filled);
        // One that the gateway would not ask by itself.
        let asks = Profile { ask_usage: Some(true), ..Profile::default() };
        assert_eq!(of(&whole(true), &without, Some(&with), false), asks);
    }

    #[test]
    fn a15_what_proves_the_end() {
        check(&of_text(&[TEXT, STOP]), StreamEnd::Finish);
        check(&of_text(&[TEXT, DONE]), StreamEnd::Done);
        check(&of_text(&[TEXT]), StreamEnd::Close);
        check(&stream(TEXT, End::Broke), StreamEnd::Finish);
        check(&stream(TEXT, End::Open), StreamEnd::Finish);

        #[track_caller]
        fn check(unasked: &Exchange, expected: StreamEnd) {
            assert_eq!(of(&whole(true), unasked, None, true).stream_end, expected);
        }
    }
}
