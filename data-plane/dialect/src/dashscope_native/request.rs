//! A chat on its way up.

use std::{borrow::Cow, collections::BTreeMap};

use http::{HeaderName, HeaderValue, header};

use super::{
    models,
    schema::{
        Body, Call as SentCall, CallFunction, Choose, Content, Input, Message, Named, Parameters,
        Piece, ResponseFormat, Schema, Tool, ToolFunction,
    },
};
use crate::{
    call::Call,
    chat::{
        self, Chat, Media, Part, Support,
        content::plain_text,
        reply::json,
        request::{Reasoning, Turn},
        support::Treat::{Drop, Refuse, RefuseUnless},
        tools::{Format, ToolChoice},
    },
    dialect::{Destination, Unfit, UpstreamCall},
};

const TEXT: &str = "/services/aigc/text-generation/generation";
const MULTIMODAL: &str = "/services/aigc/multimodal-generation/generation";

/// Members that are the same there, or that are its own.
const ALIKE: [&str; 10] = [
    "seed",
    "top_k",
    "repetition_penalty",
    "logprobs",
    "top_logprobs",
    "enable_search",
    "search_options",
    "enable_thinking",
    "thinking_budget",
    "vl_high_resolution_images",
];

static SUPPORT: Support = Support(&[
    ("functions", Refuse("it takes tools in their place")),
    ("function_call", Refuse("it takes tool_choice in its place")),
    ("audio", Refuse("it answers with text only")),
    ("modalities", RefuseUnless("[\"text\"]", "it answers with text only")),
    ("web_search_options", Refuse("it takes enable_search in their place")),
    ("frequency_penalty", Drop),
    ("logit_bias", Drop),
    ("user", Drop),
    ("metadata", Drop),
    ("store", Drop),
    ("service_tier", Drop),
]);

/// What an effort means: is there thinking, and in how many tokens at most. `None`: as many as the
/// model takes.
const EFFORTS: [(&str, bool, Option<u64>); 6] = [
    ("none", false, None),
    ("minimal", false, None),
    ("low", true, Some(1024)),
    ("medium", true, Some(8192)),
    ("high", true, None),
    ("xhigh", true, None),
];

/// Most answers that one call may ask for.
const MOST_CHOICES: u64 = 4;

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let mut chat = Chat::read(call)?;
    let multimodal = models::is_multimodal(to.model) || has_media(&chat);
    let streams = call.stream || models::streams_only(to.model);
    let parameters = parameters(call, &mut chat, streams)?;
    let mut dropped = SUPPORT.settle(&chat)?;
    dropped.extend(lost(&chat));
    let messages = chat.messages.iter().enumerate();
    let messages =
        messages.map(|(at, it)| message(at, it, multimodal)).collect::<Result<_, _>>()?;
    let tools = chat.tools.iter().map(tool).collect();
    let body = Body {
        model: to.model,
        input: Input { messages },
        parameters: Parameters { tools, tool_choice: choose(&chat)?, ..parameters },
    };
    let mut headers = Vec::new();
    if streams {
        headers.push((HeaderName::from_static("x-dashscope-sse"), ENABLE));
        headers.push((header::ACCEPT, HeaderValue::from_static("text/event-stream")));
    }
    if has_oss(&chat) {
        headers.push((HeaderName::from_static("x-dashscope-ossresourceresolve"), ENABLE));
    }
    let path = if multimodal { MULTIMODAL } else { TEXT };
    let path = Some(path.to_owned());
    Ok(UpstreamCall { path, headers, dropped, ..UpstreamCall::new(json(&body)) })
}

const ENABLE: HeaderValue = HeaderValue::from_static("enable");

