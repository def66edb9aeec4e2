//! Words and signs of a condition.

use super::{BadExpression, MAX_TEXT};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Word<'a> {
    Number(f64),
    Name(&'a str),
    /// Between quotes of either kind; there are no escapes.
    Quoted(&'a str),
    Sign(&'static str),
}

/// A word and where it begins, in characters from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) word: Word<'a>,
    pub(super) at: usize,
}

/// Longer signs first: they begin with shorter ones.
const SIGNS: [&str; 21] = [
    "&&", "||", "==", "!=", "<=", ">=", "=~", "!~", "<", ">", "!", "=", "+", "-", "*", "/", "(",
    ")", "{", "}", ",",
];

/// Takes a text apart.
pub(super) fn words(text: &str) -> Result<Vec<Token<'_>>, BadExpression> {
    if text.len() > MAX_TEXT {
        let what = format!("the condition has {} bytes", text.len());
        return Err(BadExpression { at: 1, what, hint: format!("use at most {MAX_TEXT}") });
    }
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let at = text.chars().count() - rest.chars().count() + 1;
        let (word, length) = word(rest, at)?;
        words.push(Token { word, at });
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    Ok(words)
}

/// The word that the text begins with, and its length in bytes.
fn word(text: &str, at: usize) -> Result<(Word<'_>, usize), BadExpression> {
    let fault = |what: String, hint: &str| BadExpression { at, what, hint: hint.to_owned() };
    let first = text.chars().next().unwrap_or(' ');
    if first.is_ascii_digit() || first == '.' {
        let length = number(text);
        let written = text.get(..length).unwrap_or_default();
        let value = written.parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| {
            fault(format!("'{written}' is not a number"), "write such as 0.85 or 1e9")
        })?;
        return Ok((Word::Number(value), length));
    }
    if first.is_ascii_alphabetic() || first == '_' || first == ':' {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let length = text.find(|c| !inside(c)).unwrap_or(text.len());
        return Ok((Word::Name(text.get(..length).unwrap_or_default()), length));
    }
    if first == '"' || first == '\'' {
        let inner = text.get(1..).unwrap_or_default();
        let end = inner.find(first).ok_or_else(|| {
            fault("the quotation does not end".to_owned(), "put the same mark behind it")
        })?;
        return Ok((Word::Quoted(inner.get(..end).unwrap_or_default()), end + 2));
    }
    match SIGNS.into_iter().find(|sign| text.starts_with(sign)) {
        Some(sign) => Ok((Word::Sign(sign), sign.len())),
        None => {
            let hint = "use && || ! == != < <= > >= + - * / and brackets";
            Err(fault(format!("'{}' has no meaning here", first.escape_debug()), hint))
        }
    }
}

/// Length of the number that a text begins with.
fn number(text: &str) -> usize {
    let mut before = ' ';
    let inside = |c: char| {
        let sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
        before = c;
        sign || c.is_ascii_alphanumeric() || c == '.'
    };
    let mut inside = inside;
    text.find(|c| !inside(c)).unwrap_or(text.len())
}
