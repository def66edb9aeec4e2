//! How large a request will be, before anybody has counted it.
//!
//! The prompt is measured with the model family's tokeniser where it has a public one, else by its
//! size; what upstreams report afterwards corrects the measure for each model.

mod learned;
mod tokens;

use std::sync::Arc;

use sluicegate_dialect::{Call, Endpoint, prompt::PromptSize};
use sluicegate_model::resource::model::{OutputCap, Tokenizer};

pub use learned::{Learned, Stats};
pub use tokens::{Encoding, warm_up};

/// Tokens that an image, a sound or a file counts for: about what large images cost at the
/// providers that publish it.
const MEDIA_TOKENS: u64 = 1_500;
/// Tokens around a conversation that no text shows.
const FRAME_TOKENS: u64 = 3;

/// Tokens that the JSON around one message is more than what upstreams put there instead.
const MESSAGE_JSON_TOKENS: u64 = 5;

/// Sizes of one request in tokens.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// The prompt as measured, with the JSON that it is written in.
    measured: u64,
    /// What upstreams will probably count.
    likely: u64,
    /// The most that it may come to, by what was learned of the model.
    prompt: u64,
    /// Longest output of all choices together.
    pub output: u64,
    /// The caller set that bound; else it may be shortened.
    pub capped: bool,
    /// Choices that are generated.
    pub generated: u64,
    /// What 95 of 100 outputs stay under; `None` before enough were seen.
    pub expected: Option<u64>,
    /// The bound must go upstream.
    pub send: bool,
    body_bytes: u64,
}

impl Sizes {
    /// Sizes a call up. `precise`: with the tokeniser; else from the prompt's size alone.
    pub fn of(
        call: &Call,
        upstream_model: &str,
        tokenizer: Tokenizer,
        cap: OutputCap,
        stats: &Stats,
        precise: bool,
    ) -> Self {
        let size = call.prompt.size(&call.body);
        let encoding = Encoding::of(tokenizer, upstream_model).filter(|_| precise);
        let text = match encoding {
            Some(encoding) => {
                let (sample, factor) = call.prompt.sample(&call.body);
                scaled(encoding.count(&sample), factor)
            }
            None => by_bytes(size),
        };
        let measured = text
            .saturating_add(size.media.saturating_mul(MEDIA_TOKENS))
            .saturating_add(FRAME_TOKENS);
        let json = size.messages.saturating_mul(MESSAGE_JSON_TOKENS);
        let generated = call.generated.max(1);
        let (output, capped) = match (call.endpoint, call.max_output_tokens) {
            (Endpoint::Embeddings, _) => (0, true),
            (_, Some(cap)) => (cap.saturating_mul(generated), true),
            (_, None) => (cap.tokens.saturating_mul(generated), false),
        };
        Self {
            measured,
            likely: measured.saturating_sub(json).max(1),
            prompt: scaled(measured, stats.prompt_factor()),
            output,
            capped,
            generated,
            expected: stats.expected_output().map(|each| each.saturating_mul(generated)),
            send: cap.send,
            body_bytes: call.body.len() as u64,
        }
    }

    /// The most that the prompt may come to.
    pub fn prompt(&self) -> u64 {
        self.prompt
    }

    /// Size of the whole request in bytes.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The prompt as measured.
    pub fn measured(&self) -> u64 {
        self.measured
    }

    /// The best guess where nobody counts the prompt.
    pub fn likely(&self) -> u64 {
        self.likely
    }

    /// The answer as it is expected to come out.
    pub fn expected_output(&self) -> u64 {
        self.expected.unwrap_or(self.output)
    }

    /// Prompt and answer as they are expected to come out.
    pub fn expected_tokens(&self) -> u64 {
        self.likely.saturating_add(self.expected_output())
    }

    /// The bound on one choice that is to be sent upstream, if the caller set none.
    pub fn cap_to_send(&self) -> Option<u64> {
        (self.send && !self.capped).then(|| (self.output / self.generated).max(1))
    }
}

/// Where no tokeniser is known: a token for 3.2 bytes of text, less than English has and about what
/// Chinese has.
fn by_bytes(size: PromptSize) -> u64 {
    size.text.saturating_mul(10).div_ceil(32)
}

fn scaled(tokens: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate; the cast saturates"
    )]
    let scaled = (tokens as f64 * factor).ceil() as u64;
    scaled
}

/// Shared by all requests for one model.
pub type SharedStats = Arc<Stats>;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn sizes(body: &str) -> Sizes {
        let call = Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let cap = OutputCap { tokens: 100, send: false };
        Sizes::of(&call, "gpt-4o", Tokenizer::Auto, cap, &Stats::default(), true)
    }

    #[test]
    fn b3_a_request_is_measured_by_its_largest_bound() {
        let message = r#""messages":[{"role":"user","content":"hello world"}]"#;
        let open = sizes(&format!(r#"{{"model":"m",{message}}}"#));
        assert_eq!((open.output, open.capped), (100, false));
        assert!((8..=20).contains(&open.prompt()), "{open:?}");
        // OpenAI counts two for the text, four for the message and three around it.
        assert!((8..=11).contains(&open.likely()), "{open:?}");
        let hidden = sizes(&format!(
            r#"{{"model":"m","max_tokens":1,"max_completion_tokens":700,{message}}}"#
        ));
        assert_eq!((hidden.output, hidden.capped), (700, true));
        let several = sizes(&format!(r#"{{"model":"m","max_tokens":50,"n":3,{message}}}"#));
        assert_eq!(several.output, 150);
        let huge = sizes(&format!(r#"{{"model":"m","max_tokens":1e99,"n":3,{message}}}"#));
        assert_eq!(huge.output, u64::MAX, "saturates");
    }

    #[test]
    fn a_long_prompt_is_not_read_whole() {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(20_000);
        let long = sizes(&format!(r#"{{"model":"m","messages":[{{"content":"{text}"}}]}}"#));
        // Ten tokens a sentence.
        assert!((190_000..=220_000).contains(&long.prompt()), "{}", long.prompt());
    }
}
