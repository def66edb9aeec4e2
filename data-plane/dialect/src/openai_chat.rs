//! OpenAI's chat format, as OpenAI and every server that imitates it speak it. Callers speak it
//! too, so that most bytes pass as they are. How servers differ is data: [`variant`].

mod chunk;
mod finish;
mod members;
mod parts;
mod repair;
pub(crate) mod request;
pub(crate) mod response;
pub mod restream;
pub(crate) mod stream;
pub mod variant;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::{
    auth::{AuthError, AuthScheme, Proof},
    call::{Call, Endpoint},
    dialect::{Answer, Destination, Dialect, Place, Sent, StreamReader, Unfit, UpstreamCall},
    fault::Fault,
};
use variant::Variant;

/// The format, as one kind of server speaks it.
#[derive(Debug)]
pub struct OpenAiChat(pub(crate) &'static Variant);

/// Every variant.
pub static ALL: [OpenAiChat; variant::ALL.len()] = {
    let mut all = [const { OpenAiChat(variant::ALL[0]) }; variant::ALL.len()];
    let mut index = 0;
    while index < all.len() {
        all[index] = OpenAiChat(variant::ALL[index]);
        index += 1;
    }
    all
};

impl Dialect for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }

    fn variant(&self) -> &'static str {
        self.0.name
    }

    fn place(&self, endpoint: Endpoint) -> Option<Place> {
        self.0.path(endpoint).map(Place::At)
    }

    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError> {
        Proof::bearer(scheme.key)
    }

    fn takes_image_urls(&self) -> bool {
        self.0.image_urls
    }

    fn request(&self, call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
        request::translate(self.0, call, to)
    }

    fn answer(&self, call: &Call, _: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
        response::read(self.0, call.endpoint, body)
    }

    fn stream(&self, call: &Call, sent: &Sent, _: &HeaderMap) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::new(self.0, sent.hide_usage, call.choices))
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
        self.0.errors.refusal(status, headers, body)
    }
}