fn parameters<'a>(
    call: &Call,
    chat: &mut Chat<'a>,
    streams: bool,
) -> Result<Parameters<'a>, Unfit> {
    let alike: BTreeMap<_, _> =
        ALIKE.into_iter().filter_map(|name| Some((name, chat.take_raw(name)?))).collect();
    let (mut enable_thinking, mut thinking_budget) = (None, None);
    if let Some(effort) = chat.take_text("reasoning_effort")?
        && !alike.contains_key("enable_thinking")
    {
        let known = EFFORTS.iter().find(|(word, ..)| *word == effort);
        let (_, thinks, budget) = known.ok_or_else(|| {
            Unfit::invalid("reasoning_effort", "must be none, minimal, low, medium, high or xhigh")
        })?;
        enable_thinking = Some(*thinks);
        thinking_budget = budget.filter(|_| !alike.contains_key("thinking_budget"));
    }
    let thinks = enable_thinking
        .unwrap_or_else(|| alike.get("enable_thinking").is_some_and(|it| it.get() == "true"));
    if thinks && matches!(chat.tool_choice, Some(ToolChoice::Named(_))) {
        return Err(Unfit::unsupported(
            "tool_choice",
            "it chooses tools by itself where it thinks",
        ));
    }
    let n = chat.take_count("n")?.filter(|n| *n != 1);
    if n.is_some_and(|n| n > MOST_CHOICES) {
        return Err(Unfit::unsupported("n", "it gives at most 4 answers"));
    }
    Ok(Parameters {
        result_format: "message",
        incremental_output: streams.then_some(true),
        // [0, 2): 2 itself is refused.
        temperature: chat.take_clamped("temperature", 0.0, 1.99)?,
        // Open at both ends.
        top_p: chat.take_clamped("top_p", 0.000_001, 0.999_999)?,
        presence_penalty: chat.take_clamped("presence_penalty", -2.0, 2.0)?,
        max_tokens: chat.take_cap(call),
        n,
        stop: std::mem::take(&mut chat.stop),
        parallel_tool_calls: chat.parallel_tool_calls.filter(|_| !chat.tools.is_empty()),
        response_format: chat.format.take().map(response_format),
        alike,
        enable_thinking,
        thinking_budget,
        ..Parameters::default()
    })
}

fn response_format(format: Format<'_>) -> ResponseFormat<'_> {
    match format {
        Format::JsonObject => ResponseFormat { kind: "json_object", json_schema: None },
        Format::JsonSchema { name, schema, strict } => ResponseFormat {
            kind: "json_schema",
            json_schema: Some(Schema { name, schema, strict }),
        },
    }
}

fn tool<'a>(tool: &'a chat::tools::Tool<'_>) -> Tool<'a> {
    let function = ToolFunction {
        name: &tool.name,
        description: tool.description.as_deref(),
        parameters: tool.parameters,
    };
    Tool { kind: "function", function }
}

fn choose<'a>(chat: &'a Chat<'_>) -> Result<Option<Choose<'a>>, Unfit> {
    Ok(match &chat.tool_choice {
        None => None,
        Some(ToolChoice::Auto) => Some(Choose::Word("auto")),
        Some(ToolChoice::None) => Some(Choose::Word("none")),
        Some(ToolChoice::Named(name)) => {
            Some(Choose::Named { kind: "function", function: Named { name } })
        }
        Some(ToolChoice::Required) => {
            return Err(Unfit::unsupported("tool_choice", "it knows none, auto or a function"));
        }
    })
}

/// What is left out of messages and tools.
fn lost(chat: &Chat<'_>) -> Vec<Cow<'static, str>> {
    let mut lost = Vec::new();
    let turns = chat.messages.iter().filter_map(|message| match message {
        chat::Message::Assistant(turn) => Some(turn),
        chat::Message::System(_) | chat::Message::User(_) | chat::Message::Tool { .. } => None,
    });
    let signed =
        |thought: &Reasoning<'_>| !matches!(thought, Reasoning::Text { signature: None, .. });
    if turns.flat_map(|turn| &turn.reasoning).any(signed) {
        lost.push("messages.reasoning_details".into());
    }
    if chat.tools.iter().any(|tool| tool.strict == Some(true)) {
        lost.push("tools.function.strict".into());
    }
    lost
}

fn message<'a>(
    index: usize,
    message: &'a chat::Message<'_>,
    multimodal: bool,
) -> Result<Message<'a>, Unfit> {
    let said = |role, parts| {
        let content = content(index, parts, multimodal)?;
        let (tool_calls, tool_call_id) = (Vec::new(), None);
        Ok(Message { role, content, reasoning_content: None, tool_calls, tool_call_id })
    };
    match message {
        chat::Message::System(parts) => said("system", parts),
        chat::Message::User(parts) => said("user", parts),
        chat::Message::Tool { call_id, content, .. } => {
            Ok(Message { tool_call_id: Some(call_id), ..said("tool", content)? })
        }
        chat::Message::Assistant(turn) => {
            let calls = turn.calls.iter().map(|call| SentCall {
                id: &call.id,
                kind: "function",
                function: CallFunction { name: &call.name, arguments: &call.arguments },
            });
            Ok(Message {
                reasoning_content: thoughts(turn),
                tool_calls: calls.collect(),
                ..said("assistant", &turn.content)?
            })
        }
    }
}

