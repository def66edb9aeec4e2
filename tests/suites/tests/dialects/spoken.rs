//! How the gateway is told to speak to each fake provider.

use sluicegate_dialect::registry;
use sluicegate_testkit::providers::{Dialect, Fake};

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

    /// The provider's entry in a configuration, with its first key.
    pub(crate) fn entry(fake: &Fake) -> String {
        let Self { dialect, variant, path } = Self::of(fake.dialect());
        let (name, address) = (fake.dialect().name(), fake.upstream().address());
        let variant = match variant {
            "" => String::new(),
            variant => format!(", variant: {variant}"),
        };
        format!(
            "  - {{ name: {name}, dialect: {dialect}{variant}, base_url: \"http://{address}{path}\", region: us-east-1, image_urls: refuse,\n      keys: [{{ name: k, secret: {{ value: \"{}\" }} }}] }}\n",
            fake.key()
        )
    }
}
