//! DeepSeek. Its `code` says `invalid_request_error` under 401 and 402, too: the status decides, then
//! the type. Words such as "balance" stand in the text of a limit on concurrency.
//!
//! Sources: DeepSeek's API documentation (error codes, rate limit, thinking mode).

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    ProviderError, QuotaExhausted, RateLimited,
};

use super::{Rule, Variant};
use crate::{
    call::Endpoint,
    errors::{Row, any},
    fault::Level::Account,
};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    lacks: &[Endpoint::Embeddings],
    members: &[
        ("max_completion_tokens", Rule::Rename("max_tokens")),
        ("response_format", Rule::NoType("json_schema", "it knows json_object")),
        ("n", Rule::Only(&["1"], "it gives one answer")),
        ("user", Rule::Rename("user_id")),
        ("seed", Rule::Drop),
        ("logit_bias", Rule::Drop),
        ("metadata", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
        ("parallel_tool_calls", Rule::Drop),
    ],
    ..Variant::new("deepseek", ROWS)
};

const ROWS: &[Row] = &[
    any().at(401).means(KeyRefused),
    any().at(402).means(QuotaExhausted).of(Account),
    any().at(400).saying(&["maximum context length"]).means(ContextTooLong),
    any().at(400).saying(&["Content Exists Risk"]).means(ContentFiltered),
    any().at(400).saying(&["Model Not Exist"]).means(ModelMissing),
    any().at(400).means(InvalidRequest),
    any().at(422).means(InvalidRequest),
    any().at(429).means(RateLimited).of(Account).rest_s(1),
    any().at(500).means(ProviderError),
    any().at(503).means(Overloaded),
];
