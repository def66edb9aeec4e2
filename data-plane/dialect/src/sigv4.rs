//! Signing requests with AWS Signature Version 4. (Method: AWS's "Signature Version 4 signing
//! process".)

use std::{borrow::Cow, time::SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{self, SignableBody, SignableRequest, SigningParams, SigningSettings},
    sign::v4,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::auth::AwsKey;

/// Headers that stations on the way may change, besides those that the signing itself leaves out.
const CHANGING: [&str; 4] = ["accept-encoding", "connection", "te", "traceparent"];

/// A request that is ready to be sent but for its signature.
#[derive(Debug, Clone, Copy)]
pub struct Signable<'a> {
    pub method: &'a Method,
    /// With scheme and host; its path is encoded as it will be sent.
    pub uri: &'a Uri,
    /// All that are text are signed. `host` follows from the URI where it is not among them.
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// The time of day, which must not differ from AWS's by more than five minutes.
    pub at: SystemTime,
}

/// Why a request cannot be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("the address has no host")]
    NoHost,
    #[error("the key pair does not fit into headers")]
    NotAHeader,
    #[error("the request cannot be signed")]
    Failed(#[from] http_request::SigningError),
}

/// The headers to add to a request, so that it is signed; those that hold secrets are marked
/// sensitive.
///
/// # Errors
/// When the address has no host, or the key pair holds what no header can carry.
pub fn sign(
    key: &AwsKey,
    request: &Signable<'_>,
) -> Result<Vec<(HeaderName, HeaderValue)>, SignError> {
    if request.uri.host().is_none_or(str::is_empty) {
        return Err(SignError::NoHost);
    }
    let session = key.session.as_ref().map(|session| session.expose().to_owned());
    if session.as_deref().is_some_and(|session| HeaderValue::from_str(session).is_err()) {
        return Err(SignError::NotAHeader);
    }
    let identity = Credentials::new(&key.access, key.secret.expose(), session, None, "sluicegate");
    let identity = identity.into();
    let mut settings = SigningSettings::default();
    let excluded = settings.excluded_headers.get_or_insert_default();
    excluded.extend(CHANGING.map(Cow::Borrowed));
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&key.region)
        .name(key.service)
        .time(request.at)
        .settings(settings)
        .build()
        .expect("all that it needs was given");
    let params = SigningParams::from(params);
    let texts = request.headers.iter();
    let texts = texts.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let signable = SignableRequest::new(
        request.method.as_str(),
        request.uri.to_string(),
        texts,
        SignableBody::Bytes(request.body),
    )?;
    let (instructions, _) = http_request::sign(signable, &params)?.into_parts();
    let (headers, _) = instructions.into_parts();
    headers
        .into_iter()
        .map(|header| {
            let mut value =
                HeaderValue::from_str(header.value()).map_err(|_| SignError::NotAHeader)?;
            value.set_sensitive(header.sensitive() || header.name() == "authorization");
            Ok((HeaderName::from_static(header.name()), value))
        })
        .collect()
}

#[cfg(test)]
mod tests;
