//! Judging streams.

use std::time::Duration;

use super::{
    answers::{ms, told},
    finding::{Check, Finding, Verdict, quoted, words},
    heard::{End, Exchange, Said, Streamed},
    shape::First,
};

/// What belongs to the course of a stream.
const COURSE: [Check; 4] = [Check::Stream, Check::FirstChunk, Check::StreamEnd, Check::FirstToken];
/// A stream that takes less time than this tells nothing of being held back.
const SHORT: Duration = Duration::from_secs(1);

/// Whether there is a stream, how it begins, how it ends, and when the first part of the answer
/// came.
pub(super) fn course(exchange: &Exchange) -> Vec<Finding> {
    let [check, rest @ ..] = COURSE;
    let skipped = |why: &str| rest.map(|check| Finding::skipped(check, why));
    let (first, why) = match &exchange.said {
        Said::Stream(stream) => {
            return vec![
                began(exchange, stream),
                first_chunk(stream),
                ended(stream),
                first_token(stream),
            ];
        }
        Said::Untried(why) => (Finding::skipped(check, why.clone()), why.as_str()),
        Said::Answer(body, _) | Said::Failed(_, body) if looks_streamed(body) => {
            let kind = exchange.head.as_ref().map(|head| head.content_type());
            let seen = format!("events, but announced as {}", kind.unwrap_or_default());
            let finding = Finding::new(check, Verdict::Bad, seen)
                .advise("no client takes this for a stream: have the server say text/event-stream");
            (finding, "there is no stream to read")
        }
        Said::Answer(..) => {
            let finding = Finding::new(check, Verdict::Note, "one answer at once, no stream")
                .advise("the gateway makes events of it; callers wait for all of it");
            (finding, "there is no stream")
        }
        Said::Failed(fault, _) => {
            let finding = Finding::new(check, Verdict::Bad, words(exchange, fault))
                .advise("calls with stream fail here: leave them to other targets");
            (finding, "there is no stream")
        }
    };
    std::iter::once(first).chain(skipped(why)).collect()
}

fn looks_streamed(body: &[u8]) -> bool {
    let text = body.trim_ascii_start();
    text.starts_with(b"data:") || text.starts_with(b"event:")
}

fn began(exchange: &Exchange, stream: &Streamed) -> Finding {
    let check = Check::Stream;
    if let Some(fault) = &stream.failed {
        return Finding::new(check, Verdict::Bad, words(exchange, fault))
            .advise("the failure came within the stream: callers see an error event");
    }
    let events = match stream.events {
        1 => "1 event".to_owned(),
        count => format!("{count} events"),
    };
    let kind = exchange.head.as_ref().map(|head| head.content_type()).unwrap_or_default();
    let lines = if stream.crlf { ", lines end with CRLF" } else { "" };
    let seen = format!("{events} as {kind}{lines}");
    if stream.first_content.is_none() {
        return Finding::new(check, Verdict::Bad, format!("{seen}, none says anything"))
            .advise("the gateway takes an empty stream for a failure and tries another target");
    }
    let held = stream.first_content.is_some_and(|first| {
        stream.events > 4 && stream.last >= SHORT && first * 10 >= stream.last * 9
    });
    if held {
        return Finding::new(check, Verdict::Note, format!("{seen}, all at the end")).advise(
            "something collects the stream: look for buffering in a proxy before the server",
        );
    }
    Finding::good(check, seen)
}

fn first_chunk(stream: &Streamed) -> Finding {
    let check = Check::FirstChunk;
    match stream.chunks.first {
        None => Finding::skipped(check, "no event had data"),
        Some(First::Empty) => Finding::new(check, Verdict::Note, "no choices in it")
            .advise("clients that read choices[0] unseen trip over it; the gateway passes it on"),
        Some(First::Role { null: true }) => Finding::good(check, "the role, content null"),
        Some(First::Role { null: false }) => Finding::good(check, "the role alone"),
        Some(First::Content) => Finding::good(check, "a part of the answer"),
        Some(First::Other) => {
            Finding::good(check, "not of OpenAI's shape; the gateway translates the stream")
        }
    }
}

