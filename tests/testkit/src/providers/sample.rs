//! A request in each dialect's own form, for tests that speak to a fake themselves.

use serde_json::{Value, json};

use super::{Dialect, Fake};
use crate::client::Request;

/// A version that Azure's classic paths take.
const AZURE_VERSION: &str = "2024-10-21";

impl Fake {
    /// A request that says `prompt`, with the first key and what else the provider wants.
    pub fn ask(&self, prompt: &str, stream: bool) -> Request {
        let dialect = self.dialect();
        let body = body(dialect, prompt, stream);
        let key = self.key();
        let request = |path: &str| Request::post(path).body(body.to_string());
        match dialect {
            Dialect::Azure => {
                let path = "/openai/deployments/m1/chat/completions?api-version=";
                request(&format!("{path}{AZURE_VERSION}")).header("api-key", &key)
            }
            Dialect::Anthropic => request("/v1/messages")
                .header("x-api-key", &key)
                .header("anthropic-version", "2023-06-01"),
            Dialect::Gemini => {
                let method =
                    if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
                request(&format!("/v1beta/models/m1:{method}")).header("x-goog-api-key", &key)
            }
            Dialect::DashScope => {
                let plain =
                    request("/api/v1/services/aigc/text-generation/generation").bearer(&key);
                match stream {
                    true => plain
                        .header("x-dashscope-sse", "enable")
                        .header("accept", "text/event-stream"),
                    false => plain,
                }
            }
            Dialect::Ernie => {
                let token = self.scene.tokens.give(&key);
                let path = "/rpc/2.0/ai_custom/v1/wenxinworkshop/chat/completions?access_token=";
                request(&format!("{path}{token}"))
            }
            Dialect::Bedrock => {
                let operation = if stream { "converse-stream" } else { "converse" };
                request(&format!("/model/m1/{operation}")).bearer(&key)
            }
            Dialect::OpenAi
            | Dialect::DeepSeek
            | Dialect::Ark
            | Dialect::Zhipu
            | Dialect::QwenCompat
            | Dialect::QianfanV2
            | Dialect::Moonshot
            | Dialect::Mistral
            | Dialect::Vllm
            | Dialect::SgLang
            | Dialect::Ollama
            | Dialect::QwenDemo => {
                request(&format!("{}/chat/completions", dialect.base_path())).bearer(&key)
            }
        }
    }
}

fn body(dialect: Dialect, prompt: &str, stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": prompt}]);
    match dialect {
        Dialect::Anthropic => {
            json!({"model": "m1", "max_tokens": 4096, "messages": messages, "stream": stream})
        }
        Dialect::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": prompt}]}]}),
        Dialect::DashScope => json!({
            "model": "m1", "input": {"messages": messages},
            "parameters": {"result_format": "message", "incremental_output": stream},
        }),
        Dialect::Ernie => json!({"messages": messages, "stream": stream}),
        Dialect::Bedrock => json!({"messages": [{"role": "user", "content": [{"text": prompt}]}]}),
        Dialect::OpenAi
        | Dialect::Azure
        | Dialect::DeepSeek
        | Dialect::Ark
        | Dialect::Zhipu
        | Dialect::QwenCompat
        | Dialect::QianfanV2
        | Dialect::Moonshot
        | Dialect::Mistral
        | Dialect::Vllm
        | Dialect::SgLang
        | Dialect::Ollama
        | Dialect::QwenDemo => json!({"model": "m1", "messages": messages, "stream": stream}),
    }
}
