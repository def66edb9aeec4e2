//! The providers of the family, as data.

mod hosted;
mod servers;

use self::hosted::{ARK, AZURE, DEEPSEEK, MISTRAL, MOONSHOT, QIANFAN, QWEN, ZHIPU};
use self::servers::{OLLAMA, QWEN_DEMO, SGLANG, VLLM};
use super::variant::{
    Calls, Counts, Envelope, Fragments, NullUsage, Reasoning, Rules, Shape, Unknown, UsageAt,
    Variant,
};
use crate::providers::Dialect;

/// The variant that a dialect of this family is.
pub(in crate::providers) fn of(dialect: Dialect) -> &'static Variant {
    match dialect {
        Dialect::Azure => &AZURE,
        Dialect::DeepSeek => &DEEPSEEK,
        Dialect::Ark => &ARK,
        Dialect::Zhipu => &ZHIPU,
        Dialect::QwenCompat => &QWEN,
        Dialect::QianfanV2 => &QIANFAN,
        Dialect::Moonshot => &MOONSHOT,
        Dialect::Mistral => &MISTRAL,
        Dialect::Vllm => &VLLM,
        Dialect::SgLang => &SGLANG,
        Dialect::Ollama => &OLLAMA,
        Dialect::QwenDemo => &QWEN_DEMO,
        Dialect::OpenAi
        | Dialect::Anthropic
        | Dialect::Gemini
        | Dialect::DashScope
        | Dialect::Ernie
        | Dialect::Bedrock => &OPENAI,
    }
}

/// What all others are told from.
const OPENAI: Variant = Variant {
    dialect: Dialect::OpenAi,
    bases: &["/v1"],
    envelope: Envelope::OpenAi,
    rules: Rules {
        needs_key: true,
        unknown: Unknown::Refused,
        more: &[],
        less: &[],
        temperature: (0.0, 2.0),
        bounds: (true, true),
        roles: &["developer", "system", "user", "assistant", "tool", "function"],
        parts: true,
        links: true,
        schema: true,
        choice: true,
        embeddings: true,
        keeps_reasoning: false,
        short_ids: false,
    },
    shape: Shape {
        id: "chatcmpl-",
        line: "\n",
        before: "",
        padding: "",
        top: r#"{"service_tier":"default","system_fingerprint":"fp_1"}"#,
        choice: r#"{"logprobs":null}"#,
        first: Some(r#"{"role":"assistant","content":"","refusal":null}"#),
        first_call: Some(r#"{"role":"assistant","content":null,"refusal":null}"#),
        with_text: "{}",
        with_reasoning: "{}",
        with_call: "{}",
        last: "{}",
        last_choice: "{}",
        absent_finish: false,
        usage: UsageAt::Asked,
        null_usage: NullUsage::WhenAsked,
        counts: Counts::Full,
        reasoning: Reasoning::Hidden,
        calls: Calls::Fragments(FRAGMENTS),
        filtered: "content_filter",
        message: r#"{"refusal":null,"annotations":[]}"#,
        obfuscated: true,
        done_after_error: true,
        nameless: false,
    },
};

const FRAGMENTS: Fragments =
    Fragments { index: true, opens_empty: true, later: "{}", trailing: false };

/// What is the same at the others: no padding against guesses, no members of OpenAI's own.
const PLAIN: Shape = Shape {
    top: "{}",
    choice: "{}",
    message: "{}",
    first: Some(r#"{"role":"assistant","content":""}"#),
    first_call: None,
    null_usage: NullUsage::Never,
    counts: Counts::Details,
    obfuscated: false,
    done_after_error: false,
    ..OPENAI.shape
};

/// What is the same at the others: unknown fields do no harm.
const LENIENT: Rules = Rules {
    unknown: Unknown::Ignored,
    roles: &["system", "user", "assistant", "tool"],
    ..OPENAI.rules
};
