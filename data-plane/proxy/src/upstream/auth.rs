//! Proving a provider's key with each request: a header, a token that was got for it, a signature.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use serde::Deserialize;
use serde_json::Value;
use sluicegate_dialect::{
    AwsKey, Exchange, Fault, Proof,
    sigv4::{self, Signable},
};
use sluicegate_model::{Outcome, resource, secret::Secret};
use sluicegate_telemetry::clock;
use tokio::time::{Instant, timeout_at};

use super::{Client, Clients};

/// Largest answer of a token endpoint, in bytes.
const MAX_ANSWER: usize = 64 * 1024;
/// How long before its end a token is not used any more.
const MARGIN: Duration = Duration::from_secs(60);
/// How long a token lives whose end nobody tells.
const UNTOLD: Duration = Duration::from_secs(600);
/// No token is believed to live longer.
const LONGEST: Duration = Duration::from_secs(32 * 24 * 3600);
/// How long getting a token may take.
const LIMIT: Duration = Duration::from_secs(10);
/// After a token was got because the one before was refused: what refuses that one, too, would refuse
/// the next.
const YOUNG: Duration = Duration::from_secs(5);

/// How one key is proven.
#[derive(Debug, Clone)]
pub enum Signer {
    /// Marked sensitive: it does not print.
    Header(HeaderName, HeaderValue),
    Token(Arc<Token>),
    SigV4(Arc<AwsKey>),
}

impl Signer {
    /// Puts the proof onto a request.
    ///
    /// # Errors
    /// No token can be got, or nothing can be signed.
    pub async fn sign(
        &self,
        request: &mut Request<Full<Bytes>>,
        body: &Bytes,
        deadline: Instant,
    ) -> Result<(), Fault> {
        match self {
            Self::Header(name, value) => {
                request.headers_mut().insert(name.clone(), value.clone());
                Ok(())
            }
            Self::Token(token) => {
                let held = token.get(deadline).await?;
                token.put(request, &held)
            }
            Self::SigV4(key) => signed(key, request, body),
        }
    }

    /// The provider says that the token is no longer good: gets another, unless there is another
    /// already. False: there is nothing to get.
    pub async fn renew(&self, deadline: Instant) -> bool {
        match self {
            Self::Token(token) => token.renew(deadline).await,
            Self::Header(..) | Self::SigV4(_) => false,
        }
    }
}

/// Signs everything that the request has by now.
fn signed(key: &AwsKey, request: &mut Request<Full<Bytes>>, body: &Bytes) -> Result<(), Fault> {
    let signable = Signable {
        method: request.method(),
        uri: request.uri(),
        headers: request.headers(),
        body,
        at: clock::now(),
    };
    let headers = sigv4::sign(key, &signable)
        .map_err(|error| Fault::new(Outcome::KeyRefused, error.to_string()))?;
    for (name, value) in headers {
        request.headers_mut().insert(name, value);
    }
    Ok(())
}

/// Every token that a policy ever needed, so that a change of policy keeps them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens(Arc<Mutex<HashMap<String, Arc<Token>>>>);

impl Clients {
    /// How a key of this provider is proven.
    pub fn signer(&self, proof: Proof, provider: &resource::Provider) -> Signer {
        match proof {
            Proof::Header(name, value) => Signer::Header(name, value),
            Proof::SigV4(key) => Signer::SigV4(Arc::new(key)),
            Proof::Exchange(exchange) => {
                let base = &provider.base_url;
                let id = format!(
                    "{}://{}{} {} {}",
                    base.scheme,
                    base.authority,
                    exchange.path,
                    exchange.client_id.fingerprint(),
                    exchange.client_secret.fingerprint()
                );
                let mut known = self.tokens.0.lock().unwrap_or_else(PoisonError::into_inner);
                let token = known.entry(id).or_insert_with(|| {
                    let uri = Uri::builder()
                        .scheme(base.scheme.clone())
                        .authority(base.authority.clone())
                        .path_and_query(query(&exchange));
                    let client = self.get(
                        provider.http_version,
                        provider.timeouts.connect,
                        provider.max_idle_connections,
                    );
                    Arc::new(Token::new(exchange, uri.build().unwrap_or_default(), client))
                });
                Signer::Token(token.clone())
            }
        }
    }
}

/// The token endpoint's path and query. (RFC 6749, section 4.4, with the parameters in the query as
/// Baidu has them.)
fn query(exchange: &Exchange) -> String {
    let Exchange { path, client_id, client_secret, .. } = exchange;
    format!(
        "{path}?grant_type=client_credentials&client_id={}&client_secret={}",
        escaped(client_id.expose()),
        escaped(client_secret.expose())
    )
}

/// Text as it may stand in a query. (RFC 3986, section 2.3: unreserved characters stay.)
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A token that runs out.
pub struct Token {
    exchange: Exchange,
    uri: Uri,
    client: Client,
    held: ArcSwapOption<Held>,
    /// Whoever has it gets a token; the others wait for that one, or share its failure.
    getting: tokio::sync::Mutex<Getting>,
}

/// What those who get tokens tell those who wait.
#[derive(Default)]
struct Getting {
    failed: Option<(Instant, Fault)>,
    renewed: Option<Instant>,
}

