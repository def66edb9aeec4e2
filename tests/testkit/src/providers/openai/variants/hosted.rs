//! Services.

use super::super::variant::{
    Calls, Counts, Envelope, Fragments, NullUsage, Reasoning, Rules, Shape, Unknown, UsageAt,
    Variant,
};
use super::{FRAGMENTS, LENIENT, OPENAI, PLAIN};
use crate::providers::Dialect;

/// Its first event has no choice but tells about filters, and so does every choice.
pub(super) const AZURE: Variant = Variant {
    dialect: Dialect::Azure,
    bases: &[],
    envelope: Envelope::Azure,
    rules: Rules { more: &["data_sources"], ..OPENAI.rules },
    shape: Shape {
        before: concat!(
            r#"data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"#,
            r#""content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"detected":false,"filtered":false}}}]}"#,
            "\n\n"
        ),
        top: r#"{"system_fingerprint":null}"#,
        choice: r#"{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"logprobs":null}"#,
        obfuscated: false,
        ..OPENAI.shape
    },
};

/// Usage in the chunk that finishes, comments while a request waits, empty lines before a whole answer.
pub(super) const DEEPSEEK: Variant = Variant {
    dialect: Dialect::DeepSeek,
    bases: &["/v1", "/beta", ""],
    envelope: Envelope::DeepSeek,
    rules: Rules { schema: false, embeddings: false, keeps_reasoning: true, ..LENIENT },
    shape: Shape {
        id: "c0de0000-0000-4000-8000-00000000000",
        before: ": keep-alive\n\n",
        padding: "\n\n\n",
        top: r#"{"system_fingerprint":"fp1"}"#,
        choice: r#"{"logprobs":null}"#,
        first: Some(r#"{"role":"assistant","content":null,"reasoning_content":""}"#),
        with_reasoning: r#"{"content":null}"#,
        last: r#"{"content":"","reasoning_content":null}"#,
        usage: UsageAt::Finish,
        null_usage: NullUsage::Always,
        counts: Counts::Hits,
        reasoning: Reasoning::Member("reasoning_content"),
        ..PLAIN
    },
};

/// The role in every chunk, no `finish_reason` until there is one.
pub(super) const ARK: Variant = Variant {
    dialect: Dialect::Ark,
    bases: &["/api/v3"],
    envelope: Envelope::Ark,
    rules: LENIENT,
    shape: Shape {
        id: "02179000000000000000000000000000000000000000",
        top: r#"{"service_tier":"default"}"#,
        first: Some(r#"{"content":"","role":"assistant"}"#),
        with_text: r#"{"role":"assistant"}"#,
        with_reasoning: r#"{"content":"","role":"assistant"}"#,
        with_call: r#"{"content":"","role":"assistant"}"#,
        last: r#"{"content":"","role":"assistant"}"#,
        absent_finish: true,
        null_usage: NullUsage::Always,
        reasoning: Reasoning::Member("reasoning_content"),
        ..PLAIN
    },
};

/// The role with every text, calls whole, usage beside the choice that finishes.
pub(super) const ZHIPU: Variant = Variant {
    dialect: Dialect::Zhipu,
    bases: &["/api/paas/v4", "/api/coding/paas/v4"],
    envelope: Envelope::Zhipu,
    rules: Rules {
        temperature: (0.0, 1.0),
        bounds: (false, false),
        schema: false,
        choice: false,
        ..LENIENT
    },
    shape: Shape {
        id: "20260313a",
        first: None,
        with_text: r#"{"role":"assistant"}"#,
        with_reasoning: r#"{"role":"assistant"}"#,
        last: r#"{"role":"assistant","content":""}"#,
        absent_finish: true,
        usage: UsageAt::Finish,
        reasoning: Reasoning::Member("reasoning_content"),
        calls: Calls::Whole,
        filtered: "sensitive",
        done_after_error: true,
        ..PLAIN
    },
};

/// Later fragments of a call have an empty id, and an empty one follows without `finish_reason`.
pub(super) const QWEN: Variant = Variant {
    dialect: Dialect::QwenCompat,
    bases: &["/compatible-mode/v1"],
    envelope: Envelope::Qwen,
    rules: Rules { temperature: (0.0, 2.0), bounds: (true, false), ..LENIENT },
    shape: Shape {
        id: "chatcmpl-q",
        top: r#"{"system_fingerprint":null}"#,
        choice: r#"{"logprobs":null}"#,
        first_call: Some(r#"{"content":null,"role":"assistant"}"#),
        with_reasoning: r#"{"content":null}"#,
        with_call: r#"{"content":null}"#,
        null_usage: NullUsage::Always,
        reasoning: Reasoning::Member("reasoning_content"),
        calls: Calls::Fragments(Fragments {
            later: r#"{"id":"","type":"function"}"#,
            trailing: true,
            ..FRAGMENTS
        }),
        ..PLAIN
    },
};

/// No role, a flag in every choice.
pub(super) const QIANFAN: Variant = Variant {
    dialect: Dialect::QianfanV2,
    bases: &["/v2"],
    envelope: Envelope::Qianfan,
    rules: LENIENT,
    shape: Shape {
        id: "as-",
        before: ": keep-alive\n\n",
        choice: r#"{"flag":0}"#,
        first: None,
        last: r#"{"content":""}"#,
        absent_finish: true,
        reasoning: Reasoning::Member("reasoning_content"),
        ..PLAIN
    },
};

/// Usage inside the choice that finishes, fragments of calls without an index.
pub(super) const MOONSHOT: Variant = Variant {
    dialect: Dialect::Moonshot,
    bases: &["/v1"],
    envelope: Envelope::Moonshot,
    rules: Rules { temperature: (0.0, 1.0), embeddings: false, keeps_reasoning: true, ..LENIENT },
    shape: Shape {
        id: "chatcmpl-k",
        usage: UsageAt::Choice,
        counts: Counts::Cached,
        reasoning: Reasoning::Member("reasoning_content"),
        calls: Calls::Fragments(Fragments { index: false, ..FRAGMENTS }),
        ..PLAIN
    },
};

/// Calls whole in the chunk that finishes, without index and type; unknown fields are refused.
pub(super) const MISTRAL: Variant = Variant {
    dialect: Dialect::Mistral,
    bases: &["/v1"],
    envelope: Envelope::Mistral,
    rules: Rules {
        unknown: Unknown::Refused,
        more: &["random_seed", "safe_prompt", "prompt_mode"],
        less: &[
            "seed",
            "max_completion_tokens",
            "logprobs",
            "top_logprobs",
            "logit_bias",
            "user",
            "store",
            "stream_options",
            "service_tier",
            "verbosity",
            "modalities",
            "audio",
            "web_search_options",
            "moderation",
            "functions",
            "function_call",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_options",
        ],
        temperature: (0.0, 1.5),
        short_ids: true,
        ..LENIENT
    },
    shape: Shape {
        id: "5a5a5a5a5a5a",
        choice: r#"{"logprobs":null}"#,
        last: r#"{"content":""}"#,
        usage: UsageAt::Finish,
        counts: Counts::Plain,
        reasoning: Reasoning::Parts,
        calls: Calls::InFinish,
        ..PLAIN
    },
};
