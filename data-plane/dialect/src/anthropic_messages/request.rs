//! The caller's request in Anthropic's words.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    messages::{self, Turn},
    thinking::{self, Thinking},
    tools,
};
use crate::{
    call::Call,
    chat::{
        Chat, Number, Support,
        reply::json,
        support::Treat::{Refuse, RefuseUnless},
        tools::Format,
    },
    dialect::{Destination, Unfit, UpstreamCall},
};

/// The bound on an answer where neither the caller nor the gateway sets one: the format requires it,
/// and this is what every one of its models can give.
const MAX_TOKENS: u64 = 4096;

/// The version of the format; the only one there has been since it left its trial.
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

/// Members that the format has no words for. Unknown ones are an error there, so that none is sent on.
const SUPPORT: Support = Support(&[
    ("n", RefuseUnless("1", "it gives one answer")),
    ("logprobs", RefuseUnless("false", "it gives no log-probabilities")),
    ("top_logprobs", RefuseUnless("0", "it gives no log-probabilities")),
    ("modalities", RefuseUnless("[\"text\"]", "it answers in text")),
    ("audio", Refuse("it answers in text")),
    ("functions", Refuse("it takes 'tools'")),
    ("web_search_options", Refuse("it does not search by itself")),
]);

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [Cow<'a, str>],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<tools::Declared<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<tools::Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_geo: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: Cow<'a, str>,
}

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let mut chat = Chat::read(call)?;
    let mut dropped: Vec<Cow<'static, str>> = Vec::new();
    let cap = chat.take_cap(call);
    let plan = thinking::plan(&mut chat, to.model, cap.unwrap_or(MAX_TOKENS))?;
    if plan.gave_up {
        dropped.push("reasoning_effort".into());
    }
    let mut temperature = chat.take_clamped("temperature", 0.0, 1.0)?;
    // While it thinks, the format lets nobody touch the sampling, but for a little of `top_p`.
    let least = if plan.thinks() { 0.95 } else { 0.0 };
    let top_p = chat.take_clamped("top_p", least, 1.0)?;
    let mut top_k = chat.take_raw("top_k");
    if plan.thinks() {
        dropped.extend(temperature.take().map(|_| "temperature".into()));
        dropped.extend(top_k.take().map(|_| "top_k".into()));
    }
    let user = chat.take_text("user")?;
    let user = chat.take_text("safety_identifier")?.or(user);
    let tier = chat.take_text("service_tier")?;
    let service_tier = match tier.as_deref() {
        Some("auto") => Some("auto"),
        Some("standard_only" | "default") => Some("standard_only"),
        Some(_) => {
            dropped.push("service_tier".into());
            None
        }
        None => None,
    };
    let inference_geo = chat.take_raw("inference_geo");
    let format = match &chat.format {
        None => None,
        Some(Format::JsonObject) => {
            let why = "it has no JSON mode without a schema: use json_schema";
            return Err(Unfit::unsupported("response_format", why));
        }
        Some(Format::JsonSchema { schema, .. }) => {
            Some(OutputFormat { kind: "json_schema", schema })
        }
    };
    if chat.stop.iter().any(|stop| stop.trim().is_empty()) {
        let why = "a stop sequence needs more than white space";
        return Err(Unfit::unsupported("stop", why));
    }
    if chat.tools.iter().any(|tool| tool.strict == Some(true)) {
        dropped.push("tools[].function.strict".into());
    }
    dropped.extend(SUPPORT.settle(&chat)?);

    // A budget of the caller's own comes on top of an answer that nobody bounded.
    let default = MAX_TOKENS.saturating_add(plan.native_budget().unwrap_or(0));
    let (system, turns) = messages::turns(&chat.messages)?;
    let body = Body {
        model: to.model,
        max_tokens: cap.unwrap_or(default),
        system,
        messages: turns,
        stream: call.stream.then_some(true),
        temperature,
        top_p,
        top_k,
        stop_sequences: &chat.stop,
        tools: tools::declared(&chat.tools)?,
        tool_choice: tools::choice(&chat),
        output_config: (plan.effort.is_some() || format.is_some())
            .then_some(OutputConfig { effort: plan.effort, format }),
        thinking: plan.thinking,
        metadata: user.map(|user_id| Metadata { user_id }),
        service_tier,
        inference_geo,
    };
    Ok(UpstreamCall { headers: vec![VERSION], dropped, ..UpstreamCall::new(json(&body)) })
}
