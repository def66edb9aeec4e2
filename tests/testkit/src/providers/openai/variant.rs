//! What a provider of the OpenAI family may do in its own way.

use crate::providers::Dialect;

/// A provider of the family. Texts of JSON are objects whose members are added as they stand.
#[derive(Debug, Clone, Copy)]
pub(in crate::providers) struct Variant {
    pub(super) dialect: Dialect,
    /// The paths its operations may follow.
    pub(super) bases: &'static [&'static str],
    pub(super) envelope: Envelope,
    pub(super) rules: Rules,
    pub(super) shape: Shape,
}

/// What it accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) needs_key: bool,
    pub(super) unknown: Unknown,
    /// Fields it knows beside OpenAI's, and OpenAI's that it refuses although it knows them.
    pub(super) more: &'static [&'static str],
    pub(super) less: &'static [&'static str],
    /// The least and the most temperature.
    pub(super) temperature: (f64, f64),
    /// Whether the bounds themselves are accepted.
    pub(super) bounds: (bool, bool),
    pub(super) roles: &'static [&'static str],
    /// Whether content may be a list of parts.
    pub(super) parts: bool,
    /// Whether images may be links.
    pub(super) links: bool,
    pub(super) schema: bool,
    /// Whether `tool_choice` may be more than `auto` and `none`.
    pub(super) choice: bool,
    pub(super) embeddings: bool,
    /// Whether reasoning must come back with the calls that it led to.
    pub(super) keeps_reasoning: bool,
    /// Whether ids of calls are nine letters and digits.
    pub(super) short_ids: bool,
}

/// What happens to fields it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    Refused,
    Ignored,
}

/// The form of its refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Envelope {
    OpenAi,
    Azure,
    DeepSeek,
    Ark,
    Zhipu,
    Qwen,
    Qianfan,
    Moonshot,
    Mistral,
    Vllm,
    SgLang,
    Ollama,
    FastApi,
}

/// How it writes answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) id: &'static str,
    /// The end of every line of a stream.
    pub(super) line: &'static str,
    /// Bytes before the first event of a stream.
    pub(super) before: &'static str,
    /// Bytes before a whole answer.
    pub(super) padding: &'static str,
    /// Members of every chunk and of the whole answer.
    pub(super) top: &'static str,
    /// Members of every choice.
    pub(super) choice: &'static str,
    /// The delta of a first chunk of its own.
    pub(super) first: Option<&'static str>,
    /// What is in the delta with the first call, when that is first of all and has no chunk before.
    pub(super) first_call: Option<&'static str>,
    /// What deltas of text, reasoning and calls hold besides.
    pub(super) with_text: &'static str,
    pub(super) with_reasoning: &'static str,
    pub(super) with_call: &'static str,
    /// The delta and further members of the choice that finishes.
    pub(super) last: &'static str,
    pub(super) last_choice: &'static str,
    /// Whether `finish_reason` is absent until there is one, instead of null.
    pub(super) absent_finish: bool,
    pub(super) usage: UsageAt,
    /// When chunks without usage have it as null.
    pub(super) null_usage: NullUsage,
    pub(super) counts: Counts,
    pub(super) reasoning: Reasoning,
    pub(super) calls: Calls,
    /// The word for an answer that a filter ended.
    pub(super) filtered: &'static str,
    /// Members of a whole message.
    pub(super) message: &'static str,
    /// Whether chunks are padded against guesses from their length.
    pub(super) obfuscated: bool,
    /// Whether the end marker follows an error too.
    pub(super) done_after_error: bool,
    /// Whether ids, types and the object's name are left out of answers.
    pub(super) nameless: bool,
}

/// Where a stream tells its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageAt {
    /// In a chunk of its own, when asked for.
    Asked,
    /// In the chunk that finishes, always.
    Finish,
    /// In the choice that finishes, always, and in a chunk of its own when asked for.
    Choice,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullUsage {
    WhenAsked,
    Always,
    Never,
}

/// Which counters usage has beside the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    Plain,
    Details,
    Full,
    /// Hits and misses of the cache beside the details.
    Hits,
    /// Cached tokens beside the details.
    Cached,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reasoning {
    /// Only counted.
    Hidden,
    /// In a member of that name.
    Member(&'static str),
    /// As parts of the content.
    Parts,
}

/// How a stream sends calls.
#[derive(Debug, Clone, Copy)]
pub(super) enum Calls {
    Fragments(Fragments),
    /// Each in one chunk.
    Whole,
    /// All in the chunk that finishes, without index and type.
    InFinish,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fragments {
    /// Whether fragments tell which call they are of; if not, one call comes after the other.
    pub(super) index: bool,
    /// Whether the opening fragment has an empty text of arguments.
    pub(super) opens_empty: bool,
    /// Members of the later fragments.
    pub(super) later: &'static str,
    /// Whether an empty fragment follows, in a choice without `finish_reason`.
    pub(super) trailing: bool,
}
