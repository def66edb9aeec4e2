//! When things happened.

use tokio::time::Instant;

use crate::expect::Timing;
use crate::findings::Findings;
use crate::play::Played;

pub(super) fn judge(expect: &Timing, played: &Played, findings: &mut Findings) {
    let (reply, call) = (&played.reply, played.calls.last());
    let between =
        |from: Option<Instant>, to: Option<Instant>| Some(to?.saturating_duration_since(from?));
    for gap in &expect.gaps {
        let took = between(reply.event_at(&gap.from), reply.event_at(&gap.to));
        findings.at_least(&format!("{} after {}", gap.to, gap.from), took, gap.at_least);
    }
    for relay in &expect.relays {
        let written = call.and_then(|call| match &relay.write {
            Some(text) => call.writes.iter().find(|w| w.text == text.as_bytes()).map(|w| w.at),
            None => call.written_at(&relay.event),
        });
        let took = between(written, reply.event_at(&relay.event));
        findings.at_most(&format!("{} on its way", relay.event), took, relay.within);
    }
    if let Some(limit) = expect.over_within {
        let took = between(Some(reply.sent_at), reply.over_at());
        findings.at_most("end of the reply", took, limit);
    }
    if let Some(limit) = expect.over_after_upstream {
        let took = between(call.and_then(|call| call.answered_at), reply.over_at());
        findings.at_most("end of the reply after the upstream's", took, limit);
    }
    if let Some((least, most)) = expect.over_after_text {
        let took = between(reply.event_at("\"content\""), reply.over_at());
        findings.at_least("end of the reply after the text", took, least);
        findings.at_most("end of the reply after the text", took, most);
    }
    let closed = call.and_then(|call| call.closed).map(|closed| closed.at);
    if let Some(limit) = expect.upstream_closed_within {
        let took = between(Some(reply.sent_at), closed);
        findings.at_most("close of the upstream connection after the request", took, limit);
    }
    if let Some(limit) = expect.upstream_closed {
        let left = reply.over_at().or(reply.closed_at);
        let took = between(left, closed);
        findings.at_most("close of the upstream connection", took, limit);
    }
}
