//! What must come of an exchange, as data. Exactly one of the first eight members says what kind of
//! reply there is; the others look at one thing each.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Expectations of one exchange.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Expect {
    /// A complete event stream with this text. Unless said otherwise: finish reason `stop`, one end
    /// marker, one upstream call, and a record of success with usage 7/2.
    pub(crate) stream: Option<String>,
    /// A complete JSON answer with this text; likewise one call and a record of success.
    pub(crate) answer: Option<String>,
    /// Some complete JSON with status 200; likewise one call and a record of success if POSTed.
    pub(crate) json: bool,
    /// An error object.
    pub(crate) error: Option<ErrorExpect>,
    /// A stream with this text, then an error event and neither finish reason nor end marker.
    pub(crate) broken_stream: Option<String>,
    /// Status 200 and no body.
    pub(crate) empty: bool,
    /// No reply worth looking at: the client left.
    pub(crate) left: bool,
    /// So many replies of each status, all those that are not 200 being error objects; for
    /// exchanges that run at once. The number of upstream calls is that of all of them.
    pub(crate) statuses: BTreeMap<u16, usize>,

    /// Not all of the reply is JSON by the standard. Events that are not give no text.
    pub(crate) odd_json: bool,
    /// Allowed finish reasons of a stream; `null` allows none at all too.
    pub(crate) finish: Option<Vec<Option<String>>>,
    /// Headers of the reply: their value, or `null` for absent.
    pub(crate) headers: BTreeMap<String, Option<String>>,
    /// Texts that head and body of the reply lack.
    pub(crate) lacks: Vec<String>,
    /// Texts that the body has, letter for letter.
    pub(crate) has: Vec<String>,
    /// Members of a JSON reply by pointer.
    pub(crate) members: BTreeMap<String, Value>,
    /// The `id` of each entry of a model list, as the table names the model.
    pub(crate) listed: Option<Vec<String>>,
    /// The texts of a field over all deltas of a stream.
    pub(crate) deltas: BTreeMap<String, Vec<String>>,
    /// The JSON of the reply is the upstream's, but for `id` and `model`.
    pub(crate) same_json: bool,

    /// Where limits of the cell stand once all of the exchange has settled: least and most used,
    /// and nothing reserved.
    pub(crate) limits: BTreeMap<String, (f64, f64)>,
    /// How keys of the cell stand once the exchange is over: provider and key, as `p1/k1`.
    pub(crate) key_states: BTreeMap<String, String>,
    /// How often the breaker of each provider of the cell has opened by then.
    pub(crate) opened: BTreeMap<String, u64>,
    pub(crate) timing: Timing,
    pub(crate) upstream: UpstreamExpect,
    pub(crate) record: RecordExpect,
}

impl Expect {
    /// How many kinds of reply are asked for; a sound table asks for one.
    pub(crate) fn kinds(&self) -> usize {
        let kinds = [
            self.stream.is_some(),
            self.answer.is_some(),
            self.json,
            self.error.is_some(),
            self.broken_stream.is_some(),
            self.empty,
            self.left,
            !self.statuses.is_empty(),
        ];
        kinds.into_iter().filter(|&kind| kind).count()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ErrorExpect {
    /// Allowed statuses.
    pub(crate) status: Vec<u16>,
    /// Part of the message.
    pub(crate) message: Option<String>,
    pub(crate) param: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// With status 429 or 503, `retry-after` is a positive integer of at most this.
    pub(crate) retry_after_at_most: Option<u64>,
}

/// When things happen. All in milliseconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Timing {
    /// Events that the client sees at least so far apart.
    pub(crate) gaps: Vec<Gap>,
    /// Events that reach the client soon after a write of the upstream.
    pub(crate) relays: Vec<Relay>,
    /// The reply is over so soon after the request was sent.
    pub(crate) over_within: Option<u64>,
    /// The reply is over so soon after the upstream's script was.
    pub(crate) over_after_upstream: Option<u64>,
    /// The reply is over between so much and so much after the event with text.
    pub(crate) over_after_text: Option<(u64, u64)>,
    /// The upstream sees its connection closed so soon after the client closed, or saw the end.
    pub(crate) upstream_closed: Option<u64>,
    /// The upstream sees its connection closed so soon after the request was sent.
    pub(crate) upstream_closed_within: Option<u64>,
}

impl Timing {
    /// Whether the close of the upstream connection matters.
    pub(crate) fn wants_close(&self) -> bool {
        self.upstream_closed.is_some() || self.upstream_closed_within.is_some()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gap {
    /// Part of the data of the earlier event.
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) at_least: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Relay {
    /// Part of the data of the event.
    pub(crate) event: String,
    /// Whole text of the write.
    pub(crate) write: Option<String>,
    pub(crate) within: u64,
}

/// What the upstream saw.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UpstreamExpect {
    /// Number of calls: fewest and most.
    pub(crate) calls: Option<(usize, usize)>,
    /// Keys of the calls, the last ones of the exchange.
    pub(crate) keys: Option<Vec<String>>,
    /// Providers of the calls.
    pub(crate) providers: Option<Vec<String>>,
    /// Target of the last call without what selects the cell.
    pub(crate) target: Option<String>,
    /// Headers of each call: part of their value, or `null` for absent.
    pub(crate) headers: BTreeMap<String, Option<String>>,
    /// The JSON of each call is the caller's, key order included, but for `model` and
    /// `stream_options`.
    pub(crate) same_json: bool,
    /// Texts that the body of each call has, letter for letter.
    pub(crate) has: Vec<String>,
}

/// What the access record says.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RecordExpect {
    /// Whether there is no look at the record at all.
    pub(crate) skip: bool,
    /// Allowed outcomes.
    pub(crate) outcome: Vec<String>,
    pub(crate) status: Option<u16>,
    pub(crate) usage: Option<UsageExpect>,
    pub(crate) finish_reason: Option<String>,
    /// Number of attempts.
    pub(crate) attempts: Option<usize>,
    /// There are as many attempts as upstream calls.
    pub(crate) attempts_are_calls: bool,
    /// Outcomes of the attempts, in order.
    pub(crate) attempt_outcomes: Option<Vec<String>>,
    /// Least time to the first event.
    pub(crate) first_event_at_least_ms: Option<f64>,
    /// Texts that the line lacks.
    pub(crate) lacks: Vec<String>,
}

/// Tokens in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsageExpect {
    /// Input and output tokens.
    Is(u64, u64),
    /// Some input tokens, and fewest and most output tokens, by the gateway's own count.
    Estimated(u64, u64),
    /// Some of both.
    Nonzero,
    /// None of either, or nothing said.
    Zero,
}
