//! What a request looks like, read in one pass over its messages.

use std::{cell::OnceCell, ops::Range};

use http::HeaderMap;
use sluicegate_dialect::{
    Call, Endpoint,
    json::{JsonError, Kind, Scanner},
};
use sluicegate_model::resource::routing::{Lang, MAX_LOOKED_AT, Script, When};

/// Characters that a language is told from.
const SPOKEN: usize = 2_000;

/// Who asks, as far as rules may see.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Only headers that rules name are looked at.
    pub headers: &'a HeaderMap,
    /// The caller's tenant and those above it.
    pub tenants: &'a [String],
    /// Name of the caller's key.
    pub key: Option<&'a str>,
}

/// What rules may ask about a request. The text and its language are read once they are asked for.
#[derive(Debug)]
pub struct Features<'a> {
    call: &'a Call,
    asker: Asker<'a>,
    messages: Messages,
    /// By the size of the prompt's text, about four bytes a token.
    pub prompt_tokens: u64,
    pub tools: bool,
    /// Wants JSON by a schema.
    pub json_schema: bool,
    /// Wants JSON of any kind.
    pub json: bool,
    text: OnceCell<String>,
    spoken: OnceCell<Spoken>,
}

#[derive(Debug, Default)]
struct Messages {
    count: u64,
    images: bool,
    audio: bool,
    /// Content of the user's last message.
    last: Option<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
struct Spoken {
    script: Option<Script>,
    /// Only where it can be told reliably.
    language: Option<Lang>,
}

impl<'a> Features<'a> {
    /// Reads a call.
    pub fn of(call: &'a Call, asker: Asker<'a>) -> Self {
        let format = call.member("response_format").map_or(&b""[..], |(_, value)| value);
        let format = kind_of_format(format).unwrap_or_default();
        Self {
            messages: messages(call),
            prompt_tokens: call.prompt.size(&call.body).text / 4,
            tools: has_elements(call, "tools") || has_elements(call, "functions"),
            json_schema: format == "json_schema",
            json: matches!(format.as_str(), "json_schema" | "json_object"),
            text: OnceCell::new(),
            spoken: OnceCell::new(),
            call,
            asker,
        }
    }

    /// How many messages the conversation has.
    pub fn messages(&self) -> u64 {
        self.messages.count
    }

    /// Does it hold images?
    pub fn images(&self) -> bool {
        self.messages.images
    }

    /// Does it hold sound?
    pub fn audio(&self) -> bool {
        self.messages.audio
    }

    /// The text of the user's last message, or the prompt; at most [`MAX_LOOKED_AT`] characters.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let span = match self.call.endpoint {
                Endpoint::Chat => self.messages.last.clone(),
                Endpoint::Completions => value(self.call, "prompt"),
                Endpoint::Embeddings => value(self.call, "input"),
            };
            let raw = span.and_then(|span| self.call.body.get(span)).unwrap_or_default();
            text(raw).unwrap_or_default()
        })
    }

    /// Does it match each part that is given?
    pub fn fit(&self, when: &When) -> bool {
        let flag = |wanted: Option<bool>, is: bool| wanted.is_none_or(|wanted| wanted == is);
        when.prompt_tokens.contains(&self.prompt_tokens)
            && when.messages.contains(&self.messages.count)
            && flag(when.tools, self.tools)
            && flag(when.images, self.messages.images)
            && flag(when.audio, self.messages.audio)
            && flag(when.json_schema, self.json_schema)
            && flag(when.stream, self.call.stream)
            && self.is_asked_by(when)
            && (!when.reads_text() || self.says(when))
    }

    fn is_asked_by(&self, when: &When) -> bool {
        let tenant = |name: &String| self.asker.tenants.contains(name);
        let key = |name: &String| self.asker.key == Some(name);
        let mut headers = when.headers.iter();
        (when.tenants.is_empty() || when.tenants.iter().any(tenant))
            && (when.keys.is_empty() || when.keys.iter().any(key))
            && headers.all(|wanted| {
                let mut given = self.asker.headers.get_all(&wanted.name).iter();
                given.any(|given| match &wanted.value {
                    Some(value) => given.as_bytes() == value.as_bytes(),
                    None => true,
                })
            })
    }

    fn says(&self, when: &When) -> bool {
        let patterns = [&when.keywords, &when.pattern];
        let mut patterns = patterns.into_iter().flatten();
        if !patterns.all(|pattern| pattern.is_in(self.text())) {
            return false;
        }
        let among = |language| when.languages.contains(&language);
        let written = |script| when.scripts.contains(&script);
        (when.languages.is_empty() || self.spoken().language.is_some_and(among))
            && (when.scripts.is_empty() || self.spoken().script.is_some_and(written))
    }

    fn spoken(&self) -> Spoken {
        *self.spoken.get_or_init(|| {
            let text: String = self.text().chars().take(SPOKEN).collect();
            let reliable = whatlang::detect(&text).filter(whatlang::Info::is_reliable);
            Spoken {
                script: whatlang::detect_script(&text),
                language: reliable.map(|info| info.lang()),
            }
        })
    }
}

