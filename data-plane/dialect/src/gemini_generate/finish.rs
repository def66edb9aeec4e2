//! Why an answer ended, from Google's words into OpenAI's.

use sluicegate_model::Outcome::ProviderError;

use crate::{
    chat::finish::{self, Finish, Finishes},
    fault::Fault,
};

const FINISHES: Finishes = &[
    ("STOP", Finish::As("stop")),
    ("MAX_TOKENS", Finish::As("length")),
    ("SAFETY", Finish::As("content_filter")),
    ("BLOCKLIST", Finish::As("content_filter")),
    ("PROHIBITED_CONTENT", Finish::As("content_filter")),
    ("SPII", Finish::As("content_filter")),
    ("MODEL_ARMOR", Finish::As("content_filter")),
    ("RECITATION", Finish::As("content_filter")),
    ("LANGUAGE", Finish::As("content_filter")),
    ("IMAGE_SAFETY", Finish::As("content_filter")),
    ("IMAGE_PROHIBITED_CONTENT", Finish::As("content_filter")),
    ("IMAGE_RECITATION", Finish::As("content_filter")),
    // The model did not write what it was about to: a call that nobody can read, or must not make.
    ("MALFORMED_FUNCTION_CALL", Finish::Failed(ProviderError)),
    ("UNEXPECTED_TOOL_CALL", Finish::Failed(ProviderError)),
    ("TOO_MANY_TOOL_CALLS", Finish::Failed(ProviderError)),
    ("MISSING_THOUGHT_SIGNATURE", Finish::Failed(ProviderError)),
    ("MALFORMED_RESPONSE", Finish::Failed(ProviderError)),
];

/// Words that mean a failure where nothing was said, and a plain stop behind an answer.
const SILENT: [&str; 3] = ["OTHER", "NO_IMAGE", "IMAGE_OTHER"];

/// What a finish reason means, for an answer that has `said` something or not, with calls of `tools`
/// or without: the format has no word of its own for an answer that calls. `None`: it is no reason.
///
/// # Errors
/// When it says that the answer is not whole.
pub(super) fn read(word: &str, said: bool, tools: bool) -> Result<Option<&'static str>, Fault> {
    if word.is_empty() || word == "FINISH_REASON_UNSPECIFIED" {
        return Ok(None);
    }
    if !said && SILENT.contains(&word) {
        let message = format!("the provider gave up with finish reason '{word}'");
        return Err(Fault::new(ProviderError, message));
    }
    let reason = finish::read(FINISHES, word)?;
    Ok(Some(if tools && reason == "stop" { "tool_calls" } else { reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_every_documented_reason() {
        check("STOP", Some("stop"));
        check("MAX_TOKENS", Some("length"));
        for filtered in [
            "SAFETY",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "RECITATION",
            "LANGUAGE",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ] {
            check(filtered, Some("content_filter"));
        }
        for word in ["OTHER", "NO_IMAGE", "IMAGE_OTHER"] {
            check(word, Some("stop"));
            assert_eq!(read(word, false, false).unwrap_err().outcome, ProviderError);
        }
        for word in [
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
        ] {
            assert_eq!(read(word, true, false).unwrap_err().outcome, ProviderError);
        }
        check("FINISH_REASON_UNSPECIFIED", None);
        check("", None);
        check("NEVER_HEARD_OF", Some("stop"));
        assert_eq!(read("STOP", true, true), Ok(Some("tool_calls")));
        assert_eq!(read("MAX_TOKENS", true, true), Ok(Some("length")));

        #[track_caller]
        fn check(word: &str, expected: Option<&'static str>) {
            assert_eq!(read(word, true, false), Ok(expected));
        }
    }
}
