//! What a message says: texts, images, sounds, files.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::Unfit;

/// Longest thought that is kept to be repeated in a later turn, in bytes.
pub const MOST_THOUGHT: usize = 4 * 1024 * 1024;

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    Text(Cow<'a, str>),
    Image(Media<'a>),
    /// Base64 and its format, such as `wav`.
    Audio {
        data: Cow<'a, str>,
        format: Cow<'a, str>,
    },
    File {
        media: Media<'a>,
        name: Option<Cow<'a, str>>,
    },
}

/// Bytes that are part of a prompt, or where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media<'a> {
    /// A data URL taken apart: type and base64.
    Inline {
        mime: Cow<'a, str>,
        data: Cow<'a, str>,
    },
    Url(Cow<'a, str>),
}

impl<'a> Media<'a> {
    fn of(url: Cow<'a, str>, param: impl FnOnce() -> String) -> Result<Self, Unfit> {
        if !url.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:")) {
            return Ok(Self::Url(url));
        }
        let fault = |param: String| Unfit::invalid(param, "is not a base64 data URL");
        match url {
            Cow::Borrowed(url) => match split(url) {
                Some((mime, data)) => {
                    Ok(Self::Inline { mime: Cow::Borrowed(mime), data: Cow::Borrowed(data) })
                }
                None => Err(fault(param())),
            },
            Cow::Owned(url) => match split(&url) {
                Some((mime, data)) => Ok(Self::Inline {
                    mime: Cow::Owned(mime.to_owned()),
                    data: Cow::Owned(data.to_owned()),
                }),
                None => Err(fault(param())),
            },
        }
    }
}

/// `data:image/png;base64,AAAA`: its type without parameters, and its base64.
fn split(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.get(5..)?.split_once(',')?;
    let mime = head.strip_suffix(";base64")?;
    let mime = mime.split(';').next().filter(|mime| mime.contains('/'))?;
    (!data.is_empty()).then_some((mime, data))
}

/// Text that is borrowed where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[derive(Deserialize)]
struct RawPart<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    image_url: Option<RawUrl<'a>>,
    #[serde(borrow, default)]
    input_audio: Option<RawAudio<'a>>,
    #[serde(borrow, default)]
    file: Option<RawFile<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawUrl<'a> {
    #[serde(borrow)]
    Object(UrlObject<'a>),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

#[derive(Deserialize)]
struct UrlObject<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
}

#[derive(Deserialize)]
struct RawAudio<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(borrow)]
    format: Cow<'a, str>,
}

#[derive(Deserialize)]
struct RawFile<'a> {
    #[serde(borrow, default)]
    file_data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    filename: Option<Cow<'a, str>>,
}

/// Reads the content of a message; `at` is its place, such as `messages[1].content`.
pub(super) fn parts<'a>(content: Option<&'a RawValue>, at: &str) -> Result<Vec<Part<'a>>, Unfit> {
    let Some(content) = content.filter(|content| content.get() != "null") else {
        return Ok(Vec::new());
    };
    let wrong = |_| Unfit::invalid(at, "must be a string or a list of content parts");
    if content.get().starts_with('"') {
        let Text(text) = serde_json::from_str(content.get()).map_err(wrong)?;
        return Ok(if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] });
    }
    let raw: Vec<RawPart<'a>> = serde_json::from_str(content.get()).map_err(wrong)?;
    raw.into_iter()
        .enumerate()
        .map(|(index, raw)| part(raw, || format!("{at}[{index}]")))
        .filter(|part| !matches!(part, Ok(Part::Text(text)) if text.is_empty()))
        .collect()
}

fn part<'a>(raw: RawPart<'a>, at: impl Fn() -> String) -> Result<Part<'a>, Unfit> {
    let missing = |member: &str| Unfit::invalid(format!("{}.{member}", at()), "is required");
    match raw.kind.as_deref().unwrap_or("text") {
        "text" | "input_text" | "output_text" => {
            raw.text.map(|text| Part::Text(text.0)).ok_or_else(|| missing("text"))
        }
        "refusal" => raw.refusal.map(|text| Part::Text(text.0)).ok_or_else(|| missing("refusal")),
        "image_url" => {
            let url = match raw.image_url.ok_or_else(|| missing("image_url"))? {
                RawUrl::Object(object) => object.url,
                RawUrl::Text(url) => url,
            };
            Media::of(url, || format!("{}.image_url.url", at())).map(Part::Image)
        }
        "input_audio" => {
            let audio = raw.input_audio.ok_or_else(|| missing("input_audio"))?;
            Ok(Part::Audio { data: audio.data, format: audio.format })
        }
        "file" => {
            let file = raw.file.ok_or_else(|| missing("file"))?;
            let data = file.file_data.ok_or_else(|| {
                Unfit::unsupported(format!("{}.file", at()), "only 'file_data' can be sent on")
            })?;
            let media = Media::of(data, || format!("{}.file.file_data", at()))?;
            Ok(Part::File { media, name: file.filename })
        }
        other => Err(Unfit::invalid(
            format!("{}.type", at()),
            format!("'{}' is not a kind of content", crate::redact::message(other)),
        )),
    }
}

/// All texts of these parts, in order; `None` when another kind of part is among them.
pub fn plain_text<'a>(parts: &[Part<'a>]) -> Option<Cow<'a, str>> {
    match parts {
        [] => Some(Cow::Borrowed("")),
        [Part::Text(text)] => Some(text.clone()),
        several => {
            let texts = several.iter().map(|part| match part {
                Part::Text(text) => Some(text.as_ref()),
                _ => None,
            });
            texts.collect::<Option<Vec<_>>>().map(|texts| Cow::Owned(texts.join("\n")))
        }
    }
}
