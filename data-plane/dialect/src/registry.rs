//! Dialect names and their implementations: the one place that lists them.

use crate::{anthropic_messages::AnthropicMessages, dialect::Dialect, openai_chat};

/// Every dialect of this build, each variant of one by itself.
pub fn all() -> impl Iterator<Item = &'static dyn Dialect> {
    let others: &'static [&'static dyn Dialect] = &[&AnthropicMessages];
    openai_chat::ALL.iter().map(|dialect| dialect as &dyn Dialect).chain(others.iter().copied())
}

/// The dialect of this name; of one that has variants, the named one, and with an empty name the
/// one that makes no assumption.
pub fn find(name: &str, variant: &str) -> Option<&'static dyn Dialect> {
    all().find(|dialect| {
        dialect.name() == name
            && (dialect.variant() == variant
                || (variant.is_empty() && dialect.variant() == "generic"))
    })
}
