//! Access tokens: given out for an id and a secret, until they expire or are revoked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::providers::read;
use crate::providers::scene::{KeyState, Scene};
use crate::upstream::{AUTO, Call, Step};

/// The tokens that were given out.
#[derive(Debug)]
pub(in crate::providers) struct Tokens {
    life: Duration,
    given: Mutex<Vec<Token>>,
}

#[derive(Debug)]
struct Token {
    text: String,
    /// `ID:SECRET`.
    key: String,
    until: Instant,
    revoked: bool,
}

/// Why a token does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invalid {
    /// Never given out, or revoked.
    Unknown,
    Expired,
}

impl Tokens {
    pub(in crate::providers) fn new(life: Duration) -> Self {
        Self { life, given: Mutex::default() }
    }

    pub(in crate::providers) fn revoke_all(&self) {
        self.with(|given| given.iter_mut().for_each(|token| token.revoked = true));
    }

    pub(in crate::providers) fn given(&self) -> usize {
        self.with(|given| given.len())
    }

    /// A new token for a key.
    pub(in crate::providers) fn give(&self, key: &str) -> String {
        self.with(|given| {
            let text = format!("24.fake{}", given.len());
            let until = Instant::now() + self.life;
            given.push(Token { text: text.clone(), key: key.to_owned(), until, revoked: false });
            text
        })
    }

    /// The key that a token was given out for.
    pub(super) fn owner(&self, text: &str) -> Result<String, Invalid> {
        self.with(|given| {
            let token = given.iter().find(|token| token.text == text && !token.revoked);
            let token = token.ok_or(Invalid::Unknown)?;
            match token.until > Instant::now() {
                true => Ok(token.key.clone()),
                false => Err(Invalid::Expired),
            }
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<Token>) -> T) -> T {
        act(&mut self.given.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The answer of the token endpoint. Its parameters may be in the query or in a form.
pub(super) fn give(scene: &Scene, call: &Call) -> Vec<Step> {
    let form = String::from_utf8_lossy(&call.body);
    let parameter = |name: &str| {
        read::query(call, name).or_else(|| read::parameter(&form, name)).unwrap_or_default()
    };
    if parameter("grant_type") != "client_credentials" {
        return refuse(
            400,
            "unsupported_grant_type",
            "The authorization grant type is not supported",
        );
    }
    let (id, secret) = (parameter("client_id"), parameter("client_secret"));
    let key = format!("{id}:{secret}");
    if scene.state(&key) == KeyState::Refused {
        let text = match scene.knows(|known| known.split(':').next() == Some(&id)) {
            true => "Client authentication failed",
            false => "unknown client id",
        };
        return refuse(401, "invalid_client", text);
    }
    let token = scene.tokens.give(&key);
    reply(
        200,
        &json!({
            "refresh_token": format!("25.fake{}", scene.tokens.given()),
            "expires_in": scene.tokens.life.as_secs(), "session_key": "", "access_token": token,
            "scope": "public ai_custom_yiyan_com", "session_secret": "",
        }),
    )
}

fn refuse(status: u16, error: &str, description: &str) -> Vec<Step> {
    reply(status, &json!({"error": error, "error_description": description}))
}

fn reply(status: u16, body: &Value) -> Vec<Step> {
    let headers = [("content-type", "application/json"), ("content-length", AUTO)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vec![Step::Head(status, headers), Step::send(body.to_string()), Step::End]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_opens_until_it_expires_or_is_revoked() {
        let tokens = Tokens::new(Duration::from_secs(60));
        let first = tokens.give("id:secret");
        assert_eq!(tokens.owner(&first).as_deref(), Ok("id:secret"));
        assert_eq!(tokens.owner("24.other"), Err(Invalid::Unknown));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(tokens.owner(&first).is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(tokens.owner(&first), Err(Invalid::Expired));

        let second = tokens.give("id:secret");
        assert_ne!(first, second);
        tokens.revoke_all();
        assert_eq!(tokens.owner(&second), Err(Invalid::Unknown));
        let third = tokens.give("id:secret");
        assert!(tokens.owner(&third).is_ok());
        assert_eq!(tokens.given(), 3);
    }
}