struct Held {
    text: Secret,
    ends: Instant,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL has the secret in its query.
        f.debug_struct("Token").field("path", &self.exchange.path).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Answer {
    access_token: Option<String>,
    /// Seconds, as a number or as text.
    expires_in: Option<Value>,
    error: Option<String>,
    error_description: Option<String>,
}

fn seconds(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

impl Token {
    fn new(exchange: Exchange, uri: Uri, client: Client) -> Self {
        let getting = tokio::sync::Mutex::default();
        Self { exchange, uri, client, held: ArcSwapOption::empty(), getting }
    }

    fn fresh(&self) -> Option<Arc<Held>> {
        self.held.load_full().filter(|held| held.ends > Instant::now())
    }

    async fn get(&self, deadline: Instant) -> Result<Arc<Held>, Fault> {
        if let Some(held) = self.fresh() {
            return Ok(held);
        }
        let late = |_| Fault::new(Outcome::Timeout, "no access token in time");
        let began = Instant::now();
        let mut getting = timeout_at(deadline, self.getting.lock()).await.map_err(late)?;
        if let Some(held) = self.fresh() {
            return Ok(held);
        }
        if let Some((at, fault)) = &getting.failed
            && *at >= began
        {
            return Err(fault.clone());
        }
        let got = self.exchange(deadline).await;
        getting.failed = got.as_ref().err().map(|fault| (Instant::now(), fault.clone()));
        got
    }

    async fn renew(&self, deadline: Instant) -> bool {
        let seen = self.held.load_full();
        let Ok(mut getting) = timeout_at(deadline, self.getting.lock()).await else {
            return false;
        };
        let now = self.held.load_full();
        let is_other = match (&seen, &now) {
            (Some(seen), Some(now)) => !Arc::ptr_eq(seen, now),
            _ => false,
        };
        if is_other {
            return true;
        }
        if getting.renewed.is_some_and(|renewed| renewed.elapsed() < YOUNG) {
            return false;
        }
        getting.renewed = Some(Instant::now());
        self.exchange(deadline).await.is_ok()
    }

    async fn exchange(&self, deadline: Instant) -> Result<Arc<Held>, Fault> {
        let deadline = deadline.min(Instant::now() + LIMIT);
        let answer = timeout_at(deadline, self.ask())
            .await
            .map_err(|_| Fault::new(Outcome::Timeout, "no access token in time"))??;
        let Some(text) = answer.access_token.filter(|text| !text.is_empty()) else {
            let code = answer.error.unwrap_or_default();
            let words = answer.error_description.unwrap_or_default();
            let message = format!("no access token was given: {code} {words}");
            // What else went wrong is no fault of the key. (RFC 6749, section 5.2.)
            let about_key =
                ["invalid_client", "unauthorized_client", "invalid_grant", "access_denied"];
            let outcome = if about_key.contains(&code.as_str()) {
                Outcome::KeyRefused
            } else {
                Outcome::ProviderError
            };
            return Err(Fault { code: Some(code), ..Fault::new(outcome, message) });
        };
        let now = Instant::now();
        let told = answer.expires_in.as_ref().and_then(seconds).map(Duration::from_secs);
        let life = told.unwrap_or(UNTOLD).min(LONGEST);
        // A life that is shorter than the margin is used to its half.
        let used = life.saturating_sub(MARGIN).max(life / 2);
        let held = Arc::new(Held { text: Secret::new(text), ends: now + used });
        self.held.store(Some(held.clone()));
        Ok(held)
    }

    async fn ask(&self) -> Result<Answer, Fault> {
        let failed =
            |outcome, what: &str| Fault::new(outcome, format!("the token endpoint {what}"));
        let request = Request::post(self.uri.clone())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::default())
            .map_err(|_| failed(Outcome::ProviderError, "has no usable URL"))?;
        let response = self.client.pooled.request(request).await;
        let response = response.map_err(|_| failed(Outcome::Network, "could not be reached"))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|_| failed(Outcome::Network, "broke its answer off"))?.to_bytes();
        match serde_json::from_slice(&body) {
            _ if status.is_server_error() => Err(failed(Outcome::ProviderError, "failed")),
            _ if status == StatusCode::TOO_MANY_REQUESTS => {
                Err(failed(Outcome::RateLimited, "limits the rate of requests"))
            }
            Ok(answer) => Ok(answer),
            Err(_) if status.is_client_error() => {
                Err(failed(Outcome::KeyRefused, "refused the key"))
            }
            Err(_) => Err(failed(Outcome::ProviderError, "did not answer in JSON")),
        }
    }

    fn put(&self, request: &mut Request<Full<Bytes>>, held: &Held) -> Result<(), Fault> {
        let uri = request.uri();
        let before = if uri.query().is_some() { '&' } else { '?' };
        let path = uri.path_and_query().map_or("/", |it| it.as_str());
        let parameter = self.exchange.parameter;
        let path = format!("{path}{before}{parameter}={}", escaped(held.text.expose()));
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = path.parse().ok();
        *request.uri_mut() = Uri::from_parts(parts)
            .map_err(|_| Fault::new(Outcome::ProviderError, "the access token fits into no URL"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_query_is_escaped() {
        assert_eq!(escaped("a-Z_0.~/+ é"), "a-Z_0.~%2F%2B%20%C3%A9");
    }
}
