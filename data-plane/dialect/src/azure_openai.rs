//! Azure's OpenAI service: OpenAI's format at another place, with a key of its own kind and other
//! words for what went wrong. Most bytes pass as they are.
//!
//! It has two forms. In the classic one the path names the deployment and the query a version of the
//! API; in `v1` the body's `model` names it, as at OpenAI. What the content filter notes stands in
//! members and chunks of its own, which pass like all others.

mod errors;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use sluicegate_model::secret::Secret;

use crate::{
    auth::{AuthError, AuthScheme, Proof},
    call::{Call, Endpoint},
    dialect::{Answer, Destination, Dialect, Place, Sent, StreamReader, Unfit, UpstreamCall},
    fault::Fault,
    openai_chat::{
        request, response, stream,
        variant::{Cap, Rule, Variant},
    },
    path,
};

/// The service, in one of its forms.
#[derive(Debug)]
pub struct AzureOpenAi {
    /// How the server behaves; its name is the form's.
    variant: &'static Variant,
    place: fn(Endpoint) -> Place,
}

/// Deployments by path, below `https://RESOURCE.openai.azure.com/openai?api-version=DATE`.
pub static CLASSIC: AzureOpenAi =
    AzureOpenAi { variant: &CLASSIC_VARIANT, place: |_| Place::PerCall };

/// Deployments by `model`, below `https://RESOURCE.openai.azure.com/openai/v1`.
pub static V1: AzureOpenAi =
    AzureOpenAi { variant: &V1_VARIANT, place: |endpoint| Place::At(endpoint.path()) };

static CLASSIC_VARIANT: Variant = Variant {
    // Which of these a version of the API knows depends on its date.
    members: &[
        ("user", Rule::Drop),
        ("metadata", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
    ],
    ..azure("")
};

static V1_VARIANT: Variant = azure("v1");

const fn azure(form: &'static str) -> Variant {
    Variant {
        errors: errors::ERRORS,
        // A deployment may have any name; most are named after their model.
        cap: Cap::ByModel(&["o1", "o3", "o4", "gpt-5"]),
        ..Variant::new(form, &[])
    }
}

impl Dialect for AzureOpenAi {
    fn name(&self) -> &'static str {
        "azure-openai"
    }

    fn variant(&self) -> &'static str {
        self.variant.name
    }

    fn place(&self, endpoint: Endpoint) -> Option<Place> {
        Some((self.place)(endpoint))
    }

    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError> {
        if is_token(scheme.key) {
            Proof::bearer(scheme.key)
        } else {
            Proof::header(HeaderName::from_static("api-key"), scheme.key.expose())
        }
    }

    fn request(&self, call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
        let sent = request::translate(self.variant, call, to)?;
        let path = match (self.place)(call.endpoint) {
            Place::At(_) => None,
            Place::PerCall => {
                let deployment = path::segment(to.model);
                Some(format!("/deployments/{deployment}{}", call.endpoint.path()))
            }
        };
        Ok(UpstreamCall { path, ..sent })
    }

    fn answer(&self, call: &Call, _: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
        response::read(self.variant, call.endpoint, body)
    }

    fn stream(&self, call: &Call, sent: &Sent, _: &HeaderMap) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::new(self.variant, sent.hide_usage, call.choices))
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
        self.variant.errors.refusal(status, headers, body)
    }
}

/// A token of Entra's is a JWT: three parts of base64url, of which the first is a JSON object.
fn is_token(key: &Secret) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let key = key.expose();
    key.starts_with("eyJ") && key.split('.').count() == 3 && key.split('.').all(is_part)
}

#[cfg(test)]
mod tests;
