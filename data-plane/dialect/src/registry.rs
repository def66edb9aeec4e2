//! Dialect names and their implementations: the one place that lists them.

use crate::{
    anthropic_messages::AnthropicMessages, azure_openai, bedrock_converse::BedrockConverse,
    dashscope_native::DashscopeNative, dialect::Dialect, ernie_v1::ErnieV1,
    gemini_generate::GeminiGenerate, openai_chat,
};

/// Those besides the variants of `openai-chat`.
static OTHERS: &[&dyn Dialect] = &[
    &azure_openai::CLASSIC,
    &azure_openai::V1,
    &AnthropicMessages,
    &GeminiGenerate,
    &DashscopeNative,
    &ErnieV1,
    &BedrockConverse,
];

/// Every dialect of this build, each variant of one by itself.
pub fn all() -> impl Iterator<Item = &'static dyn Dialect> {
    openai_chat::ALL.iter().map(|dialect| dialect as &dyn Dialect).chain(OTHERS.iter().copied())
}

/// The dialect of this name; of one that has variants, the named one, and with an empty name the
/// one that makes no assumption.
pub fn find(name: &str, variant: &str) -> Option<&'static dyn Dialect> {
    let is = |dialect: &&dyn Dialect| {
        let assumes_nothing = variant.is_empty() && dialect.variant() == "generic";
        dialect.name() == name && (dialect.variant() == variant || assumes_nothing)
    };
    all().find(is)
}
