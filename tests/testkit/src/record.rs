//! Access records as the gateway prints them: one JSON object a line.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::process::Lines;

/// What one request did. Only what tests look at; the whole line is in `raw`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AccessRecord {
    pub request_id: String,
    pub key: Option<String>,
    pub model: Option<String>,
    pub status: Option<u16>,
    pub outcome: String,
    pub finish_reason: Option<String>,
    pub deferred: Option<String>,
    pub attempts: Vec<Attempt>,
    pub usage: Option<Usage>,
    pub latency_ms: Latency,
    pub events: Option<u64>,
    pub malformed_events: Option<u64>,
    #[serde(skip)]
    pub raw: String,
}

/// One try at one target.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Attempt {
    pub provider: String,
    pub credential: Option<String>,
    pub outcome: String,
    pub status: Option<u16>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
    /// Whether the gateway counted for itself because the provider did not say.
    pub estimated: bool,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Latency {
    pub queue: Option<f64>,
    pub first_event: Option<f64>,
    pub total: Option<f64>,
}

impl AccessRecord {
    /// Reads a line of output; `None` if it is no access record.
    pub fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        if value.get("record")? != "access" {
            return None;
        }
        let record = serde_json::from_value(value).ok()?;
        Some(Self { raw: line.to_owned(), ..record })
    }
}

/// Waits for the record of a request.
pub async fn record_of(
    output: &Lines,
    request_id: &str,
    limit: Duration,
) -> anyhow::Result<AccessRecord> {
    let pick = |line: &str| {
        let may_be_it = line.contains(request_id);
        may_be_it.then(|| AccessRecord::parse(line))?.filter(|r| r.request_id == request_id)
    };
    output.find(limit, &format!("the access record of {request_id}"), pick).await
}
