//! The conversation in Google's words: turns of parts, what developers say apart.

use serde::Serialize;
use serde_json::value::RawValue;

use super::generation::Generation;
use crate::{
    chat::{
        Chat, Media, Message, Part as Said,
        content::plain_text,
        request::{PastCall, Turn as PastTurn},
    },
    dialect::Unfit,
};

/// What Google documents to be sent where a call of an earlier turn was never signed, because
/// another model made it or the caller did not keep the signature.
const UNSIGNED: &str = "context_engineering_is_the_way_to_go";

/// Kinds of files by the ends of their names, for those that are given by address.
const KINDS: &[(&str, &str)] = &[
    (".png", "image/png"),
    (".webp", "image/webp"),
    (".gif", "image/gif"),
    (".heic", "image/heic"),
    (".heif", "image/heif"),
    (".pdf", "application/pdf"),
    (".txt", "text/plain"),
    (".mp4", "video/mp4"),
    (".mp3", "audio/mp3"),
    (".wav", "audio/wav"),
];

/// Where Google keeps files that were given to it before.
const KEPT: [&str; 2] = ["gs://", "https://generativelanguage.googleapis.com/"];

#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
    /// Which call of the turn before it answers: results come first and in the order of the calls.
    #[serde(skip)]
    answers: Option<usize>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: String,
    data: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    mime_type: &'static str,
    file_uri: &'a str,
}

#[derive(Debug, Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: &'a RawValue,
}

#[derive(Debug, Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Response {
    /// An object, as it is spelt.
    Object(Box<RawValue>),
    /// The format takes objects alone.
    Text { output: String },
}

/// What developers say, where they do, and the turns. Turns of one side are merged.
///
/// # Errors
/// What the format has no place for, messages that say nothing, and results of unknown calls.
pub(super) fn turns<'a>(
    chat: &'a Chat<'_>,
    generation: Generation,
) -> Result<(Option<Turn<'a>>, Vec<Turn<'a>>), Unfit> {
    let mut system = Turn { role: None, parts: Vec::new() };
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let mut calls: &[PastCall<'_>] = &[];
    for (index, message) in chat.messages.iter().enumerate() {
        let at = format!("messages[{index}].content");
        match message {
            Message::System(parts) => {
                for part in parts {
                    let Said::Text(text) = part else {
                        let why = "a system message holds text alone";
                        return Err(Unfit::unsupported(at, why));
                    };
                    system.parts.push(Part { text: Some(text), ..Part::default() });
                }
            }
            Message::User(parts) if parts.is_empty() => {
                return Err(Unfit::invalid(at, "must not be empty"));
            }
            Message::User(parts) => {
                let parts: Vec<_> =
                    parts.iter().map(|it| said(it, &at)).collect::<Result<_, _>>()?;
                open(&mut turns, "user").extend(parts);
            }
            Message::Assistant(turn) => {
                let parts = past(turn, index, generation)?;
                if !parts.is_empty() {
                    open(&mut turns, "model").extend(parts);
                }
                if !turn.calls.is_empty() {
                    calls = &turn.calls;
                }
            }
            Message::Tool { call_id, name, content } => {
                let text = plain_text(content)
                    .ok_or_else(|| Unfit::unsupported(&at, "a tool's result holds text alone"))?;
                let name = name.as_deref().ok_or_else(|| {
                    let param = format!("messages[{index}].tool_call_id");
                    Unfit::invalid(param, "is not the id of an earlier tool call")
                })?;
                let answers =
                    calls.iter().position(|call| call.id == *call_id).or(Some(calls.len()));
                let id = generation.signs.then_some(call_id.as_ref());
                let response = response(text.into_owned());
                let result = Some(FunctionResponse { id, name, response });
                let part = Part { function_response: result, answers, ..Part::default() };
                let parts = open(&mut turns, "user");
                let before =
                    parts.iter().take_while(|it| it.answers.is_some_and(|it| Some(it) <= answers));
                parts.insert(before.count(), part);
            }
        }
    }
    if turns.is_empty() {
        return Err(Unfit::unsupported("messages", "it wants a message besides the system's"));
    }
    Ok(((!system.parts.is_empty()).then_some(system), turns))
}

/// The parts of the turn that is going on, or of a new one if the other side had the word.
fn open<'t, 'a>(turns: &'t mut Vec<Turn<'a>>, role: &'static str) -> &'t mut Vec<Part<'a>> {
    if turns.last().is_none_or(|turn| turn.role != Some(role)) {
        turns.push(Turn { role: Some(role), parts: Vec::new() });
    }
    let last = turns.len() - 1;
    // It was just made, if it was not there.
    &mut turns.get_mut(last).unwrap_or_else(|| unreachable!("there is a last turn")).parts
}

/// A turn of the model's: its words, then its calls with their signatures. Its thoughts are not
/// wanted back. The first call of a turn needs a signature, where the generation signs.
fn past<'a>(
    turn: &'a PastTurn<'_>,
    index: usize,
    generation: Generation,
) -> Result<Vec<Part<'a>>, Unfit> {
    let mut parts = Vec::new();
    for part in &turn.content {
        let at = format!("messages[{index}].content");
        parts.push(said(part, &at)?);
    }
    for (position, call) in turn.calls.iter().enumerate() {
        let at = || format!("messages[{index}].tool_calls[{position}].function.arguments");
        let args = serde_json::from_str(&call.arguments)
            .map_err(|_| Unfit::invalid(at(), "must be the text of a JSON object"))?;
        let unsigned = (position == 0 && generation.signs).then_some(UNSIGNED);
        let id = generation.signs.then_some(call.id.as_ref());
        parts.push(Part {
            function_call: Some(FunctionCall { id, name: &call.name, args }),
            thought_signature: call.signature.as_deref().or(unsigned),
            ..Part::default()
        });
    }
    Ok(parts)
}

/// What a tool returned: an object as it is, anything else as the one member of an object.
fn response(text: String) -> Response {
    let is_object = text.trim_start().starts_with('{');
    match is_object.then(|| serde_json::from_str(&text)) {
        Some(Ok(object)) => Response::Object(object),
        Some(Err(_)) | None => Response::Text { output: text },
    }
}

fn said<'a>(part: &'a Said<'_>, at: &str) -> Result<Part<'a>, Unfit> {
    match part {
        Said::Text(text) => Ok(Part { text: Some(text), ..Part::default() }),
        Said::Image(media) => of_media(media, "image/jpeg", at),
        Said::Audio { data, format } => {
            let inline_data = Some(Blob { mime_type: format!("audio/{format}"), data });
            Ok(Part { inline_data, ..Part::default() })
        }
        Said::File { media, .. } => of_media(media, "application/pdf", at),
    }
}

/// Bytes, or the address of a file that Google keeps, whose kind is guessed from its name.
fn of_media<'a>(media: &'a Media<'_>, kind: &'static str, at: &str) -> Result<Part<'a>, Unfit> {
    match media {
        Media::Inline { mime, data } => {
            let inline_data = Some(Blob { mime_type: mime.clone().into_owned(), data });
            Ok(Part { inline_data, ..Part::default() })
        }
        Media::Url(url) if KEPT.iter().any(|kept| url.starts_with(kept)) => {
            let known = KINDS.iter().find(|(end, _)| url.to_ascii_lowercase().ends_with(end));
            let mime_type = known.map_or(kind, |(_, kind)| kind);
            let file_data = Some(File { mime_type, file_uri: url });
            Ok(Part { file_data, ..Part::default() })
        }
        Media::Url(_) => Err(Unfit::unsupported(
            at,
            "it takes data URLs, and addresses of files that Google keeps",
        )),
    }
}