/// The texts of earlier thoughts. Thoughts here have no signatures.
fn thoughts(turn: &Turn<'_>) -> Option<String> {
    let texts = turn.reasoning.iter().filter_map(|thought| match thought {
        Reasoning::Text { text, .. } => Some(text.as_ref()),
        Reasoning::Encrypted(_) => None,
    });
    Some(texts.collect()).filter(|text: &String| !text.is_empty())
}

fn content<'a>(
    index: usize,
    parts: &'a [Part<'_>],
    multimodal: bool,
) -> Result<Content<'a>, Unfit> {
    if !multimodal && let Some(text) = plain_text(parts) {
        return Ok(Content::Text(text));
    }
    if parts.is_empty() {
        return Ok(Content::Pieces(vec![Piece::Text("".into())]));
    }
    let pieces = parts.iter().enumerate().map(|(position, part)| match part {
        Part::Text(text) => Ok(Piece::Text(Cow::Borrowed(text))),
        Part::Image(media) => Ok(Piece::Image(address(media))),
        Part::Audio { data, format } => Ok(Piece::Audio(sound(data, format))),
        Part::File { media, .. } => file(media).ok_or_else(|| {
            let at = format!("messages[{index}].content[{position}]");
            Unfit::unsupported(at, "it takes images, sounds and videos, no other files")
        }),
    });
    Ok(Content::Pieces(pieces.collect::<Result<_, _>>()?))
}

fn address<'a>(media: &'a Media<'_>) -> Cow<'a, str> {
    match media {
        Media::Url(url) => Cow::Borrowed(url),
        Media::Inline { mime, data } => format!("data:{mime};base64,{data}").into(),
    }
}

/// Base64 as a data URL. Addresses are taken where the bytes stand, too.
fn sound<'a>(data: &'a str, format: &str) -> Cow<'a, str> {
    if data.starts_with("data:") || data.contains("://") {
        return Cow::Borrowed(data);
    }
    let subtype = if format == "mp3" { "mpeg" } else { format };
    format!("data:audio/{subtype};base64,{data}").into()
}

fn file<'a>(media: &'a Media<'_>) -> Option<Piece<'a>> {
    let Media::Inline { mime, .. } = media else { return None };
    match mime.split('/').next()? {
        "image" => Some(Piece::Image(address(media))),
        "audio" => Some(Piece::Audio(address(media))),
        "video" => Some(Piece::Video(address(media))),
        _ => None,
    }
}

fn has_media(chat: &Chat<'_>) -> bool {
    parts(chat).any(|part| !matches!(part, Part::Text(_)))
}

/// Does it name files in Alibaba's object store, which a header must ask for?
fn has_oss(chat: &Chat<'_>) -> bool {
    parts(chat).any(|part| match part {
        Part::Image(Media::Url(url)) => url.starts_with("oss://"),
        Part::Audio { data, .. } => data.starts_with("oss://"),
        Part::Image(Media::Inline { .. }) | Part::Text(_) | Part::File { .. } => false,
    })
}

fn parts<'a>(chat: &'a Chat<'_>) -> impl Iterator<Item = &'a Part<'a>> {
    chat.messages.iter().flat_map(|message| match message {
        chat::Message::System(parts) | chat::Message::User(parts) => parts,
        chat::Message::Tool { content, .. } => content,
        chat::Message::Assistant(turn) => &turn.content,
    })
}
