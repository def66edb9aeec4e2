//! What the end of an attempt says of its target.

use sluicegate_dialect::Fault;
use sluicegate_model::{Outcome, outcome::Blame};
use sluicegate_protocol::breaker::End;

/// Words of engines that have run out of memory. vLLM and SGLang pass on what PyTorch says.
const MEMORY: [&str; 4] =
    ["CUDA out of memory", "OutOfMemoryError", "HIP out of memory", "NPU out of memory"];
/// Words of servers whose engine will not come back by itself (vLLM).
const DEAD: [&str; 3] = ["EngineDeadError", "EngineCore encountered an issue", "EngineCore died"];

/// The one place that decides it. `begun`: the answer had begun.
pub fn end_of(fault: &Fault, begun: bool) -> End {
    let says = |words: &[&str]| {
        let texts = [&fault.message, &fault.code].into_iter().flatten();
        texts.into_iter().any(|text| words.iter().any(|word| text.contains(word)))
    };
    match fault.outcome {
        Outcome::Success => End::Success,
        Outcome::RateLimited => End::RateLimited,
        _ if fault.outcome.blame() != Blame::Upstream => End::Neutral,
        _ if says(&DEAD) => End::EngineDead,
        _ if says(&MEMORY) => End::OutOfMemory,
        Outcome::Timeout if begun => End::Stalled,
        Outcome::Timeout if !fault.unsent => End::TimedOut,
        Outcome::StreamInterrupted | Outcome::NoFinishReason => End::Truncated,
        Outcome::Network if begun => End::Truncated,
        _ => End::Hard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_only_what_the_target_does_is_held_against_it() {
        for (outcome, begun, expected) in [
            (Outcome::Success, false, End::Success),
            (Outcome::RateLimited, false, End::RateLimited),
            (Outcome::QuotaExhausted, false, End::Neutral),
            (Outcome::KeyRefused, false, End::Neutral),
            (Outcome::PermissionDenied, false, End::Neutral),
            (Outcome::ModelMissing, false, End::Neutral),
            (Outcome::InvalidRequest, false, End::Neutral),
            (Outcome::ContextTooLong, false, End::Neutral),
            (Outcome::ContentFiltered, false, End::Neutral),
            (Outcome::ClientCancelled, true, End::Neutral),
            (Outcome::Overloaded, false, End::Hard),
            (Outcome::ProviderError, false, End::Hard),
            (Outcome::Network, false, End::Hard),
            (Outcome::Network, true, End::Truncated),
            (Outcome::Timeout, false, End::TimedOut),
            (Outcome::Timeout, true, End::Stalled),
            (Outcome::StreamInterrupted, true, End::Truncated),
            (Outcome::NoFinishReason, true, End::Truncated),
        ] {
            assert_eq!(end_of(&Fault::new(outcome, "m"), begun), expected, "{outcome:?} {begun}");
        }
    }

    #[test]
    fn b1_engines_that_die_say_so() {
        let broken = |message: &str| end_of(&Fault::new(Outcome::ProviderError, message), false);
        assert_eq!(broken("CUDA out of memory. Tried to allocate 2.00 GiB"), End::OutOfMemory);
        assert_eq!(broken("torch.OutOfMemoryError: HIP"), End::OutOfMemory);
        assert_eq!(broken("EngineCore encountered an issue. See stack trace"), End::EngineDead);
        let callers = Fault::new(Outcome::InvalidRequest, "what is CUDA out of memory?");
        assert_eq!(end_of(&callers, false), End::Neutral);
    }
}
