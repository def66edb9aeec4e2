//! The dialects that fakes speak, and what is peculiar to each from outside.

use super::scene::Scene;
use super::{anthropic, azure, bedrock, dashscope, ernie, gemini, openai};
use crate::upstream::{Call, Step};

/// A wire format together with the provider that serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    OpenAi,
    /// Both the classic paths of deployments and `/openai/v1`.
    Azure,
    Anthropic,
    Gemini,
    /// The native format of Model Studio.
    DashScope,
    /// Qianfan V1.
    Ernie,
    /// Converse.
    Bedrock,
    DeepSeek,
    /// Doubao.
    Ark,
    Zhipu,
    /// The compatible mode of DashScope.
    QwenCompat,
    QianfanV2,
    Moonshot,
    Mistral,
    Vllm,
    SgLang,
    Ollama,
    /// The demo server of the Qwen repository.
    QwenDemo,
}

impl Dialect {
    pub const ALL: [Self; 18] = [
        Self::OpenAi,
        Self::Azure,
        Self::Anthropic,
        Self::Gemini,
        Self::DashScope,
        Self::Ernie,
        Self::Bedrock,
        Self::DeepSeek,
        Self::Ark,
        Self::Zhipu,
        Self::QwenCompat,
        Self::QianfanV2,
        Self::Moonshot,
        Self::Mistral,
        Self::Vllm,
        Self::SgLang,
        Self::Ollama,
        Self::QwenDemo,
    ];

    /// The name scripts use.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::DashScope => "dashscope",
            Self::Ernie => "ernie",
            Self::Bedrock => "bedrock",
            Self::DeepSeek => "deepseek",
            Self::Ark => "ark",
            Self::Zhipu => "zhipu",
            Self::QwenCompat => "qwen-compat",
            Self::QianfanV2 => "qianfan-v2",
            Self::Moonshot => "moonshot",
            Self::Mistral => "mistral",
            Self::Vllm => "vllm",
            Self::SgLang => "sglang",
            Self::Ollama => "ollama",
            Self::QwenDemo => "qwen-demo",
        }
    }

    /// The key a fake accepts if nothing else is said, in the provider's form.
    pub fn key(self) -> &'static str {
        match self {
            Self::Azure => "0123456789abcdef0123456789abcdef",
            Self::Anthropic => "sk-ant-fake-1",
            Self::Gemini => "AIzaFake1",
            Self::Ernie => "fake-ak-1:fake-sk-1",
            Self::Bedrock => "AKIAFAKE000000000001",
            Self::Zhipu => "fakeid1.fakesecret1",
            Self::QianfanV2 => "bce-v3/ALTAK-fake/1",
            Self::QwenDemo => "ZmFrZTpmYWtl",
            Self::OpenAi
            | Self::DashScope
            | Self::DeepSeek
            | Self::Ark
            | Self::QwenCompat
            | Self::Moonshot
            | Self::Mistral
            | Self::Vllm
            | Self::SgLang
            | Self::Ollama => "sk-fake-1",
        }
    }

    /// The path of the base URL, which the provider's SDK adds its own to.
    pub fn base_path(self) -> &'static str {
        match self {
            Self::Azure
            | Self::Anthropic
            | Self::Gemini
            | Self::Ernie
            | Self::Bedrock
            | Self::DeepSeek => "",
            Self::OpenAi
            | Self::Moonshot
            | Self::Mistral
            | Self::Vllm
            | Self::SgLang
            | Self::Ollama
            | Self::QwenDemo => "/v1",
            Self::DashScope => "/api/v1",
            Self::Ark => "/api/v3",
            Self::Zhipu => "/api/paas/v4",
            Self::QwenCompat => "/compatible-mode/v1",
            Self::QianfanV2 => "/v2",
        }
    }

    /// The answer to a call.
    pub(super) fn play(self, scene: &Scene, call: &Call) -> Vec<Step> {
        match self {
            Self::Azure => azure::play(scene, call),
            Self::Anthropic => anthropic::play(scene, call),
            Self::Gemini => gemini::play(scene, call),
            Self::DashScope => dashscope::play(scene, call),
            Self::Ernie => ernie::play(scene, call),
            Self::Bedrock => bedrock::play(scene, call),
            Self::OpenAi
            | Self::DeepSeek
            | Self::Ark
            | Self::Zhipu
            | Self::QwenCompat
            | Self::QianfanV2
            | Self::Moonshot
            | Self::Mistral
            | Self::Vllm
            | Self::SgLang
            | Self::Ollama
            | Self::QwenDemo => openai::play(scene, call),
        }
    }
}
