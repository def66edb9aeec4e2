//! Servers that people run themselves.

use super::super::variant::{
    Calls, Counts, Envelope, Fragments, NullUsage, Reasoning, Rules, Shape, UsageAt, Variant,
};
use super::{FRAGMENTS, LENIENT, PLAIN};
use crate::providers::Dialect;

/// The opening fragment of a call has no arguments; the end marker comes after errors too.
pub(super) const VLLM: Variant = Variant {
    dialect: Dialect::Vllm,
    bases: &["/v1"],
    envelope: Envelope::Vllm,
    rules: LENIENT,
    shape: Shape {
        choice: r#"{"logprobs":null}"#,
        last: r#"{"content":""}"#,
        last_choice: r#"{"stop_reason":null}"#,
        null_usage: NullUsage::Never,
        counts: Counts::Plain,
        reasoning: Reasoning::Member("reasoning"),
        calls: Calls::Fragments(Fragments { opens_empty: false, ..FRAGMENTS }),
        message: r#"{"refusal":null}"#,
        done_after_error: true,
        ..PLAIN
    },
};

/// As vLLM, with older names and flat errors.
pub(super) const SGLANG: Variant = Variant {
    dialect: Dialect::SgLang,
    envelope: Envelope::SgLang,
    shape: Shape {
        last_choice: r#"{"matched_stop":null}"#,
        reasoning: Reasoning::Member("reasoning_content"),
        ..VLLM.shape
    },
    ..VLLM
};

/// Any key does, calls come whole, images only inside the request.
pub(super) const OLLAMA: Variant = Variant {
    dialect: Dialect::Ollama,
    bases: &["/v1"],
    envelope: Envelope::Ollama,
    rules: Rules { needs_key: false, links: false, ..LENIENT },
    shape: Shape {
        top: r#"{"system_fingerprint":"fp_ollama"}"#,
        first: None,
        first_call: None,
        with_text: r#"{"role":"assistant"}"#,
        with_reasoning: r#"{"role":"assistant","content":""}"#,
        counts: Counts::Plain,
        reasoning: Reasoning::Member("reasoning"),
        calls: Calls::Whole,
        ..PLAIN
    },
};

/// CRLF, pings, no usage, no ids, texts only, and `stop` as the only reason.
pub(super) const QWEN_DEMO: Variant = Variant {
    dialect: Dialect::QwenDemo,
    bases: &["/v1"],
    envelope: Envelope::FastApi,
    rules: Rules {
        roles: &["system", "user", "assistant", "function"],
        parts: false,
        schema: false,
        embeddings: false,
        ..LENIENT
    },
    shape: Shape {
        line: "\r\n",
        before: ": ping - 2026-01-01 00:00:00.000000\r\n\r\n",
        first: Some(r#"{"role":"assistant"}"#),
        usage: UsageAt::Never,
        nameless: true,
        ..PLAIN
    },
};
