//! How hard a model is to think, in the words that its generation knows.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    chat::{
        Chat, Message,
        request::{Reasoning, Turn},
        tools::ToolChoice,
    },
    dialect::Unfit,
};

/// What a model wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinks {
    Never,
    /// `thinking` with a budget in tokens.
    Budget,
    /// `thinking` without one, and `output_config.effort`.
    Adaptive,
}

/// Beginnings of models' names; the first that fits decides. Models named `claude-` that are not here
/// are newer than those that are; other names are models of servers that copy the format as it
/// first was.
const MODELS: &[(&str, Thinks)] = &[
    ("claude-2", Thinks::Never),
    ("claude-instant", Thinks::Never),
    ("claude-3-7", Thinks::Budget),
    ("claude-3", Thinks::Never),
    ("claude-opus-4-0", Thinks::Budget),
    ("claude-opus-4-1", Thinks::Budget),
    ("claude-opus-4-2025", Thinks::Budget),
    ("claude-opus-4-5", Thinks::Budget),
    ("claude-sonnet-4-0", Thinks::Budget),
    ("claude-sonnet-4-2025", Thinks::Budget),
    ("claude-sonnet-4-5", Thinks::Budget),
    ("claude-haiku-4-5", Thinks::Budget),
    ("claude-", Thinks::Adaptive),
    ("", Thinks::Budget),
];

/// One of OpenAI's words for effort, and what it is here: a budget in tokens and a word.
const EFFORTS: &[(&str, u64, &str)] = &[
    ("minimal", LEAST_BUDGET, "low"),
    ("low", 2048, "low"),
    ("medium", 8192, "medium"),
    ("high", 16_384, "high"),
    ("xhigh", 32_768, "max"),
    ("max", 32_768, "max"),
];

/// The format takes no smaller budget.
const LEAST_BUDGET: u64 = 1024;

/// What a request says of thinking.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    pub(crate) thinking: Option<Thinking<'a>>,
    pub(crate) effort: Option<&'static str>,
    /// The effort that was asked for cannot be had.
    pub(crate) gave_up: bool,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Thinking<'a> {
    /// The caller's own words.
    Native(&'a RawValue),
    Made(Made),
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Made {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_tokens: Option<u64>,
}

/// The members of a native `thinking` that matter here.
#[derive(Deserialize)]
struct Native<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(default)]
    budget_tokens: Option<u64>,
}

impl Plan<'_> {
    /// Does the model think before it answers, by what is sent?
    pub(crate) fn thinks(&self) -> bool {
        match &self.thinking {
            None => false,
            Some(Thinking::Made(_)) => true,
            Some(Thinking::Native(raw)) => serde_json::from_str(raw.get())
                .is_ok_and(|native: Native<'_>| native.kind != "disabled"),
        }
    }

    /// Tokens that the caller's own `thinking` may take.
    pub(super) fn native_budget(&self) -> Option<u64> {
        match &self.thinking {
            Some(Thinking::Native(raw)) => {
                serde_json::from_str::<Native<'_>>(raw.get()).ok()?.budget_tokens
            }
            _ => None,
        }
    }
}

/// Plans the thinking of a call: `thinking` as the caller wrote it, else `reasoning_effort` by the
/// tables above, with a budget that leaves a quarter of `max_tokens` to the answer.
///
/// Effort is a wish: where a tool is forced, where the bound is too small, or where the caller did
/// not keep the signed thoughts of a tool call that it now answers, the format refuses to think, and
/// the wish is dropped.
///
/// # Errors
/// When the effort is none of OpenAI's words, or a forced tool meets the caller's own `thinking`.
pub(crate) fn plan<'a>(
    chat: &mut Chat<'a>,
    model: &str,
    max_tokens: u64,
) -> Result<Plan<'a>, Unfit> {
    let forced = matches!(chat.tool_choice, Some(ToolChoice::Required | ToolChoice::Named(_)));
    let effort = chat.take_text("reasoning_effort")?;
    if let Some(native) = chat.take_raw("thinking") {
        let thinking = Some(Thinking::Native(native));
        let plan = Plan { thinking, effort: None, gave_up: effort.is_some() };
        if forced && plan.thinks() {
            let why = "it cannot be made to call a tool while it thinks";
            return Err(Unfit::unsupported("tool_choice", why));
        }
        return Ok(plan);
    }
    let Some(effort) = effort.filter(|effort| effort != "none") else { return Ok(Plan::default()) };
    let Some((_, budget, word)) = EFFORTS.iter().find(|(known, ..)| *known == effort) else {
        let what = "must be none, minimal, low, medium, high or xhigh";
        return Err(Unfit::invalid("reasoning_effort", what));
    };
    let thinks = MODELS.iter().find(|(name, _)| model.starts_with(name)).map(|(_, thinks)| *thinks);
    let most = max_tokens / 4 * 3;
    let gave_up = Plan { gave_up: true, ..Plan::default() };
    Ok(match thinks.unwrap_or(Thinks::Budget) {
        _ if forced => gave_up,
        Thinks::Never => gave_up,
        Thinks::Budget if most < LEAST_BUDGET || answers_unsigned(&chat.messages) => gave_up,
        Thinks::Budget => {
            let budget_tokens = Some((*budget).min(most));
            let thinking = Some(Thinking::Made(Made { kind: "enabled", budget_tokens }));
            Plan { thinking, ..Plan::default() }
        }
        Thinks::Adaptive => {
            let thinking = Some(Thinking::Made(Made { kind: "adaptive", budget_tokens: None }));
            Plan { thinking, effort: Some(word), gave_up: false }
        }
    })
}

/// Does the conversation end in results of tool calls that came without a signed thought?
fn answers_unsigned(messages: &[Message<'_>]) -> bool {
    let rest = messages.iter().rev().skip_while(|it| matches!(it, Message::Tool { .. }));
    let is_result = matches!(messages.last(), Some(Message::Tool { .. }));
    let signed = |turn: &Turn<'_>| {
        turn.reasoning.iter().any(|it| !matches!(it, Reasoning::Text { signature: None, .. }))
    };
    is_result && matches!(rest.take(1).next(), Some(Message::Assistant(turn)) if !signed(turn))
}
