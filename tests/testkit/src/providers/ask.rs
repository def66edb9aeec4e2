//! What a request asks for, in terms that are the same for all dialects.

use serde_json::Value;

/// A request to generate, as its dialect read it.
#[derive(Debug, Default)]
pub(super) struct Ask {
    pub(super) model: String,
    /// The system texts, joined.
    pub(super) system: String,
    /// The last text of the user.
    pub(super) prompt: String,
    /// Words in all texts.
    pub(super) words: u64,
    pub(super) stream: bool,
    pub(super) tools: Vec<Tool>,
    pub(super) choice: Choice,
    /// The caller wants one call at most.
    pub(super) one_call: bool,
    /// What tools answered since the last turn of the model.
    pub(super) results: Vec<String>,
    pub(super) json: Option<Json>,
    /// What the last turn of the user has beside text.
    pub(super) media: Vec<Media>,
    /// Whether reasoning is wanted.
    pub(super) thinks: bool,
    /// The most tokens of output.
    pub(super) cap: Option<u64>,
    /// The next text of the user replaces the prompt.
    pub(super) fresh: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: String,
    /// JSON Schema of its arguments.
    pub(super) schema: Value,
}

/// Whether tools are to be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Choice {
    #[default]
    Auto,
    Never,
    Any,
    Named(String),
}

/// A wish for JSON as the answer.
#[derive(Debug, Clone)]
pub(super) enum Json {
    Any,
    Schema(Value),
}

/// An image or the like, inside the request or elsewhere.
#[derive(Debug, Clone)]
pub(super) enum Media {
    Inline { media_type: String, bytes: usize },
    Link(String),
}

impl Ask {
    /// What follows `prefix` in the first word of the prompt that starts with it.
    pub(super) fn word(&self, prefix: &str) -> Option<&str> {
        self.prompt.split_whitespace().find_map(|word| word.strip_prefix(prefix))
    }

    /// Whether the prompt has that word.
    pub(super) fn says(&self, wanted: &str) -> bool {
        self.prompt.split_whitespace().any(|word| word == wanted)
    }

    /// Counts a text as part of what the request costs.
    pub(super) fn count(&mut self, text: &str) {
        self.words += words(text);
    }

    /// Takes a text of the system.
    pub(super) fn told(&mut self, text: &str) {
        self.count(text);
        if !self.system.is_empty() && !text.is_empty() {
            self.system.push(' ');
        }
        self.system.push_str(text);
    }

    /// A turn of the user begins: it replaces what the one before asked.
    pub(super) fn user_turn(&mut self) {
        self.prompt.clear();
        self.media.clear();
        self.results.clear();
    }

    /// The same where results come in the user's turn too: one of results only keeps what was asked.
    pub(super) fn user_turn_after_model(&mut self) {
        self.media.clear();
        self.results.clear();
        self.fresh = true;
    }

    /// Takes a text of the user's turn.
    pub(super) fn user_text(&mut self, text: &str) {
        self.count(text);
        if std::mem::take(&mut self.fresh) {
            self.prompt.clear();
        }
        if !self.prompt.is_empty() {
            self.prompt.push(' ');
        }
        self.prompt.push_str(text);
    }

    /// A turn of the model begins: results before it are used up.
    pub(super) fn model_turn(&mut self) {
        self.results.clear();
    }

    /// Takes what a tool answered.
    pub(super) fn result(&mut self, text: &str) {
        self.count(text);
        self.results.push(text.to_owned());
    }
}

impl Media {
    /// How an answer names it.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Inline { media_type, bytes } => format!("{media_type} of {bytes} bytes"),
            Self::Link(url) => format!("what is at {url}"),
        }
    }
}

/// Number of words, which fakes count as tokens.
pub(super) fn words(text: &str) -> u64 {
    u64::try_from(text.split_whitespace().count()).unwrap_or(u64::MAX)
}
