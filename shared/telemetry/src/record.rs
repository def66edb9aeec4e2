//! The access record: one JSON line for each request, whatever became of it.

use std::io::Write;

use serde::Serialize;
use tokio::sync::mpsc;

/// Longest queue of records that wait for the writer. A full queue drops records and counts them:
/// a slow log never slows traffic.
const QUEUE: usize = 16_384;

/// What one request did. Field order is the order in the line. Absent facts are left out, never
/// invented.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AccessRecord {
    /// Constant `access`: tells these lines from others on the same stream.
    pub record: &'static str,
    /// Arrival, RFC 3339 in UTC.
    pub time: String,
    /// The request id that the caller got back and the upstream was sent.
    pub request_id: String,
    /// W3C trace id, when the caller sent one or we made one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Name of the caller's key; never the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The caller's `X-App-Source`, capped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Client address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The model name as the caller spelt it, capped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `chat`, `completions`, `embeddings`, `models`, `classify` for a question of our own about where a
    /// task goes, or `other`.
    pub endpoint: &'static str,
    pub stream: bool,
    /// HTTP status sent to the caller; 499 when the caller left before there was one.
    pub status: u16,
    /// What became of the request: `success`, `client_cancelled`, `rejected`, or an upstream outcome.
    pub outcome: &'static str,
    /// Code of the error the caller saw, when it saw one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Redacted reason for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The limit that refused, with its numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitRecord>,
    /// Finish reason as the upstream spelt it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The target that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetRecord>,
    /// Where the task went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteRecord>,
    /// The model that answered in the place of the one that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FallbackRecord>,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageRecord>,
    pub latency_ms: LatencyRecord,
    /// Revision of the policy that the request ran under.
    pub policy_version: u64,
    /// Events relayed, for streams.
    pub events: u64,
}

/// A target as records name it.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct TargetRecord {
    pub provider: String,
    /// The model name that was sent upstream.
    pub model: String,
    /// Alias of the provider key, absent for keyless providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// The model that a task went to.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct RouteRecord {
    /// Its public name.
    pub model: String,
    /// What decided, such as `rule:long`.
    pub by: String,
    /// Models whose answers were not good enough, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOverRecord>,
}

/// An answer that was made and not used.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct PassedOverRecord {
    pub model: String,
    /// It was paid for all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageRecord>,
}

/// Another model than the one that was asked for.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct FallbackRecord {
    /// Its public name.
    pub model: String,
    /// `unavailable`, `context_length` or `content_filter`.
    pub reason: &'static str,
}

/// One attempt at one target.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AttemptRecord {
    #[serde(flatten)]
    pub target: TargetRecord,
    pub outcome: &'static str,
    /// HTTP status of the upstream, when one came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Redacted reason, capped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it was put off, so that what had failed could pass.
    #[serde(skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// The upstream cannot have seen it.
    #[serde(skip_serializing_if = "is_false")]
    pub unsent: bool,
    pub duration_ms: u64,
}

/// A limit that refused. Amounts are in requests, tokens, units or dollars.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct LimitRecord {
    pub name: String,
    /// Whom it counts, such as `key=alice`.
    pub scope: String,
    pub dimension: &'static str,
    pub window: String,
    pub limit: String,
    pub used: String,
    pub reserved: String,
    pub remaining: String,
    /// What the request needed.
    pub asked: String,
    pub reset_ms: u64,
    pub retry_ms: u64,
}

/// Tokens of the answer that was served.
#[derive(Debug, Clone, Copy, Default, Serialize, PartialEq, Eq)]
pub struct UsageRecord {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// True when the upstream reported nothing and we counted.
    pub estimated: bool,
    /// Millionths of a unit, by the model's weights.
    #[serde(skip_serializing_if = "is_zero")]
    pub micro_units: u64,
    /// Nano-dollars, by the model's prices.
    #[serde(skip_serializing_if = "is_zero")]
    pub cost_nano: u64,
}

/// Milliseconds since arrival.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LatencyRecord {
    /// Until the first attempt started.
    pub queue: f64,
    /// Until the first meaningful event or the answer's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_event: Option<f64>,
    /// Until the last byte was handed to the caller's connection.
    pub total: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Takes records without waiting; a thread of its own writes them.
#[derive(Debug, Clone)]
pub struct RecordSink {
    queue: mpsc::Sender<AccessRecord>,
}

impl RecordSink {
    /// Starts the writer. It ends, with everything written, when the last clone of the sink is gone;
    /// joining the handle waits for that.
    pub fn start(mut out: impl Write + Send + 'static) -> (Self, std::thread::JoinHandle<()>) {
        let (queue, mut records) = mpsc::channel::<AccessRecord>(QUEUE);
        let writer = std::thread::Builder::new()
            .name("access-records".into())
            .spawn(move || {
                let mut line = Vec::with_capacity(1024);
                while let Some(record) = records.blocking_recv() {
                    line.clear();
                    write_line(&mut line, &record);
                    // Take what else is waiting, so that a burst costs few system calls.
                    while line.len() < 64 * 1024
                        && let Ok(record) = records.try_recv()
                    {
                        write_line(&mut line, &record);
                    }
                    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
                        // A closed pipe or a full disk: records go nowhere, traffic goes on.
                        continue;
                    }
                }
            })
            .expect("the operating system refuses a thread at start-up");
        (Self { queue }, writer)
    }

    /// Queues a record. `false` when the queue is full and the record was dropped.
    pub fn put(&self, record: AccessRecord) -> bool {
        self.queue.try_send(record).is_ok()
    }
}

fn write_line(line: &mut Vec<u8>, record: &AccessRecord) {
    let start = line.len();
    match serde_json::to_writer(&mut *line, record) {
        Ok(()) => line.push(b'\n'),
        Err(_) => line.truncate(start),
    }
}