fn ended(stream: &Streamed) -> Finding {
    let check = Check::StreamEnd;
    if stream.failed.is_some() {
        return Finding::skipped(check, "the stream failed");
    }
    let reason = stream.finish.as_deref().map(quoted).unwrap_or_default();
    match (stream.complete, stream.done, stream.end) {
        (true, true, _) => Finding::good(check, format!("finish reason '{reason}', then done")),
        // Formats of their own need no such word.
        (true, false, End::Clean) if stream.chunks.first == Some(First::Other) => {
            Finding::good(check, format!("finish reason '{reason}', then the body ends"))
        }
        (true, false, end) => {
            let open = if end == End::Clean { "" } else { ", and the connection is left open" };
            let seen = format!("finish reason '{reason}', no [DONE]{open}");
            Finding::new(check, Verdict::Note, seen)
                .advise("the gateway ends the stream for callers: the reason is proof enough")
        }
        (false, true, _) => Finding::new(check, Verdict::Bad, "[DONE] without a finish reason")
            .advise("stream_end done: the word is taken for proof; an answer cut at max_tokens looks whole"),
        (false, false, End::Clean) => {
            Finding::new(check, Verdict::Bad, "neither finish reason nor [DONE]")
                .advise("stream_end close: the end of the body is taken for proof; a server that dies in order looks well")
        }
        (false, false, End::Broke) => Finding::new(check, Verdict::Bad, "the connection breaks off")
            .advise("nothing can make up for it: callers get an error event"),
        (false, false, End::Open) => Finding::new(check, Verdict::Bad, "none in time")
            .advise("callers get an error event when idle_ms is over"),
        (false, false, End::TooLong) => {
            Finding::new(check, Verdict::Note, "the stream is longer than a probe listens")
                .advise("the server does not keep to max_tokens")
        }
    }
}

fn first_token(stream: &Streamed) -> Finding {
    let check = Check::FirstToken;
    match stream.first_content {
        Some(time) => Finding::good(check, format!("after {}", ms(time))),
        None => Finding::skipped(check, "none came"),
    }
}

/// Is usage in a stream: by itself, when it is asked for, or never? `asked` is `None` where the
/// format has no such wish.
pub(super) fn usage(unasked: &Exchange, asked: Option<&Exchange>) -> Finding {
    let check = Check::UsageInStream;
    let Some(by_itself) = unasked.usage() else {
        return Finding::skipped(check, "there is no stream");
    };
    let Some(asked) = asked else {
        return match by_itself {
            Some(usage) => told(check, usage, &format!(", by itself{}", place(unasked))),
            None => never("never"),
        };
    };
    if let Said::Failed(fault, _) = &asked.said
        && refuses(asked)
    {
        let without = if by_itself.is_some() { "comes without" } else { "never comes" };
        let seen = format!("{without}; the wish is refused: {}", words(asked, fault));
        let finding = Finding::new(check, Verdict::Bad, seen);
        return finding.advise(match by_itself {
            Some(_) => "ask_usage false: the gateway does not ask, nor lets callers",
            None => {
                "ask_usage false: the gateway does not ask, nor lets callers; with fill_usage it \
                 puts an estimate in, marked as one"
            }
        });
    }
    match (by_itself, asked.usage()) {
        (Some(usage), _) => told(check, usage, &format!(", by itself{}", place(unasked))),
        (None, Some(Some(usage))) => {
            told(check, usage, &format!(", when it is asked for{}", place(asked)))
        }
        (None, Some(None)) => never("never, though it is asked for"),
        (None, None) => match &asked.said {
            Said::Failed(fault, _) => Finding::untold(check, asked, fault),
            Said::Untried(why) => Finding::skipped(check, why.clone()),
            Said::Answer(..) | Said::Stream(_) => Finding::new(
                check,
                Verdict::Note,
                "cannot be told: the stream that was asked for it failed",
            )
            .advise("probe again"),
        },
    }
}

fn never(seen: &str) -> Finding {
    Finding::new(Check::UsageInStream, Verdict::Bad, seen)
        .advise("with fill_usage the gateway puts an estimate in, marked as one")
}

/// Does the upstream refuse the request for what it holds?
pub(super) fn refuses(asked: &Exchange) -> bool {
    let Said::Failed(fault, _) = &asked.said else { return false };
    let is_client_error = asked.head.as_ref().is_some_and(|head| head.status.is_client_error());
    is_client_error && fault.outcome == sluicegate_model::Outcome::InvalidRequest
}

