//! A streamed answer on its way down.

use bytes::Bytes;
use sluicegate_model::{Outcome, Usage};

use super::{chunk, finish, repair::Repair, variant::Variant};
use crate::{
    dialect::{StreamEvent, StreamReader},
    fault::Fault,
    frame::Frame,
};

/// Reads the chunks of one stream.
#[derive(Debug)]
pub(crate) struct Reader {
    variant: &'static Variant,
    hide_usage: bool,
    repair: Repair,
    usage: Option<Usage>,
    reason: Option<String>,
    /// One bit for each choice that was seen, and that finished.
    named: u128,
    finished: u128,
    /// How many choices were asked for, as far as there are bits.
    asked: u32,
    chars: u64,
}

impl Reader {
    pub(crate) fn new(variant: &'static Variant, hide_usage: bool, asked: u64) -> Self {
        Self {
            variant,
            hide_usage,
            repair: Repair::new(variant),
            usage: None,
            reason: None,
            named: 0,
            finished: 0,
            asked: u32::try_from(asked).unwrap_or(u32::MAX).min(u128::BITS),
            chars: 0,
        }
    }

    fn chunk(&mut self, frame: &Frame, data: &Bytes) -> StreamEvent {
        // What was in it is lost: whatever comes later, the answer is not whole.
        let Ok(mut facts) = chunk::read(data, &mut self.repair) else {
            let message = "the provider sent an event that is not JSON";
            return StreamEvent::Failed(Fault::new(Outcome::ProviderError, message));
        };
        let bare = facts.choices.is_none() && facts.usage.is_none();
        if (bare || facts.error.is_some())
            && let Some(fault) = self.variant.errors.in_band(data)
        {
            return StreamEvent::Failed(fault);
        }
        self.usage = facts.usage.or(self.usage);
        self.named |= facts.named;
        self.finished |= facts.finished;
        self.chars += facts.chars;
        let empty = facts.choices.unwrap_or(0) == 0;
        if self.hide_usage && empty && facts.usage.is_some() {
            return StreamEvent::Hidden;
        }
        let says = facts.content != 0 || facts.finished != 0;
        let reason = match finish::judge(self.variant, facts.finish, &mut facts.splices) {
            Ok(judged) => judged,
            Err(fault) => return StreamEvent::Failed(fault),
        };
        self.reason = reason.or(self.reason.take());
        let wire = if facts.splices.is_empty() {
            frame.to_wire()
        } else {
            frame.with_data(&facts.splices.apply(data))
        };
        if says { StreamEvent::Content(wire) } else { StreamEvent::Preamble(wire) }
    }
}

impl StreamReader for Reader {
    fn read(&mut self, frame: &Frame) -> StreamEvent {
        let Some(data) = frame.data() else {
            let fault = frame.bare_json().and_then(|json| self.variant.errors.in_band(json));
            return fault
                .map_or_else(|| StreamEvent::Preamble(frame.to_wire()), StreamEvent::Failed);
        };
        let text = data.trim_ascii();
        if text == b"[DONE]" {
            return StreamEvent::Done;
        }
        if frame.event() == Some("error") {
            return StreamEvent::Failed(self.variant.errors.event(text));
        }
        self.chunk(frame, &data)
    }

    fn complete(&self) -> bool {
        self.finished != 0 && self.named & !self.finished == 0
    }

