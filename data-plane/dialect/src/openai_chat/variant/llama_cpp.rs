//! llama.cpp's server, which people run themselves. A stream that it refuses is an error event under
//! status 200.
//!
//! Source: captures of its streams (ggml-org/llama.cpp#14566).

use sluicegate_model::Outcome::{ContextTooLong, InvalidRequest, Overloaded, ProviderError};

use super::Variant;
use crate::errors::{Row, any, code};

pub(super) const VARIANT: Variant = Variant::new("llama-cpp", ROWS);

const ROWS: &[Row] = &[
    code("exceed_context_size_error").means(ContextTooLong),
    any().at(400).saying(&["exceeds the available context size"]).means(ContextTooLong),
    any().at(503).means(Overloaded),
    code("unavailable_error").means(Overloaded),
    code("invalid_request_error").means(InvalidRequest),
    code("server_error").means(ProviderError),
];
