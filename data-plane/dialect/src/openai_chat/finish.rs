//! Finish reasons: what compatible servers say, and what OpenAI's clients know.

/// What a finish reason proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The answer is whole; the reason is one that clients know.
    Known,
    /// The answer is whole; clients know the reason by this name.
    Renamed(&'static str),
    /// The server gave up: the answer is not whole.
    Failed,
}

/// Reads a reason. One that nobody has heard of passes as it is: the answer is whole.
pub(super) fn read(reason: &str) -> Finish {
    match reason {
        "stop" | "length" | "tool_calls" | "content_filter" | "function_call" => Finish::Known,
        "eos" | "eos_token" | "end_turn" | "stop_sequence" | "STOP" => Finish::Renamed("stop"),
        "max_tokens" | "model_length" | "MAX_TOKENS" => Finish::Renamed("length"),
        "tool_use" => Finish::Renamed("tool_calls"),
        "abort" | "error" | "network_error" | "insufficient_system_resource" => Finish::Failed,
        _ => Finish::Known,
    }
}
