//! Fake providers: upstreams that speak a provider's wire format as strictly as the provider is
//! documented to, and answer what the request asks for, so that one server serves every test.
//!
//! What a fake does is chosen by words in the last user text:
//!
//! | word | what happens |
//! |---|---|
//! | none of these | the answer is `You said: …`, and tells the system text if there is one |
//! | `long` | the answer is [`LONG`] pieces long |
//! | `both` | with tools: two calls at once, where the format can |
//! | `aloud` | with tools: some text before the calls |
//! | `cached:N` | N more prompt tokens, all of them read from the cache |
//! | `finish:length`, `finish:content_filter` | the answer ends early for that reason |
//! | `finish:WORD` | the answer ends with that very word as its reason |
//! | `fail:NAME` | the error row of that name, see [`error_rows`] |
//! | `break:NAME`, `break:NAME:N` | in a stream: that error after N content events, 2 if unsaid |
//! | `break:eof:N`, `break:cut:N` | in a stream: nothing more, with or without an end of the body |
//!
//! Tools lead to a call, results of tools are repeated, a schema is filled, an image is measured,
//! and reasoning is told where it is asked for. A model whose name starts with `missing` does not exist.

mod answer;
mod anthropic;
mod ask;
mod azure;
mod bedrock;
mod dashscope;
mod dialect;
mod ernie;
mod fit;
mod gemini;
mod openai;
mod read;
mod rows;
mod sample;
mod scene;
mod signature;
mod stream;
mod vectors;

pub use self::answer::LONG;
pub use self::bedrock::{frame, secret as bedrock_secret};
pub use self::dialect::Dialect;
pub use self::rows::{ErrorRow, Meaning, error_rows};
pub use self::scene::KeyState;
pub use self::vectors::vector;

use std::sync::Arc;
use std::time::Duration;

use self::scene::Scene;
use crate::upstream::{Call, Upstream};

/// A running fake provider. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Fake {
    upstream: Upstream,
    scene: Arc<Scene>,
}

/// What a fake is started with.
#[derive(Debug)]
pub struct Builder {
    dialect: Dialect,
    keys: Vec<String>,
    pace: Duration,
    token_life: Duration,
}

impl Builder {
    /// The keys it accepts, instead of [`Dialect::key`] alone.
    pub fn keys<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys = keys.into_iter().map(Into::into).collect();
        self
    }

    /// The pause between the events of a stream. None if unsaid.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// How long an access token of [`Dialect::Ernie`] lasts. 30 days if unsaid.
    pub fn token_life(mut self, life: Duration) -> Self {
        self.token_life = life;
        self
    }

    /// Listens on a free port of 127.0.0.1.
    pub async fn start(self) -> std::io::Result<Fake> {
        let scene = Arc::new(Scene::new(self.dialect, self.keys, self.pace, self.token_life));
        let playing = scene.clone();
        let upstream = Upstream::start(move |call| playing.dialect.play(&playing, call)).await?;
        Ok(Fake { upstream, scene })
    }
}

impl Fake {
    /// A fake to be adjusted before its start.
    pub fn of(dialect: Dialect) -> Builder {
        Builder {
            dialect,
            keys: vec![dialect.key().to_owned()],
            pace: Duration::ZERO,
            token_life: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }

    /// A fake as [`Fake::of`] describes it, running.
    pub async fn start(dialect: Dialect) -> std::io::Result<Self> {
        Self::of(dialect).start().await
    }

    /// What it speaks.
    pub fn dialect(&self) -> Dialect {
        self.scene.dialect
    }

    /// What the provider's own SDK takes as its base URL, without a final slash.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.upstream.address(), self.scene.dialect.base_path())
    }

    /// The first key it accepts. Of ERNIE V1 it is `ID:SECRET`; of Bedrock it is both an API key and
    /// the id of an access key, whose secret is [`bedrock_secret`].
    pub fn key(&self) -> String {
        self.scene.first_key()
    }

    /// From now on that key is treated so; a key it did not know is added.
    pub fn set_key(&self, key: &str, state: KeyState) {
        self.scene.set_key(key, state);
    }

    /// From now on no access token that was given out is valid. Only of ERNIE V1.
    pub fn revoke_tokens(&self) {
        self.scene.tokens.revoke_all();
    }

    /// How many access tokens were given out. Only of ERNIE V1.
    pub fn tokens_given(&self) -> usize {
        self.scene.tokens.given()
    }

    /// Every call so far that `select` accepts, in order of arrival.
    pub fn calls(&self, select: impl Fn(&Call) -> bool) -> Vec<Call> {
        self.upstream.calls(select)
    }

    /// The server under it, for waiting.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }
}
