//! Zhipu (BigModel, Z.ai), which serves GLM. The status is nearly useless: 429 is concurrency,
//! overload, an empty purse, a plan that ended. The code decides, a number written as text.
//!
//! Sources: Zhipu's list of API error codes; request types of its Python SDK.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};

use super::{Rule, Variant};
use crate::{
    chat::finish::Finish,
    errors::{Row, any, code},
    fault::Level::Account,
    wait::Until,
};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    members: &[
        ("max_completion_tokens", Rule::Rename("max_tokens")),
        // The interval is open at both ends.
        ("temperature", Rule::Clamp(0.01, 0.99)),
        ("top_p", Rule::Clamp(0.01, 0.99)),
        ("n", Rule::Only(&["1"], "it gives one answer")),
        ("logprobs", Rule::Only(&["false"], "it gives no log-probabilities")),
        ("top_logprobs", Rule::Only(&["0"], "it gives no log-probabilities")),
        ("response_format", Rule::NoType("json_schema", "it knows json_object")),
        ("tool_choice", Rule::NoToolChoice),
        ("user", Rule::Drop),
        ("seed", Rule::Drop),
        ("logit_bias", Rule::Drop),
        ("presence_penalty", Rule::Drop),
        ("frequency_penalty", Rule::Drop),
        ("metadata", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
        (
            "reasoning_effort",
            Rule::Becomes(
                "thinking",
                &[("\"none\"", r#"{"type":"disabled"}"#), ("", r#"{"type":"enabled"}"#)],
            ),
        ),
        ("parallel_tool_calls", Rule::Drop),
    ],
    finishes: &[
        ("sensitive", Finish::As("content_filter")),
        ("network_error", Finish::Failed(ProviderError)),
        ("model_context_window_exceeded", Finish::As("length")),
    ],
    ..Variant::new("zhipu-glm", ROWS)
};

const ROWS: &[Row] = &[
    code("500").means(ProviderError),
    code("1000").means(KeyRefused),
    code("1001").means(KeyRefused),
    code("1002").means(KeyRefused),
    code("1003").means(KeyRefused),
    code("1004").means(KeyRefused),
    code("1005").means(KeyRefused),
    code("1110").means(KeyRefused).of(Account),
    code("1111").means(KeyRefused).of(Account),
    code("1112").means(KeyRefused).of(Account),
    code("1113").means(QuotaExhausted).of(Account),
    code("1120").means(RateLimited).of(Account).rest_s(300),
    code("1121").means(KeyRefused).of(Account),
    code("1200").means(ProviderError),
    code("1210").means(InvalidRequest),
    code("1211").means(ModelMissing),
    code("1212").means(InvalidRequest),
    code("1213").means(InvalidRequest),
    code("1214").means(InvalidRequest),
    code("1215").means(InvalidRequest),
    code("1220").means(PermissionDenied),
    code("1221").means(ModelMissing),
    code("1222").means(ModelMissing),
    code("1230").means(ProviderError),
    // A request id that was used before: another attempt has another.
    code("1231").means(ProviderError),
    code("1234").means(ProviderError),
    code("1261").means(ContextTooLong),
    code("1300").means(ContentFiltered),
    code("1301").means(ContentFiltered),
    code("1302").means(RateLimited).rest_s(2),
    code("1303").means(RateLimited).rest_s(3),
    code("1304").means(QuotaExhausted).until(Until::Midnight("Asia/Shanghai")),
    code("1305").means(Overloaded),
    code("1308").means(QuotaExhausted).of(Account),
    code("1309").means(QuotaExhausted).of(Account),
    code("1310").means(QuotaExhausted).of(Account),
    code("1311").means(PermissionDenied),
    code("1312").means(Overloaded),
    code("1313").means(RateLimited).rest_s(600),
    any().at(434).means(PermissionDenied),
    any().at(435).means(InvalidRequest),
];
