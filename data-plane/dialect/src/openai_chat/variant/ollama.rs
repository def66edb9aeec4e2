//! Ollama, a server that people run themselves. It takes the bytes of images only, and passes over
//! members that it does not know.
//!
//! Sources: Ollama's `middleware/openai.go` and its pages on compatibility and errors.

use sluicegate_model::Outcome::{
    InvalidRequest, KeyRefused, ModelMissing, Overloaded, ProviderError, QuotaExhausted,
};

use super::{Rule, Variant};
use crate::errors::{Row, any, code};

pub(super) const VARIANT: Variant = Variant {
    image_urls: false,
    reasoning: Some("reasoning"),
    members: &[
        ("n", Rule::Only(&["1"], "it gives one answer")),
        ("tool_choice", Rule::NoToolChoice),
        ("logprobs", Rule::Only(&["false"], "it gives no log-probabilities")),
        ("logit_bias", Rule::Drop),
        ("user", Rule::Drop),
    ],
    ..Variant::new("ollama", ROWS)
};

const ROWS: &[Row] = &[
    any().at(401).means(KeyRefused),
    code("not_found_error").means(ModelMissing),
    any().at(404).means(ModelMissing),
    // Its cloud's limits are by the hour, the session and the week.
    any().at(429).means(QuotaExhausted),
    any().at(503).means(Overloaded),
    code("invalid_request_error").means(InvalidRequest),
    any().at(500).means(ProviderError),
    code("api_error").means(ProviderError),
];
