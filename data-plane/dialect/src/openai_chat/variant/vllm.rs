//! vLLM, a server that people run themselves. It queues without bound unless it is told otherwise.
//!
//! Source: vLLM's `entrypoints/openai`.

use sluicegate_model::Outcome::{
    ContextTooLong, InvalidRequest, ModelMissing, Overloaded, ProviderError,
};

use super::Variant;
use crate::{
    chat::finish::Finish,
    errors::{Row, any, code},
};

pub(super) const VARIANT: Variant = Variant {
    reasoning: Some("reasoning"),
    finishes: &[("abort", Finish::Failed(ProviderError)), ("error", Finish::Failed(ProviderError))],
    ..Variant::new("vllm", ROWS)
};

pub(super) const ROWS: &[Row] = &[
    any().saying(&["maximum context length"]).means(ContextTooLong),
    any().saying(&["longer than the maximum model length"]).means(ContextTooLong),
    any().saying(&["longer than the model's context length"]).means(ContextTooLong),
    any().at(400).saying(&["max_tokens", "too large"]).means(ContextTooLong),
    any().at(400).saying(&["max_completion_tokens", "too large"]).means(ContextTooLong),
    code("NotFoundError").at(404).means(ModelMissing),
    // The path is not there: the base URL is wrong, or the server serves something else.
    any().at(404).saying(&["Not Found"]).means(ProviderError),
    code("NotImplementedError").means(InvalidRequest),
    any().at(503).means(Overloaded),
    code("BadRequestError").means(InvalidRequest),
    code("UnprocessableEntityError").means(InvalidRequest),
    code("InternalServerError").means(ProviderError),
    code("GenerationError").means(ProviderError),
];
