//! SGLang, a server that people run themselves.
//!
//! Source: SGLang's `entrypoints/openai`.

use sluicegate_model::Outcome::ProviderError;

use super::{Variant, vllm};
use crate::chat::finish::Finish;

pub(super) const VARIANT: Variant = Variant {
    finishes: &[("abort", Finish::Failed(ProviderError))],
    ..Variant::new("sglang", vllm::ROWS)
};
