//! A validating JSON scanner that builds nothing: it visits members where they stand and tells
//! their spans, so that a value can be read or replaced while every other byte stays as it is.
//! (Grammar: RFC 8259.)

mod mend;

use std::{borrow::Cow, fmt, ops::Range};

pub use mend::mended;

/// Deepest nesting that is read.
pub const MAX_DEPTH: u16 = 128;

/// Where and why bytes are not JSON, or not JSON that is read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// Offset in bytes.
    pub at: usize,
    pub what: What,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    UnexpectedEnd,
    UnexpectedByte,
    ControlCharacter,
    BadEscape,
    TooDeep,
    TrailingBytes,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::UnexpectedEnd => "the text ends too early",
            What::UnexpectedByte => "unexpected character",
            What::ControlCharacter => "unescaped control character in a string",
            What::BadEscape => "bad escape in a string",
            What::TooDeep => "nested deeper than 128 levels",
            What::TrailingBytes => "something follows the value",
        };
        write!(f, "{what} at byte {}", self.at)
    }
}

impl std::error::Error for JsonError {}

type Result<T> = std::result::Result<T, JsonError>;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// A string as it stands between its quotes.
#[derive(Debug, Clone, Copy)]
pub struct Str<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Str<'a> {
    /// Is it this text, however it is spelt?
    pub fn is(&self, text: &str) -> bool {
        if self.escaped { self.decode() == text } else { self.raw == text.as_bytes() }
    }

    /// Is it the empty string?
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The text with escapes resolved. Bytes that are not UTF-8 and lone surrogates come out as
    /// U+FFFD: decode only what is read, relay what is passed on.
    pub fn decode(&self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.raw))
        } else {
            String::from_utf8_lossy(self.raw)
        }
    }
}

/// A cursor over one JSON text.
#[derive(Debug)]
pub struct Scanner<'a> {
    src: &'a [u8],
    at: usize,
    depth: u16,
    /// Takes `NaN` and `Infinity`, which Python servers write.
    lenient: bool,
}

impl<'a> Scanner<'a> {
    pub fn new(src: &'a [u8]) -> Self {
        Self { src, at: 0, depth: 0, lenient: false }
    }

    /// A scanner for what upstreams send: it also takes `NaN`, `Infinity` and `-Infinity`.
    pub fn lenient(src: &'a [u8]) -> Self {
        Self { lenient: true, ..Self::new(src) }
    }

    /// Where the cursor is: behind what was read last, or at the value that [`Scanner::kind`] told the
    /// type of.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The type of the value that comes next.
    pub fn kind(&mut self) -> Result<Kind> {
        self.skip_space();
        match self.peek()? {
            b'{' => Ok(Kind::Object),
            b'[' => Ok(Kind::Array),
            b'"' => Ok(Kind::String),
            b't' => Ok(Kind::True),
            b'f' => Ok(Kind::False),
            b'n' => Ok(Kind::Null),
            b'-' | b'0'..=b'9' => Ok(Kind::Number),
            b'N' | b'I' if self.lenient => Ok(Kind::Number),
            _ => Err(self.error(What::UnexpectedByte)),
        }
    }

    /// Passes over one value of any type and returns its span.
    pub fn skip(&mut self) -> Result<Range<usize>> {
        let kind = self.kind()?;
        let start = self.at;
        match kind {
            Kind::Object => {
                self.object(|scanner, _| scanner.skip().map(drop))?;
            }
            Kind::Array => {
                self.array(|scanner, _| scanner.skip().map(drop))?;
            }
            Kind::String => {
                self.string()?;
            }
            Kind::Number => self.number()?,
            Kind::True => self.literal(b"true")?,
            Kind::False => self.literal(b"false")?,
            Kind::Null => self.literal(b"null")?,
        }
        Ok(start..self.at)
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<Str<'a>> {
        self.skip_space();
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.src.get(self.at..).unwrap_or(&[]);
            let Some(offset) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at = self.src.len();
                return Err(self.error(What::UnexpectedEnd));
            };
            let plain = rest.get(..offset).unwrap_or(&[]);
            if let Some(control) = plain.iter().position(|byte| *byte < 0x20) {
                self.at += control;
                return Err(self.error(What::ControlCharacter));
            }
            self.at += offset;
            if rest.get(offset) == Some(&b'"') {
                let raw = self.src.get(start..self.at).unwrap_or(&[]);
                self.at += 1;
                return Ok(Str { raw, escaped });
            }
            escaped = true;
            self.escape()?;
        }
    }

    /// Visits the members of an object in order. `visit` must pass over or read exactly the
    /// member's value. Returns the object's span.
    pub fn object(
        &mut self,
        mut visit: impl FnMut(&mut Self, Str<'a>) -> Result<()>,
    ) -> Result<Range<usize>> {
        self.skip_space();
        let start = self.at;
        self.open(b'{')?;
        if self.try_close(b'}')? {
            return Ok(start..self.at);
        }
        loop {
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            visit(self, name)?;
            if !self.comma_or_close(b'}')? {
                return Ok(start..self.at);
            }
        }
    }

    /// Visits the elements of an array in order, as [`Scanner::object`] does members.
    pub fn array(
        &mut self,
        mut visit: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<Range<usize>> {
        self.skip_space();
        let start = self.at;
        self.open(b'[')?;
        if self.try_close(b']')? {
            return Ok(start..self.at);
        }
        for index in 0.. {
            visit(self, index)?;
            if !self.comma_or_close(b']')? {
                break;
            }
        }
        Ok(start..self.at)
    }

    /// Nothing but white space may be left.
    pub fn end(&mut self) -> Result<()> {
        self.skip_space();
        if self.at == self.src.len() { Ok(()) } else { Err(self.error(What::TrailingBytes)) }
    }

    /// Where a string of this text stands, quotes included.
    pub fn span_of(&self, name: Str<'a>) -> Range<usize> {
        let start = name.raw.as_ptr().addr() - self.src.as_ptr().addr();
        start - 1..start + name.raw.len() + 1
    }

    /// The text of a span that this scanner returned.
    pub fn slice(&self, span: Range<usize>) -> &'a [u8] {
        self.src.get(span).unwrap_or(&[])
    }

    fn peek(&self) -> Result<u8> {
        self.src.get(self.at).copied().ok_or_else(|| self.error(What::UnexpectedEnd))
    }

    fn error(&self, what: What) -> JsonError {
        JsonError { at: self.at, what }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.src.get(self.at) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek()? != byte {
            return Err(self.error(What::UnexpectedByte));
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, byte: u8) -> Result<()> {
        self.expect(byte)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.error(What::TooDeep)) } else { Ok(()) }
    }

    fn try_close(&mut self, byte: u8) -> Result<bool> {
        self.skip_space();
        let closes = self.peek()? == byte;
        if closes {
            self.at += 1;
            self.depth -= 1;
        }
        Ok(closes)
    }

    /// True after a comma, false after the closing byte.
    fn comma_or_close(&mut self, close: u8) -> Result<bool> {
        if self.try_close(close)? {
            return Ok(false);
        }
        self.expect(b',')?;
        Ok(true)
    }

    fn literal(&mut self, text: &[u8]) -> Result<()> {
        for byte in text {
            self.expect(*byte)?;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'N' if self.lenient => return self.literal(b"NaN"),
            b'I' if self.lenient => return self.literal(b"Infinity"),
            _ => {}
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.src.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.src.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.src.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<()> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.error(What::UnexpectedByte));
        }
        while self.src.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    /// Passes over one escape; the cursor is on its backslash.
    fn escape(&mut self) -> Result<()> {
        self.at += 1;
        match self.peek()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek()?.is_ascii_hexdigit() {
                        return Err(self.error(What::BadEscape));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.error(What::BadEscape)),
        }
        Ok(())
    }
}

