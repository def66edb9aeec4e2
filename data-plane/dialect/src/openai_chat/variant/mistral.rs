//! Mistral. Unknown members are refused with 422. A key whose plan is used up gets the very bytes of a
//! wrong key; too little capacity calls itself an invalid request.
//!
//! Sources: Mistral's error glossary and API reference.

use sluicegate_model::Outcome::{
    ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded, PermissionDenied,
    ProviderError, QuotaExhausted, RateLimited,
};

use super::{Rule, Variant};
use crate::{
    call::Endpoint,
    chat::finish::Finish,
    errors::{Row, any, code},
};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    ask_usage: false,
    lacks: &[Endpoint::Completions],
    members: &[
        ("max_completion_tokens", Rule::Rename("max_tokens")),
        ("seed", Rule::Rename("random_seed")),
        ("tool_choice", Rule::Words(&[("required", "any")])),
        ("temperature", Rule::Clamp(0.0, 1.5)),
        ("logprobs", Rule::Only(&["false"], "it gives no log-probabilities")),
        ("top_logprobs", Rule::Only(&["0"], "it gives no log-probabilities")),
        ("stream_options", Rule::Drop),
        ("user", Rule::Drop),
        ("safety_identifier", Rule::Drop),
        ("prompt_cache_key", Rule::Drop),
        ("logit_bias", Rule::Drop),
        ("metadata", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
        (
            "reasoning_effort",
            Rule::Becomes("prompt_mode", &[("\"none\"", "null"), ("", "\"reasoning\"")]),
        ),
        ("verbosity", Rule::Drop),
    ],
    finishes: &[("model_length", Finish::As("length")), ("error", Finish::Failed(ProviderError))],
    ..Variant::new("mistral", ROWS)
};

const ROWS: &[Row] = &[
    any().saying(&["service tier capacity exceeded"]).means(Overloaded),
    code("3505").means(Overloaded),
    code("service_tier_capacity_exceeded").means(Overloaded),
    any().at(400).saying(&["maximum context length"]).means(ContextTooLong),
    any().at(400).saying(&["too large for model with", "maximum context"]).means(ContextTooLong),
    any().at(401).means(KeyRefused),
    any().at(402).means(QuotaExhausted),
    any().at(403).means(PermissionDenied),
    code("1500").means(ModelMissing),
    code("invalid_model").means(ModelMissing),
    any().at(422).means(InvalidRequest),
    code("1300").means(RateLimited).rest_s(1),
    code("rate_limited").means(RateLimited).rest_s(1),
    any().at(429).means(RateLimited).rest_s(1),
];
