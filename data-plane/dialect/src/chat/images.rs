//! Images that a request names by address, and putting their bytes in the place of these.

use std::ops::Range;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use memchr::memmem;

use crate::{
    call::{Call, InvalidCall},
    json::{JsonError, Kind, Scanner},
    splice::Splices,
};

/// An image that is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Where its address stands in the body, quotes included.
    pub span: Range<usize>,
    /// Its member, for messages.
    pub param: String,
    pub url: String,
}

/// An image that was got.
#[derive(Debug, Clone)]
pub struct Got {
    pub mime: String,
    pub bytes: Bytes,
}

/// Every image of the conversation that is named by an http or https address.
pub fn elsewhere(call: &Call) -> Vec<Elsewhere> {
    let mut found = Vec::new();
    let Some((index, messages)) = call.member("messages") else { return found };
    if memmem::find(messages, b"\"image_url\"").is_none() {
        return found;
    }
    let start = call.members.get(index).map_or(0, |member| member.value.start);
    // Messages of another shape are refused by whoever reads them whole.
    if read(messages, start, &mut found).is_err() {
        found.clear();
    }
    found
}

fn read(messages: &[u8], start: usize, found: &mut Vec<Elsewhere>) -> Result<(), JsonError> {
    let mut scanner = Scanner::new(messages);
    each(&mut scanner, Kind::Array, &mut |scanner, message, _| {
        each(scanner, Kind::Object, &mut |scanner, _, name| {
            if name != "content" {
                return scanner.skip().map(drop);
            }
            each(scanner, Kind::Array, &mut |scanner, part, _| {
                each(scanner, Kind::Object, &mut |scanner, _, name| {
                    if name != "image_url" {
                        return scanner.skip().map(drop);
                    }
                    let param = format!("messages[{message}].content[{part}].image_url");
                    if scanner.kind()? == Kind::String {
                        return url(scanner, start, param, found);
                    }
                    each(scanner, Kind::Object, &mut |scanner, _, name| {
                        if name == "url" && scanner.kind()? == Kind::String {
                            url(scanner, start, format!("{param}.url"), found)
                        } else {
                            scanner.skip().map(drop)
                        }
                    })
                })
            })
        })
    })
}

type Visit<'v, 's> = &'v mut dyn FnMut(&mut Scanner<'s>, usize, &str) -> Result<(), JsonError>;

/// Visits what is in an object or a list; passes over a value of another kind.
fn each<'s>(scanner: &mut Scanner<'s>, kind: Kind, visit: Visit<'_, 's>) -> Result<(), JsonError> {
    if scanner.kind()? != kind {
        return scanner.skip().map(drop);
    }
    if kind == Kind::Array {
        scanner.array(|scanner, index| visit(scanner, index, ""))?;
    } else {
        scanner.object(|scanner, name| visit(scanner, 0, &name.decode()))?;
    }
    Ok(())
}

fn url(
    scanner: &mut Scanner<'_>,
    start: usize,
    param: String,
    found: &mut Vec<Elsewhere>,
) -> Result<(), JsonError> {
    let text = scanner.string()?;
    let span = scanner.span_of(text);
    let url = text.decode();
    let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
    if scheme == "http" || scheme == "https" {
        let span = start + span.start..start + span.end;
        found.push(Elsewhere { span, param, url: url.into_owned() });
    }
    Ok(())
}

/// The same call with these images in it.
///
/// # Errors
/// Never for a call that was read, whose images these are.
pub fn with_images<'a>(
    call: &Call,
    images: impl IntoIterator<Item = (&'a Elsewhere, Got)>,
) -> Result<Call, InvalidCall> {
    let mut splices = Splices::default();
    for (image, Got { mime, bytes }) in images {
        let encoded = STANDARD.encode(&bytes);
        splices.replace(image.span.clone(), format!("\"data:{mime};base64,{encoded}\""));
    }
    let read = Call::parse(call.endpoint, splices.apply(&call.body))?;
    Ok(Call { send_cap: call.send_cap, ..read })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Endpoint;

    #[test]
    fn c1_images_by_address_are_found_and_replaced() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"image_url"},{"role":"user","content":[{"type":"text","text":"http://no"},{"type":"image_url","image_url":{"detail":"low","url":"https:\/\/h/a.png"}},{"type":"image_url","image_url":"HTTP://h/b"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}"#;
        let call = Call::parse(Endpoint::Chat, Bytes::from_static(body.as_bytes())).unwrap();
        let found = elsewhere(&call);
        let urls: Vec<_> = found.iter().map(|image| image.url.as_str()).collect();
        assert_eq!(urls, ["https://h/a.png", "HTTP://h/b"]);
        assert_eq!(found[0].param, "messages[1].content[1].image_url.url");
        let got = |text: &'static str| Got { mime: "image/gif".into(), bytes: text.into() };
        let images = found.iter().zip([got("one"), got("two")]);
        let call = with_images(&call, images).unwrap();
        let text = std::str::from_utf8(&call.body).unwrap();
        assert!(text.contains(r#""url":"data:image/gif;base64,b25l"}"#), "{text}");
        assert!(text.contains(r#""image_url":"data:image/gif;base64,dHdv""#), "{text}");
        assert!(elsewhere(&call).is_empty());
    }
}