/// Where in the stream it stood.
fn place(exchange: &Exchange) -> &'static str {
    let Said::Stream(stream) = &exchange.said else { return "" };
    match (stream.chunks.usage_alone, stream.chunks.usage_beside) {
        (0, 0) => "",
        (_, 0) => ", in a chunk of its own",
        (_, 1) => ", beside a choice",
        (_, _) => ", in every chunk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::heard::tests::{answer, body, stream};

    const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
    const STOP: &str =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    const USAGE: &str =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    fn of(parts: &[&str]) -> Exchange {
        stream(&parts.concat(), End::Clean)
    }

    #[test]
    fn a15_how_streams_end() {
        check(&of(&[TEXT, STOP, DONE]), Verdict::Good, "finish reason 'stop', then done");
        check(&of(&[TEXT, STOP]), Verdict::Note, "finish reason 'stop', no [DONE]");
        check(&of(&[TEXT, DONE]), Verdict::Bad, "[DONE] without a finish reason");
        check(&of(&[TEXT]), Verdict::Bad, "neither finish reason nor [DONE]");
        check(&stream(TEXT, End::Broke), Verdict::Bad, "the connection breaks off");
        check(&stream(TEXT, End::Open), Verdict::Bad, "none in time");
        let left_open = stream(&[TEXT, STOP].concat(), End::Open);
        check(
            &left_open,
            Verdict::Note,
            "finish reason 'stop', no [DONE], and the connection is left open",
        );
        let failed = of(&[TEXT, "data: {\"error\":{\"message\":\"boom\"}}\n\n"]);
        check(&failed, Verdict::Skipped, "the stream failed");

        #[track_caller]
        fn check(exchange: &Exchange, verdict: Verdict, seen: &str) {
            let finding = &course(exchange)[2];
            assert_eq!((finding.check, finding.verdict), (Check::StreamEnd, verdict));
            assert_eq!(finding.seen, seen);
        }
    }

    #[test]
    fn a15_how_streams_begin() {
        let empty = "data: {\"choices\":[]}\n\n";
        let role =
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n";
        check(&of(&[empty, TEXT, STOP, DONE]), [Verdict::Good, Verdict::Note], "no choices");
        check(&of(&[role, TEXT, STOP]), [Verdict::Good, Verdict::Good], "the role, content null");
        check(&of(&[TEXT, STOP, DONE]), [Verdict::Good, Verdict::Good], "a part");
        check(&of(&[empty, DONE]), [Verdict::Bad, Verdict::Note], "no choices");
        let whole = answer(serde_json::json!({ "content": "OK" }), true);
        check(&whole, [Verdict::Note, Verdict::Skipped], "there is no stream");
        let hidden = body(200, "text/plain", &[TEXT, STOP].concat());
        check(&hidden, [Verdict::Bad, Verdict::Skipped], "there is no stream to read");
        check(&body(500, "text/html", "<html>"), [Verdict::Bad, Verdict::Skipped], "no stream");

        #[track_caller]
        fn check(exchange: &Exchange, verdicts: [Verdict; 2], seen: &str) {
            let found = course(exchange);
            assert_eq!([found[0].verdict, found[1].verdict], verdicts, "{found:?}");
            assert!(found[1].seen.contains(seen), "{found:?}");
            assert_eq!(found.iter().map(|finding| finding.check).collect::<Vec<_>>(), COURSE);
        }
    }

    #[test]
    fn a15_usage_in_streams() {
        let (without, with) = (of(&[TEXT, STOP, DONE]), of(&[TEXT, STOP, USAGE, DONE]));
        let refused = body(400, "application/json", r#"{"error":{"message":"unknown field"}}"#);
        let busy = body(429, "application/json", r#"{"error":{"message":"slow down"}}"#);
        check(&with, Some(&with), Verdict::Good, "by itself, in a chunk of its own");
        check(&without, Some(&with), Verdict::Good, "when it is asked for");
        check(&without, Some(&without), Verdict::Bad, "never, though it is asked for");
        check(&without, None, Verdict::Bad, "never");
        check(&without, Some(&refused), Verdict::Bad, "never comes; the wish is refused: 400");
        check(&with, Some(&refused), Verdict::Bad, "comes without; the wish is refused: 400");
        check(&without, Some(&busy), Verdict::Note, "cannot be told: 429, read as rate_limited");
        check(&busy, None, Verdict::Skipped, "there is no stream");

        #[track_caller]
        fn check(unasked: &Exchange, asked: Option<&Exchange>, verdict: Verdict, seen: &str) {
            let finding = usage(unasked, asked);
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.seen.contains(seen), "{finding:?}");
        }
    }
}
