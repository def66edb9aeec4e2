//! How the servers that speak OpenAI's format differ: data, one file each. A new server is one more
//! file and its line in [`ALL`].

mod deepseek;
mod doubao_ark;
mod generic;
mod llama_cpp;
mod minimax;
mod mistral;
mod moonshot;
mod ollama;
mod openai;
mod qianfan_v2;
pub(crate) mod qwen;
mod sglang;
mod vllm;
mod zhipu_glm;

use crate::{
    call::Endpoint,
    chat::finish::Finishes,
    errors::{Errors, Resets, Row},
};

pub(crate) use generic::FINISHES;

/// Every variant. The first makes no assumption.
pub const ALL: [&Variant; 14] = [
    &generic::VARIANT,
    &openai::VARIANT,
    &deepseek::VARIANT,
    &doubao_ark::VARIANT,
    &zhipu_glm::VARIANT,
    &qwen::VARIANT,
    &qianfan_v2::VARIANT,
    &moonshot::VARIANT,
    &mistral::VARIANT,
    &minimax::VARIANT,
    &vllm::VARIANT,
    &sglang::VARIANT,
    &ollama::VARIANT,
    &llama_cpp::VARIANT,
];

/// One kind of server.
#[derive(Debug)]
pub struct Variant {
    pub name: &'static str,
    pub errors: Errors,
    /// What becomes of members of the request; those that are not named pass as they are.
    pub members: &'static [(&'static str, Rule)],
    /// Knows the role `developer`; else it is told `system`.
    pub developer: bool,
    /// Takes the addresses of images.
    pub image_urls: bool,
    /// The member that bounds an answer, where the gateway puts one in.
    pub cap: Cap,
    /// Has usage in streams only when it is asked for it with `stream_options`.
    pub ask_usage: bool,
    /// Endpoints that it lacks.
    pub lacks: &'static [Endpoint],
    /// Where chats are, below the base URL, if not where OpenAI has them.
    pub chat_path: Option<&'static str>,
    /// What it calls the text of thoughts, where that is not `reasoning_content`.
    pub reasoning: Option<&'static str>,
    /// Its own words for the end of an answer, before those that all servers share.
    pub finishes: Finishes,
}

impl Variant {
    /// A server that does all that OpenAI's does, with these errors first.
    pub const fn new(name: &'static str, rows: &'static [Row]) -> Self {
        Self {
            name,
            errors: Errors { rows, resets: Resets::None },
            members: &[],
            developer: true,
            image_urls: true,
            cap: Cap::MaxTokens,
            ask_usage: true,
            lacks: &[],
            chat_path: None,
            reasoning: None,
            finishes: &[],
        }
    }

    /// The path of an endpoint below the base URL; `None` where it lacks it.
    pub(super) fn path(&self, endpoint: Endpoint) -> Option<&'static str> {
        let own = self.chat_path.filter(|_| endpoint == Endpoint::Chat);
        (!self.lacks.contains(&endpoint)).then(|| own.unwrap_or(endpoint.path()))
    }
}

/// What becomes of one member.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// Left out and named to the caller.
    Drop,
    /// It has another name there.
    Rename(&'static str),
    /// A number, brought within these bounds.
    Clamp(f64, f64),
    /// Words that are other words there.
    Words(&'static [(&'static str, &'static str)]),
    /// Refused unless its value, as it is spelt, is one of these.
    Only(&'static [&'static str], &'static str),
    /// Another member stands for it: for each of its values, as they are spelt, what that one is;
    /// for every other, the last.
    Becomes(&'static str, &'static [(&'static str, &'static str)]),
    /// How tools are chosen, where the server chooses by itself: `none` takes the tools out, what
    /// would force a call is refused.
    NoToolChoice,
    /// Refused where it is an object of this `type`.
    NoType(&'static str, &'static str),
}

/// Names of the member that bounds an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    MaxTokens,
    /// `max_completion_tokens` for models whose names begin with one of these, which refuse the other.
    ByModel(&'static [&'static str]),
}
