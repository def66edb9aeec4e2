//! How a provider's key is proven to it: as a header, as a token that is exchanged for it, or by
//! signing each request. The formats say which; the data plane does it.

use http::{HeaderName, HeaderValue, header};
use sluicegate_model::secret::Secret;

/// What a format may go by when it reads a key.
#[derive(Debug, Clone, Copy)]
pub struct AuthScheme<'a> {
    pub key: &'a Secret,
    /// Region that requests are signed for, where the provider's configuration or host names one.
    pub region: Option<&'a str>,
}

/// How a key is proven.
#[derive(Debug, Clone)]
pub enum Proof {
    /// The same header on each request; its value is marked sensitive.
    Header(HeaderName, HeaderValue),
    /// A token in the query, which an OAuth server gives for the key and which runs out.
    Exchange(Exchange),
    /// AWS Signature Version 4 over each request.
    SigV4(AwsKey),
}

/// A token exchange by OAuth's client credentials.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Path of the token endpoint, at the provider's own host.
    pub path: &'static str,
    /// Query parameter of requests that carries the token.
    pub parameter: &'static str,
    pub client_id: Secret,
    pub client_secret: Secret,
}

/// A key pair of AWS.
#[derive(Debug, Clone)]
pub struct AwsKey {
    pub access: String,
    pub secret: Secret,
    pub session: Option<Secret>,
    pub region: String,
    pub service: &'static str,
}

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("the secret does not fit into a header")]
    NotAHeader,
    #[error("the secret must be {0}")]
    Form(&'static str),
    #[error("no region: set the provider's region")]
    NoRegion,
}

impl Proof {
    /// `Authorization: Bearer KEY`.
    ///
    /// # Errors
    /// When the key has characters that no header can carry.
    pub fn bearer(key: &Secret) -> Result<Self, AuthError> {
        Self::header(header::AUTHORIZATION, &format!("Bearer {}", key.expose()))
    }

    /// The key as the value of a header of its own.
    ///
    /// # Errors
    /// When the key has characters that no header can carry.
    pub fn header(name: HeaderName, value: &str) -> Result<Self, AuthError> {
        let mut value = HeaderValue::from_str(value).map_err(|_| AuthError::NotAHeader)?;
        value.set_sensitive(true);
        Ok(Self::Header(name, value))
    }
}