fn value(call: &Call, name: &str) -> Option<Range<usize>> {
    let (index, _) = call.member(name)?;
    Some(call.members.get(index)?.value.clone())
}

fn has_elements(call: &Call, name: &str) -> bool {
    let Some((_, value)) = call.member(name) else { return false };
    let mut scanner = Scanner::new(value);
    let mut any = false;
    let list = scanner.kind() == Ok(Kind::Array);
    list && scanner
        .array(|scanner, _| {
            any = true;
            scanner.skip().map(drop)
        })
        .is_ok()
        && any
}

/// Messages of another shape are the upstream's to judge: nothing is found in them.
fn messages(call: &Call) -> Messages {
    let mut found = Messages::default();
    let Some(span) = value(call, "messages").filter(|_| call.endpoint == Endpoint::Chat) else {
        return found;
    };
    let mut scanner = Scanner::new(call.body.get(span.clone()).unwrap_or_default());
    if scanner.kind() == Ok(Kind::Array) {
        let read = scanner.array(|scanner, _| {
            found.count += 1;
            if scanner.kind()? == Kind::Object {
                message(scanner, span.start, &mut found)
            } else {
                scanner.skip().map(drop)
            }
        });
        drop(read);
    }
    found
}

fn message(scanner: &mut Scanner<'_>, base: usize, found: &mut Messages) -> Result<(), JsonError> {
    let (mut of_user, mut content) = (false, None);
    scanner.object(|scanner, name| {
        let kind = scanner.kind()?;
        if name.is("role") && kind == Kind::String {
            of_user = scanner.string()?.is("user");
            return Ok(());
        }
        if !name.is("content") {
            return scanner.skip().map(drop);
        }
        let start = scanner.at();
        if kind == Kind::Array {
            scanner.array(|scanner, _| part(scanner, found))?;
        } else {
            scanner.skip()?;
        }
        content = Some(base + start..base + scanner.at());
        Ok(())
    })?;
    if of_user {
        found.last = content;
    }
    Ok(())
}

fn part(scanner: &mut Scanner<'_>, found: &mut Messages) -> Result<(), JsonError> {
    if scanner.kind()? != Kind::Object {
        return scanner.skip().map(drop);
    }
    scanner.object(|scanner, name| {
        found.images |= name.is("image_url");
        found.audio |= name.is("input_audio") || name.is("audio_url");
        scanner.skip().map(drop)
    })?;
    Ok(())
}

/// The `type` of a response format.
fn kind_of_format(value: &[u8]) -> Result<String, JsonError> {
    let mut scanner = Scanner::new(value);
    let mut kind = String::new();
    if scanner.kind()? == Kind::Object {
        scanner.object(|scanner, name| {
            if name.is("type") && scanner.kind()? == Kind::String {
                kind = scanner.string()?.decode().into_owned();
                return Ok(());
            }
            scanner.skip().map(drop)
        })?;
    }
    Ok(kind)
}

/// The text of a content: a string, or the texts among its parts.
fn text(value: &[u8]) -> Result<String, JsonError> {
    let mut scanner = Scanner::new(value);
    let mut text = String::new();
    match scanner.kind()? {
        Kind::String => text.extend(scanner.string()?.decode().chars().take(MAX_LOOKED_AT)),
        Kind::Array => {
            let mut room = MAX_LOOKED_AT;
            scanner.array(|scanner, _| parts_text(scanner, &mut text, &mut room))?;
        }
        _ => {}
    }
    Ok(text)
}

fn parts_text(
    scanner: &mut Scanner<'_>,
    text: &mut String,
    room: &mut usize,
) -> Result<(), JsonError> {
    let mut add = |said: &str| {
        if !text.is_empty() && *room > 0 {
            text.push('\n');
            *room -= 1;
        }
        for character in said.chars().take(*room) {
            text.push(character);
            *room -= 1;
        }
    };
    match scanner.kind()? {
        Kind::String => add(&scanner.string()?.decode()),
        Kind::Object => {
            scanner.object(|scanner, name| {
                if name.is("text") && scanner.kind()? == Kind::String {
                    add(&scanner.string()?.decode());
                    return Ok(());
                }
                scanner.skip().map(drop)
            })?;
        }
        _ => {
            scanner.skip()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
