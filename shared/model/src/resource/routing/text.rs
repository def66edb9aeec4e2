//! What is looked for in a text.

use regex::{Regex, RegexBuilder};

/// Longest expression as it is written, in bytes.
const MAX_WRITTEN: usize = 1_024;
/// Most memory of a compiled expression, in bytes.
const MAX_COMPILED: usize = 512 * 1024;
/// Most words of one rule, and characters of each.
const MAX_WORDS: usize = 256;
const MAX_WORD: usize = 128;

/// A regular expression of bounded size. Its time is linear in the text.
#[derive(Debug, Clone)]
pub struct TextPattern {
    written: String,
    regex: Regex,
}

/// Equal as they are written.
impl PartialEq for TextPattern {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for TextPattern {}

impl TextPattern {
    /// Reads an expression.
    ///
    /// # Errors
    /// Why it is none, on one line.
    pub fn parse(written: &str) -> Result<Self, String> {
        if written.len() > MAX_WRITTEN {
            return Err(format!("has {} bytes, more than {MAX_WRITTEN}", written.len()));
        }
        Self::compiled(written.to_owned(), written)
    }

    /// Any of these words, in upper or lower case. Where a word begins or ends with a letter or digit of
    /// ASCII it must not be part of a longer one; other scripts do not part their words.
    ///
    /// # Errors
    /// When one is empty, or they are too many or too long.
    pub fn of_words(words: &[String]) -> Result<Self, String> {
        if words.len() > MAX_WORDS {
            return Err(format!("has {} words, more than {MAX_WORDS}", words.len()));
        }
        let mut parts = Vec::with_capacity(words.len());
        for word in words {
            let word = word.trim();
            if word.is_empty() || word.chars().count() > MAX_WORD {
                return Err(format!("a word has 1 to {MAX_WORD} characters"));
            }
            let bound = |c: Option<char>| {
                if c.is_some_and(|c| c.is_ascii_alphanumeric()) { r"(?-u:\b)" } else { "" }
            };
            let (before, after) = (bound(word.chars().next()), bound(word.chars().next_back()));
            parts.push(format!("{before}{}{after}", regex::escape(word)));
        }
        Self::compiled(words.join("\n"), &format!("(?i:{})", parts.join("|")))
    }

    fn compiled(written: String, expression: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(expression).size_limit(MAX_COMPILED).build();
        let regex = regex.map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!("would need more than {limit} bytes when compiled")
            }
            // The last line says what is wrong; those before draw it.
            other => {
                let text = other.to_string();
                let line = text.lines().next_back().unwrap_or("it is no regular expression");
                line.trim().trim_start_matches("error: ").to_owned()
            }
        })?;
        Ok(Self { written, regex })
    }

    /// Is it anywhere in the text?
    pub fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c8_words_are_found_whole() {
        let words = ["code".to_owned(), "C++".to_owned(), "翻译".to_owned(), "über".to_owned()];
        let words = TextPattern::of_words(&words).unwrap();
        for text in ["Write CODE.", "code", "in c++ please", "请翻译这句话", "code翻", "ÜBER uns"]
        {
            assert!(words.is_in(text), "{text}");
        }
        for text in ["decode it", "codes", "", "c+"] {
            assert!(!words.is_in(text), "{text}");
        }
        assert!(TextPattern::of_words(&[" ".into()]).is_err());
        assert!(TextPattern::of_words(&vec!["x".into(); MAX_WORDS + 1]).is_err());
        let most: Vec<_> = (0..MAX_WORDS).map(|n| format!("{n:a>20}")).collect();
        assert!(TextPattern::of_words(&most).unwrap().is_in(&most[255]));
    }

    #[test]
    fn c8_expressions_are_bounded() {
        assert!(TextPattern::parse("(?i)^(fix|debug)\\b").unwrap().is_in("Fix this"));
        let error = TextPattern::parse("(a").unwrap_err();
        assert!(error.contains("unclosed group"), "{error}");
        let error = TextPattern::parse("(?:(?:\\w{100}){100}){100}").unwrap_err();
        assert!(error.contains("compiled"), "{error}");
        assert!(TextPattern::parse(&"x".repeat(MAX_WRITTEN + 1)).is_err());
    }
}
