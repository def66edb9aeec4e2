//! The errors of the family, by provider.

mod ark;
mod azure;
mod deepseek;
mod mistral;
mod moonshot;
mod openai;
mod qianfan;
mod qwen;
mod servers;
mod zhipu;

pub(in crate::providers) use self::azure::ROWS as AZURE;

use crate::providers::Dialect;
use crate::providers::rows::ErrorRow;

/// The error rows of a dialect of this family.
pub(in crate::providers) fn rows(dialect: Dialect) -> &'static [ErrorRow] {
    match dialect {
        Dialect::Azure => azure::ROWS,
        Dialect::DeepSeek => deepseek::ROWS,
        Dialect::Ark => ark::ROWS,
        Dialect::Zhipu => zhipu::ROWS,
        Dialect::QwenCompat => qwen::ROWS,
        Dialect::QianfanV2 => qianfan::ROWS,
        Dialect::Moonshot => moonshot::ROWS,
        Dialect::Mistral => mistral::ROWS,
        Dialect::Vllm => servers::VLLM,
        Dialect::SgLang => servers::SGLANG,
        Dialect::Ollama => servers::OLLAMA,
        Dialect::QwenDemo => servers::QWEN_DEMO,
        Dialect::OpenAi
        | Dialect::Anthropic
        | Dialect::Gemini
        | Dialect::DashScope
        | Dialect::Ernie
        | Dialect::Bedrock => openai::ROWS,
    }
}

/// `{"error":{…}}` with four members; type, parameter and code as JSON.
macro_rules! error {
    ($message:literal, $kind:literal, $param:literal, $code:literal) => {
        concat!(
            r#"{"error":{"message":""#,
            $message,
            r#"","type":"#,
            $kind,
            r#","param":"#,
            $param,
            r#","code":"#,
            $code,
            "}}"
        )
    };
}
use error;

/// A page as a proxy in front of a provider shows it.
const HTML: &str = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad \
                    Gateway</h1></center></body></html>";
const IS_HTML: &[(&str, &str)] = &[("content-type", "text/html")];
