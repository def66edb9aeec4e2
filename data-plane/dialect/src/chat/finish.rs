//! Why an answer ended, in OpenAI's words.

use sluicegate_model::Outcome;

use crate::fault::Fault;

/// What a format's word for the end of an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// OpenAI's word.
    As(&'static str),
    /// The model or its server gave up: the answer is not whole.
    Failed(Outcome),
}

/// A format's words and what they mean.
pub type Finishes = &'static [(&'static str, Finish)];

/// OpenAI's own words.
const KNOWN: [&str; 5] = ["stop", "length", "tool_calls", "content_filter", "function_call"];

/// Looks a word up; OpenAI's own stay, and one that nobody has heard of is a plain stop.
///
/// # Errors
/// When it says that the answer is not whole.
pub fn read(table: Finishes, word: &str) -> Result<&'static str, Fault> {
    match table.iter().find(|(known, _)| *known == word) {
        Some((_, Finish::As(name))) => Ok(name),
        Some((_, Finish::Failed(outcome))) => {
            Err(Fault::new(*outcome, format!("the provider gave up with finish reason '{word}'")))
        }
        None => Ok(KNOWN.into_iter().find(|known| *known == word).unwrap_or("stop")),
    }
}
