//! Judging calls of tools, and turns without content.

use super::{
    finding::{Check, Finding, Verdict, words},
    heard::{Exchange, Said},
    shape::ToolForm,
    streams::refuses,
};

/// Is a turn taken that calls a tool and has `content: null`?
pub(super) fn null_content(exchange: &Exchange) -> Finding {
    let check = Check::NullContent;
    match &exchange.said {
        Said::Untried(why) => Finding::skipped(check, why.clone()),
        Said::Answer(..) | Said::Stream(_) => {
            Finding::good(check, "a tool turn with content null is taken")
        }
        Said::Failed(fault, _) if refuses(exchange) => {
            let seen =
                format!("a tool turn with content null is refused: {}", words(exchange, fault));
            Finding::new(check, Verdict::Bad, seen)
                .advise("official clients send it: callers must put an empty text there")
        }
        Said::Failed(fault, _) => Finding::untold(check, exchange, fault),
    }
}

/// In which form a tool is called in an answer at once.
pub(super) fn whole(exchange: &Exchange) -> Finding {
    let check = Check::ToolCall;
    match &exchange.said {
        Said::Answer(raw, answer) => {
            let (form, beside) = ToolForm::of_answer(raw);
            if form.parts > 0 {
                return formed(check, &form, &format!("called, {}", beside.words()), false);
            }
            let (translated, _) = ToolForm::of_answer(&answer.body);
            if translated.parts > 0 {
                return Finding::good(check, "called, in the format's own form");
            }
            not_called(check)
        }
        said => failed(check, exchange, said),
    }
}

/// In which form a tool is called in a stream.
pub(super) fn streamed(exchange: &Exchange) -> Finding {
    let check = Check::ToolCallInStream;
    match &exchange.said {
        Said::Stream(stream) => {
            if let Some(fault) = &stream.failed {
                return Finding::new(check, Verdict::Bad, words(exchange, fault));
            }
            let form = &stream.chunks.tools;
            let parts = match form.parts {
                1 => "called in 1 fragment".to_owned(),
                count => format!("called in {count} fragments"),
            };
            match (form.parts, stream.calls_tool) {
                (1.., _) => formed(check, form, &parts, true),
                (0, true) => Finding::good(check, "called, in the format's own form"),
                (0, false) => not_called(check),
            }
        }
        Said::Answer(_, answer) => {
            let (form, _) = ToolForm::of_answer(&answer.body);
            if form.parts == 0 {
                return not_called(check);
            }
            Finding::new(check, Verdict::Note, "called, in one answer at once, no stream")
                .advise("the gateway makes events of it")
        }
        said => failed(check, exchange, said),
    }
}

fn formed(check: Check, form: &ToolForm, seen: &str, repaired: bool) -> Finding {
    let faults = form.faults();
    if faults.is_empty() {
        return Finding::good(check, seen);
    }
    let finding = Finding::new(check, Verdict::Note, format!("{seen}; {}", faults.join(", ")));
    finding.advise(if repaired {
        "the gateway puts right what clients could not join"
    } else {
        "clients that go by the format may trip over it; the gateway passes it on"
    })
}

fn not_called(check: Check) -> Finding {
    Finding::new(check, Verdict::Note, "not called: the model answered without the tool")
        .advise("probe with a model that calls tools")
}

fn failed(check: Check, exchange: &Exchange, said: &Said) -> Finding {
    match said {
        Said::Untried(why) => Finding::skipped(check, why.clone()),
        Said::Failed(fault, _) if refuses(exchange) => {
            let seen = format!("tools are refused: {}", words(exchange, fault));
            Finding::new(check, Verdict::Bad, seen)
                .advise("leave calls with tools to other targets or models")
        }
        Said::Failed(fault, _) => Finding::untold(check, exchange, fault),
        Said::Answer(..) | Said::Stream(_) => not_called(check),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::probe::heard::{
        End,
        tests::{answer, body, stream},
    };

    #[test]
    fn a15_tool_calls_in_answers() {
        let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } });
        let object =
            json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": {} } });
        let with = |call| answer(json!({ "content": null, "tool_calls": [call] }), true);
        let good = whole(&with(call));
        assert_eq!(
            (good.verdict, good.seen.as_str()),
            (Verdict::Good, "called, content null beside it")
        );
        let odd = whole(&with(object));
        assert_eq!(odd.verdict, Verdict::Note);
        assert!(odd.seen.ends_with("; arguments as an object"), "{odd:?}");
        assert!(whole(&answer(json!({ "content": "I cannot" }), true)).seen.contains("not called"));
        let refused = body(400, "application/json", r#"{"error":{"message":"no tools"}}"#);
        assert_eq!(whole(&refused).verdict, Verdict::Bad);
        assert_eq!(whole(&body(503, "text/plain", "busy")).verdict, Verdict::Note);
    }

    #[test]
    fn a15_tool_calls_in_streams() {
        let chunk = |call: serde_json::Value| {
            let delta = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
            format!("data: {delta}\n\n")
        };
        let first =
            json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "" } });
        let rest = json!({ "index": 0, "function": { "arguments": "{}" } });
        let said = stream(&[chunk(first), chunk(rest)].concat(), End::Clean);
        let finding = streamed(&said);
        assert_eq!(finding.seen, "called in 2 fragments; without index");
        assert_eq!(finding.advice, "the gateway puts right what clients could not join");
        let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"no\"}}]}\n\n";
        assert!(streamed(&stream(text, End::Clean)).seen.contains("not called"));
    }

    #[test]
    fn a15_null_content() {
        let taken = null_content(&answer(json!({ "content": "Sunny." }), true));
        assert_eq!(taken.verdict, Verdict::Good);
        let refused = body(422, "application/json", r#"{"error":{"message":"content: none"}}"#);
        assert_eq!(null_content(&refused).verdict, Verdict::Bad);
        assert_eq!(null_content(&body(500, "text/plain", "")).verdict, Verdict::Note);
    }
}