/// Reads an unsigned whole number; `None` for anything else, fractions and negatives included.
pub fn whole_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Resolves escapes of a string that the scanner accepted.
fn unescape(raw: &[u8]) -> String {
    let mut quoted = Vec::with_capacity(raw.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    match serde_json::from_slice(&quoted) {
        Ok(text) => text,
        // Only lone surrogates and bad UTF-8 get here.
        Err(_) => String::from_utf8_lossy(raw).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accepts(text: &[u8]) -> std::result::Result<(), JsonError> {
        let mut scanner = Scanner::new(text);
        scanner.skip()?;
        scanner.end()
    }

    #[test]
    fn grammar() {
        for good in [
            "{}",
            "[]",
            " [ 1 , -0.5e+3 , 0 , 1E9 ] ",
            "\"\\u00e9\\n\\\\\"",
            "true",
            "null",
            "{\"a\":{\"b\":[{}]}}",
            "12345678901234567890123",
            "\"\\ud83d\"",
        ] {
            assert_eq!(accepts(good.as_bytes()), Ok(()), "{good}");
        }
        for bad in [
            "",
            "{",
            "{\"a\"}",
            "[1,]",
            "{,}",
            "01",
            "1.",
            "-",
            "tru",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "{} {}",
            "{a:1}",
            "'a'",
            "[1 2]",
            "+1",
            ".5",
            "NaN",
        ] {
            assert!(accepts(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_lenient_takes_what_python_writes() {
        let text = b"{\"a\":[NaN,Infinity,-Infinity]}";
        assert!(accepts(text).is_err());
        let mut scanner = Scanner::lenient(text);
        assert_eq!(scanner.skip(), Ok(0..text.len()));
        assert!(Scanner::lenient(b"Inf").skip().is_err());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(accepts(&nested(128)).is_ok());
        assert_eq!(accepts(&nested(129)).unwrap_err().what, What::TooDeep);
        assert_eq!(accepts(&vec![b'['; 1_000_000]).unwrap_err().what, What::TooDeep);
    }

    #[test]
    fn names_compare_however_they_are_spelt() {
        let mut seen = Vec::new();
        let mut scanner = Scanner::new(br#"{"model":1,"mod\u0065l":2,"Model":3}"#);
        scanner
            .object(|scanner, name| {
                seen.push(name.is("model"));
                scanner.skip().map(drop)
            })
            .unwrap();
        assert_eq!(seen, [true, true, false]);
    }

    proptest! {
        #[test]
        fn agrees_with_serde(bytes in prop::collection::vec(
            prop::sample::select(b"{}[]\",:\\u0e1-+. tfnrualse9\n".to_vec()), 0..24))
        {
            let ours = accepts(&bytes).is_ok();
            let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
            // serde_json refuses lone surrogates even where it skips; both are legal JSON texts.
            if ours != theirs {
                let text = String::from_utf8_lossy(&bytes).to_lowercase();
                prop_assert!(ours && text.contains("\\u"), "{text:?}: {ours} {theirs}");
            }
        }

        #[test]
        fn spans_cut_out_the_value(value in "[a-z0-9 ]{0,20}", before in 0_usize..5) {
            let text = format!("{}{{\"x\": [1], \"k\" : \"{value}\" }}", " ".repeat(before));
            let mut found = None;
            let mut scanner = Scanner::new(text.as_bytes());
            scanner.object(|scanner, name| {
                let span = scanner.skip()?;
                if name.is("k") { found = Some(span); }
                Ok(())
            }).unwrap();
            prop_assert_eq!(text.get(found.unwrap()).unwrap(), format!("\"{value}\""));
        }
    }
}
