//! A server of which nothing is known: what most of them have in common.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    ProviderError, QuotaExhausted, RateLimited,
};

use super::{Cap, Variant};
use crate::{
    chat::finish::{Finish, Finishes},
    errors::{Row, any, code},
};

pub(super) const VARIANT: Variant =
    Variant { cap: Cap::ByModel(&["o1", "o3", "o4", "gpt-5"]), ..Variant::new("generic", ROWS) };

/// Codes and types as OpenAI has them, and the words in which servers say that a prompt is too long.
///
/// Sources: OpenAI's error-code guide and its published API description; vLLM's and SGLang's
/// `entrypoints/openai`.
const ROWS: &[Row] = &[
    code("context_length_exceeded").means(ContextTooLong),
    code("content_filter").means(ContentFiltered),
    code("content_policy_violation").means(ContentFiltered),
    code("invalid_api_key").means(KeyRefused),
    code("insufficient_quota").means(QuotaExhausted),
    code("credit_balance_exhausted").means(QuotaExhausted),
    code("organization_usage_limit_exceeded").means(QuotaExhausted),
    code("organization_spend_limit_exceeded").means(QuotaExhausted),
    code("project_spend_limit_exceeded").means(QuotaExhausted),
    code("quota_exceeded").means(QuotaExhausted),
    code("RESOURCE_EXHAUSTED").at(500).means(QuotaExhausted),
    code("insufficient_balance").means(QuotaExhausted),
    any().at(403).saying(&["insufficient balance"]).means(QuotaExhausted),
    code("model_not_found").means(ModelMissing),
    code("rate_limit_exceeded").means(RateLimited),
    code("slow_down").means(RateLimited),
    code("server_is_overloaded").means(Overloaded),
    any().at(400).saying(&["maximum context length"]).means(ContextTooLong),
    any().at(400).saying(&["longer than the maximum model length"]).means(ContextTooLong),
    any().at(200).saying(&["maximum context length"]).means(ContextTooLong),
    code("rate_limit_error").means(RateLimited),
    code("service_unavailable_error").means(Overloaded),
    code("overloaded_error").means(Overloaded),
    code("NotFoundError").at(404).means(ModelMissing),
    code("invalid_request_error").at(200).means(InvalidRequest),
    code("BadRequestError").at(200).means(InvalidRequest),
    code("InternalServerError").at(200).means(ProviderError),
];

/// Words for the end of an answer that are not OpenAI's but are met at several servers.
pub(crate) const FINISHES: Finishes = &[
    ("eos", Finish::As("stop")),
    ("eos_token", Finish::As("stop")),
    ("end_turn", Finish::As("stop")),
    ("stop_sequence", Finish::As("stop")),
    ("STOP", Finish::As("stop")),
    ("max_tokens", Finish::As("length")),
    ("model_length", Finish::As("length")),
    ("MAX_TOKENS", Finish::As("length")),
    ("model_context_window_exceeded", Finish::As("length")),
    ("tool_use", Finish::As("tool_calls")),
    ("sensitive", Finish::As("content_filter")),
    ("abort", Finish::Failed(ProviderError)),
    ("error", Finish::Failed(ProviderError)),
    ("network_error", Finish::Failed(ProviderError)),
    ("insufficient_system_resource", Finish::Failed(Overloaded)),
];
