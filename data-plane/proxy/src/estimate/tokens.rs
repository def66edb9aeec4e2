//! Tokenisers of the families that publish theirs.

use sluicegate_model::resource::model::Tokenizer;
use tiktoken_rs::CoreBPE;

/// A vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// OpenAI's since GPT-4o.
    O200k,
    /// OpenAI's before.
    Cl100k,
}

/// Beginnings of model names and their vocabularies, the longest that fits first.
const FAMILIES: [(&str, Encoding); 12] = [
    ("gpt-4o", Encoding::O200k),
    ("gpt-4.1", Encoding::O200k),
    ("gpt-4.5", Encoding::O200k),
    ("gpt-5", Encoding::O200k),
    ("gpt-oss", Encoding::O200k),
    ("chatgpt-4o", Encoding::O200k),
    ("o1", Encoding::O200k),
    ("o3", Encoding::O200k),
    ("o4", Encoding::O200k),
    ("gpt-4", Encoding::Cl100k),
    ("gpt-3.5", Encoding::Cl100k),
    ("text-embedding-", Encoding::Cl100k),
];

impl Encoding {
    /// The vocabulary of a model; `None`: it is not known.
    pub fn of(tokenizer: Tokenizer, upstream_model: &str) -> Option<Self> {
        match tokenizer {
            Tokenizer::O200k => Some(Self::O200k),
            Tokenizer::Cl100k => Some(Self::Cl100k),
            Tokenizer::Bytes => None,
            Tokenizer::Auto => {
                // Providers that resell put their own name in front.
                let name = upstream_model.rsplit('/').next().unwrap_or(upstream_model);
                let family = FAMILIES.iter().find(|(family, _)| name.starts_with(family));
                family.map(|(_, encoding)| *encoding)
            }
        }
    }

    /// How many tokens a text is.
    pub fn count(self, text: &str) -> u64 {
        self.vocabulary().encode_ordinary(text).len() as u64
    }

    fn vocabulary(self) -> &'static CoreBPE {
        match self {
            Self::O200k => tiktoken_rs::o200k_base_singleton(),
            Self::Cl100k => tiktoken_rs::cl100k_base_singleton(),
        }
    }
}

/// Reads a vocabulary, which takes a moment, so that no request has to wait for it. Blocks.
pub fn warm_up(encoding: Encoding) {
    encoding.count("");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_by_name() {
        let of = |name| Encoding::of(Tokenizer::Auto, name);
        assert_eq!(of("gpt-4o-mini"), Some(Encoding::O200k));
        assert_eq!(of("gpt-4-turbo"), Some(Encoding::Cl100k));
        assert_eq!(of("openai/gpt-5"), Some(Encoding::O200k));
        assert_eq!(of("qwen-plus"), None);
        assert_eq!(Encoding::of(Tokenizer::Bytes, "gpt-4o"), None);
    }

    #[test]
    fn known_counts() {
        assert_eq!(Encoding::O200k.count("hello world"), 2);
        assert_eq!(Encoding::Cl100k.count("tiktoken is great!"), 6);
    }
}