    fn whole(&self) -> bool {
        self.complete() && self.finished.count_ones() >= self.asked
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish_reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    fn output_chars(&self) -> u64 {
        self.chars
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sse::Framer;

    fn read_all(hide_usage: bool, text: &str) -> (Vec<StreamEvent>, Reader) {
        read_asked(1, hide_usage, text)
    }

    fn read_asked(asked: u64, hide_usage: bool, text: &str) -> (Vec<StreamEvent>, Reader) {
        let mut framer = Framer::default();
        framer.push(Bytes::copy_from_slice(text.as_bytes()));
        let mut reader = Reader::new(super::super::variant::ALL[0], hide_usage, asked);
        let mut events = Vec::new();
        while let Some(frame) = framer.next_frame().unwrap() {
            events.push(reader.read(&frame));
        }
        (events, reader)
    }

    fn names(events: &[StreamEvent]) -> Vec<&'static str> {
        events
            .iter()
            .map(|event| match event {
                StreamEvent::Preamble(_) => "preamble",
                StreamEvent::Content(_) => "content",
                StreamEvent::Hidden => "hidden",
                StreamEvent::Done => "done",
                StreamEvent::Failed(_) => "failed",
            })
            .collect()
    }

    const STREAM: &str = concat!(
        ": hi\n\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null},\"finish_reason\":null}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"eos\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    #[test]
    fn a4_what_commits_and_what_does_not() {
        let (events, reader) = read_all(true, STREAM);
        assert_eq!(
            names(&events),
            ["preamble", "preamble", "preamble", "content", "content", "hidden", "done"]
        );
        assert!(reader.complete());
        assert_eq!(reader.usage(), Some(Usage { input: 7, output: 2, ..Usage::default() }));
        assert_eq!(reader.finish_reason(), Some("eos"));
        assert!(matches!(&events[4], StreamEvent::Content(wire)
            if std::str::from_utf8(wire).unwrap().contains("\"finish_reason\":\"stop\"")));
        let (events, _) = read_all(false, STREAM);
        assert_eq!(names(&events)[5], "preamble", "the caller asked for it");
    }

    #[test]
    fn every_finish_reason_of_a_chunk_counts() {
        let chunk = |first: &str, second: &str| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{first}\"}},{{\"index\":1,\"delta\":{{}},\"finish_reason\":\"{second}\"}}]}}\n\n"
            )
        };
        assert_eq!(names(&read_all(false, &chunk("abort", "stop")).0), ["failed"]);
        let (events, reader) = read_all(false, &chunk("eos", "eos"));
        assert!(reader.complete());
        assert!(matches!(&events[0], StreamEvent::Content(wire)
            if std::str::from_utf8(wire).unwrap().matches("\"stop\"").count() == 2));
    }

    #[test]
    fn every_choice_must_finish() {
        let chunk = |index: u8, reason: &str| {
            format!(
                "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"x\"}},\"finish_reason\":{reason}}}]}}\n\n"
            )
        };
        let (_, reader) = read_all(false, &[chunk(0, "\"stop\""), chunk(1, "null")].concat());
        assert!(!reader.complete());
        let (_, reader) = read_all(false, &[chunk(0, "\"stop\""), chunk(1, "\"length\"")].concat());
        assert!(reader.complete());
        let (_, reader) = read_all(false, "data: [DONE]\n\n");
        assert!(!reader.complete(), "[DONE] alone proves nothing");
        let first = chunk(0, "\"stop\"");
        assert!(read_asked(1, false, &first).1.whole());
        let (_, reader) = read_asked(2, false, &first);
        assert!(reader.complete() && !reader.whole(), "the second may still come");
        let both = [first, chunk(1, "\"stop\"")].concat();
        assert!(read_asked(2, false, &both).1.whole());
    }

    #[test]
    fn c3_errors_in_the_stream_are_errors() {
        for text in [
            "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n",
            "data: {\"error\":\"boom\"}\n\n",
            "event: error\ndata: {\"message\":\"boom\"}\n\n",
            "data: {\"object\":\"error\",\"message\":\"boom\",\"code\":500}\n\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"abort\"}]}\n\n",
        ] {
            assert_eq!(names(&read_all(false, text).0), ["failed"], "{text}");
        }
        assert_eq!(names(&read_all(false, "data: {oops\n\n").0), ["failed"]);
        let nan = "data: {\"choices\":[{\"delta\":{\"content\":\"A\"},\"logprobs\":NaN}]}\n\n";
        assert_eq!(names(&read_all(false, nan).0), ["content"]);
        let ping = "data: {\"type\":\"ping\",\"message\":\"keepalive\"}\n\n";
        assert_eq!(names(&read_all(false, ping).0), ["preamble"]);
    }
}
