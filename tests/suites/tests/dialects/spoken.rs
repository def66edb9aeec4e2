//! How the gateway is told to speak to each fake provider.

use serde_json::json;
use sluicegate_dialect::registry;
use sluicegate_testkit::providers::{Dialect, Fake, bedrock_secret};

/// What a configuration says of a provider.
pub(crate) struct Spoken {
    pub(crate) dialect: &'static str,
    pub(crate) variant: &'static str,
    /// Path of the base URL, with its query.
    pub(crate) path: &'static str,
}

impl Spoken {
    pub(crate) fn of(dialect: Dialect) -> Self {
        let openai = |variant, path| Self { dialect: "openai-chat", variant, path };
        let own = |dialect, path| Self { dialect, variant: "", path };
        match dialect {
            Dialect::OpenAi => openai("openai", "/v1"),
            Dialect::Azure => own("azure-openai", "/openai?api-version=2024-10-21"),
            Dialect::Anthropic => own("anthropic-messages", "/v1"),
            Dialect::Gemini => own("gemini-generate", "/v1beta"),
            Dialect::DashScope => own("dashscope-native", "/api/v1"),
            Dialect::Ernie => own("ernie-v1", "/rpc/2.0/ai_custom/v1/wenxinworkshop"),
            Dialect::Bedrock => own("bedrock-converse", ""),
            Dialect::DeepSeek => openai("deepseek", ""),
            Dialect::Ark => openai("doubao-ark", "/api/v3"),
            Dialect::Zhipu => openai("zhipu-glm", "/api/paas/v4"),
            Dialect::QwenCompat => openai("qwen", "/compatible-mode/v1"),
            Dialect::QianfanV2 => openai("qianfan-v2", "/v2"),
            Dialect::Moonshot => openai("moonshot", "/v1"),
            Dialect::Mistral => openai("mistral", "/v1"),
            Dialect::Vllm => openai("vllm", "/v1"),
            Dialect::SgLang => openai("sglang", "/v1"),
            Dialect::Ollama => openai("ollama", "/v1"),
            Dialect::QwenDemo => openai("generic", "/v1"),
        }
    }

    pub(crate) fn dialect(&self) -> &'static dyn sluicegate_dialect::Dialect {
        let Self { dialect, variant, .. } = self;
        registry::find(dialect, variant).unwrap_or_else(|| panic!("nobody speaks {dialect}"))
    }

    /// A name that the provider could have for a model; what a format knows of models by their names
    /// is used so.
    fn model(dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::OpenAi | Dialect::Azure => "gpt-4o",
            Dialect::Anthropic => "claude-sonnet-4-5",
            Dialect::Gemini => "gemini-2.5-flash",
            Dialect::DashScope => "qwen3-max",
            Dialect::Bedrock => "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            _ => "some-model",
        }
    }

    /// Keys that a fake of this dialect is to accept: several, because one that was limited rests.
    pub(crate) fn keys(dialect: Dialect) -> Vec<String> {
        let key = dialect.key();
        let key = |n: u8| match (dialect, key.split_once(':')) {
            (_, Some((id, secret))) => format!("{id}{n}:{secret}{n}"),
            (_, None) => format!("{}{n}", &key[..key.len() - 1]),
        };
        (1..=KEYS).map(key).collect()
    }

    /// Provider and model of a fake in a configuration. The model is called as the dialect is.
    pub(crate) fn entry(fake: &Fake) -> serde_json::Value {
        let Self { dialect, variant, path } = Self::of(fake.dialect());
        let (name, address) = (fake.dialect().name(), fake.upstream().address());
        let secret = |key: String| match fake.dialect() {
            Dialect::Bedrock => format!("{key}:{}", bedrock_secret(&key)),
            _ => key,
        };
        let keys: Vec<_> = Self::keys(fake.dialect())
            .into_iter()
            .enumerate()
            .map(|(n, key)| json!({ "name": format!("k{n}"), "secret": { "value": secret(key) } }))
            .collect();
        json!({
            "provider": {
                "name": name, "dialect": dialect, "variant": variant,
                "base_url": format!("http://{address}{path}"), "region": "us-east-1", "keys": keys,
                // Errors of every kind come from it, one after the other.
                "breaker": { "off": true },
            },
            "model": {
                "name": name, "retry": { "max_attempts": 1 },
                "targets": [{ "provider": name, "model": Self::model(fake.dialect()) }],
            },
        })
    }
}

/// How many keys each provider has.
const KEYS: u8 = 8;
