//! Finish reasons: what compatible servers say, and what OpenAI's clients know.

use std::ops::Range;

use super::variant::{FINISHES, Variant};
use crate::{chat::finish::Finish, fault::Fault, splice::Splices};

/// Judges every finish reason of a chunk or an answer: renames those that clients do not know, and
/// returns the last as it was spelt. One that nobody has heard of passes as it is: the answer is whole.
///
/// # Errors
/// When a choice says that the server gave up.
pub(super) fn judge(
    variant: &Variant,
    reasons: Vec<(Range<usize>, String)>,
    splices: &mut Splices,
) -> Result<Option<String>, Fault> {
    let mut last = None;
    for (span, reason) in reasons {
        let known = variant.finishes.iter().chain(FINISHES).find(|(word, _)| *word == reason);
        match known {
            None => {}
            Some((_, Finish::As(name))) => splices.replace(span, format!("\"{name}\"")),
            Some((_, Finish::Failed(outcome))) => {
                let message = format!("the provider gave up with finish reason '{reason}'");
                return Err(Fault::new(*outcome, message));
            }
        }
        last = Some(reason);
    }
    Ok(last)
}
