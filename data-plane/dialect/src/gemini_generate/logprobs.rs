//! Log-probabilities, from Google's form into OpenAI's.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Google's: what was chosen, and at each place what might have been.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LogprobsResult {
    chosen_candidates: Option<Vec<Token>>,
    top_candidates: Option<Vec<Place>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Place {
    candidates: Option<Vec<Token>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Token {
    token: Option<String>,
    log_probability: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Logprobs<'a> {
    content: Vec<Chosen<'a>>,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct Chosen<'a> {
    #[serde(flatten)]
    token: Written<'a>,
    top_logprobs: Vec<Written<'a>>,
}

#[derive(Serialize)]
struct Written<'a> {
    token: &'a str,
    logprob: f64,
    bytes: &'a [u8],
}

impl LogprobsResult {
    /// OpenAI's `logprobs`; `None` where there is nothing in it.
    pub(super) fn written(&self) -> Option<Box<RawValue>> {
        let mut places = self.top_candidates.as_deref().unwrap_or_default().iter();
        let mut chosen = Vec::new();
        for token in self.chosen_candidates.as_deref()? {
            let place = places.next().and_then(|place| place.candidates.as_deref());
            let top = place.unwrap_or_default().iter().map(Token::written);
            chosen.push(Chosen { token: token.written(), top_logprobs: top.collect() });
        }
        let written = Logprobs { content: chosen, refusal: None };
        serde_json::value::to_raw_value(&written).ok()
    }
}

impl Token {
    fn written(&self) -> Written<'_> {
        let token = self.token.as_deref().unwrap_or_default();
        let logprob = self.log_probability.as_deref().and_then(|raw| raw.get().parse().ok());
        // OpenAI's word for a probability that is too small to tell.
        const UNTOLD: f64 = -9999.0;
        let logprob = logprob.filter(|number: &f64| number.is_finite()).unwrap_or(UNTOLD);
        Written { token, logprob, bytes: token.as_bytes() }
    }
}
