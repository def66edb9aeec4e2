//! OpenAI itself.
//!
//! Sources: OpenAI's error-code guide, rate-limit guide and published API description; the retry
//! rules of its Python SDK.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};

use super::{Cap, Variant};
use crate::{
    errors::{Errors, Resets, Row, any, code},
    fault::Level::{Account, Nobody},
};

pub(super) const VARIANT: Variant = Variant {
    errors: Errors { rows: ROWS, resets: Resets::GoDuration },
    cap: Cap::ByModel(&["o1", "o3", "o4", "gpt-5"]),
    ..Variant::new("openai", ROWS)
};

const ROWS: &[Row] = &[
    code("context_length_exceeded").means(ContextTooLong),
    code("content_policy_violation").means(ContentFiltered),
    code("content_filter").means(ContentFiltered),
    code("invalid_api_key").means(KeyRefused),
    // Where the request comes from is refused, whichever key it has.
    any().at(403).saying(&["country, region, or territory"]).means(PermissionDenied).of(Nobody),
    code("unsupported_country_region_territory").means(PermissionDenied).of(Nobody),
    code("model_not_found").means(ModelMissing),
    // The path is not there, or not for this model.
    any().at(404).saying(&["Invalid URL"]).means(ProviderError),
    any().at(404).saying(&["not supported in the v1/"]).means(InvalidRequest),
    code("insufficient_quota").means(QuotaExhausted).of(Account),
    code("credit_balance_exhausted").means(QuotaExhausted).of(Account),
    code("organization_usage_limit_exceeded").means(QuotaExhausted).of(Account),
    code("organization_spend_limit_exceeded").means(QuotaExhausted).of(Account),
    code("project_spend_limit_exceeded").means(QuotaExhausted).of(Account),
    code("slow_down").means(RateLimited).of(Account).rest_s(15),
    code("rate_limit_exceeded").means(RateLimited),
    code("rate_limit_error").means(RateLimited),
    code("server_is_overloaded").means(Overloaded),
    code("service_unavailable_error").means(Overloaded),
    code("server_error").means(ProviderError),
];
