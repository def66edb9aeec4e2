//! Seventh stage: what the answer cost, on every way a request can end.

use sluicegate_dialect::Call;
use sluicegate_model::Usage;

use crate::report::Report;

/// What is known of a request's size when its answer begins.
#[derive(Debug, Clone, Copy)]
pub struct Estimate {
    input_tokens: u64,
}

impl Estimate {
    /// Sizes up a call.
    pub fn of(call: &Call) -> Self {
        Self { input_tokens: call.rough_prompt_tokens() }
    }
}

/// Puts the answer's tokens into the record: as the upstream reported them, else as estimated from
/// what passed, and marked so. `output_chars` are characters of text.
pub fn settle(report: &mut Report, reported: Option<Usage>, estimate: Estimate, output_chars: u64) {
    match reported {
        Some(usage) => report.usage(usage, false),
        None => {
            let usage = Usage {
                input: estimate.input_tokens.max(1),
                // About four characters a token, and at least one where anything was said.
                output: output_chars.div_ceil(4),
                ..Usage::default()
            };
            report.usage(usage, true);
        }
    }
}
