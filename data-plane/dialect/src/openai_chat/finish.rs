//! Finish reasons: what compatible servers say, and what OpenAI's clients know.

use std::ops::Range;

use sluicegate_model::Outcome;

use crate::{fault::Fault, splice::Splices};

/// Judges every finish reason of a chunk or an answer: the renamings for the caller, and the last
/// reason as it was spelt.
///
/// # Errors
/// When a choice says that the server gave up.
pub(super) fn judge(
    reasons: Vec<(Range<usize>, String)>,
) -> Result<(Splices, Option<String>), Fault> {
    let mut splices = Splices::default();
    let mut last = None;
    for (span, reason) in reasons {
        match read(&reason) {
            Finish::Known => {}
            Finish::Renamed(name) => splices.replace(span, format!("\"{name}\"")),
            Finish::Failed => {
                let message = format!("the provider gave up with finish reason '{reason}'");
                return Err(Fault::new(Outcome::ProviderError, message));
            }
        }
        last = Some(reason);
    }
    Ok((splices, last))
}

/// What a finish reason proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    /// The answer is whole; the reason is one that clients know.
    Known,
    /// The answer is whole; clients know the reason by this name.
    Renamed(&'static str),
    /// The server gave up: the answer is not whole.
    Failed,
}

/// Reads a reason. One that nobody has heard of passes as it is: the answer is whole.
fn read(reason: &str) -> Finish {
    match reason {
        "stop" | "length" | "tool_calls" | "content_filter" | "function_call" => Finish::Known,
        "eos" | "eos_token" | "end_turn" | "stop_sequence" | "STOP" => Finish::Renamed("stop"),
        "max_tokens" | "model_length" | "MAX_TOKENS" => Finish::Renamed("length"),
        "tool_use" => Finish::Renamed("tool_calls"),
        "abort" | "error" | "network_error" | "insufficient_system_resource" => Finish::Failed,
        _ => Finish::Known,
    }
}
