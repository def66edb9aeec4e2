//! Dialect names and their implementations: the one place that lists them.

use crate::{dialect::Dialect, openai_chat::OpenAiChat};

/// Every dialect of this build.
static ALL: &[&dyn Dialect] = &[&OpenAiChat];

/// The dialect of this name.
pub fn find(name: &str) -> Option<&'static dyn Dialect> {
    ALL.iter().copied().find(|dialect| dialect.name() == name)
}
