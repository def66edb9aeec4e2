//! How the table writes down a request.

use std::collections::BTreeMap;

use serde::Deserialize;
use sluicegate_testkit::client::Request;
use sluicegate_testkit::coding::Coding;
use sluicegate_testkit::openai;

use crate::generate::RequestBody;
use crate::script::in_pieces;
use crate::table::Cell;

/// A request; by default a chat with one user message. `{{m1}}` stands for the cell's name of a
/// model, `{{key}}` for the caller's key and `{{KEY}}` for that key in upper case.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestSpec {
    /// By default POST.
    pub(crate) method: Option<String>,
    /// By default `/v1/chat/completions`.
    pub(crate) path: Option<String>,
    /// Whether the default body asks for a stream.
    pub(crate) stream: bool,
    /// The exact text of the body.
    pub(crate) body: Option<String>,
    /// The exact bytes of the body in hexadecimal, placeholders included.
    pub(crate) body_hex: Option<String>,
    /// A body too long for the table.
    pub(crate) generated: Option<RequestBody>,
    /// What the body is encoded in, with the header that says so.
    pub(crate) coding: Option<Coding>,
    /// In how many pieces it is encoded, each complete in itself; 0 means in one.
    pub(crate) pieces: usize,
    /// `null` removes a default header.
    pub(crate) headers: BTreeMap<String, Option<String>>,
}

impl RequestSpec {
    /// The body before any content coding.
    pub(crate) fn plain_body(&self, cell: &Cell) -> Vec<u8> {
        if let Some(body) = self.generated {
            return body.bytes(&cell.model("m1"));
        }
        if let Some(digits) = &self.body_hex {
            let bytes = hex::decode(digits).expect("hexadecimal digits");
            return fill_bytes(&bytes, cell);
        }
        match &self.body {
            Some(body) => cell.fill(body).into(),
            None => openai::chat(&cell.model("m1"), self.stream).into(),
        }
    }

    async fn encoded(&self, coding: Coding, plain: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut encoded = Vec::new();
        for piece in in_pieces(plain, self.pieces) {
            encoded.extend(coding.encode(piece).await?);
        }
        Ok(encoded)
    }

    /// The request of a cell.
    pub(crate) async fn build(&self, cell: &Cell) -> anyhow::Result<Request> {
        let path = cell.fill(self.path.as_deref().unwrap_or("/v1/chat/completions"));
        let mut request = match self.method.as_deref() {
            None | Some("POST") => {
                let mut request = Request::post(&path);
                let plain = self.plain_body(cell);
                request = match self.coding {
                    None => request.body(plain),
                    Some(coding) => request
                        .header("content-encoding", coding.token())
                        .body(self.encoded(coding, &plain).await?),
                };
                request
            }
            Some(method) => Request::new(method, &path),
        };
        request = request.bearer(&cell.caller_key());
        for (name, value) in &self.headers {
            request = match value {
                Some(value) => request.header(name, &cell.fill(value)),
                None => request.without(name),
            };
        }
        Ok(request)
    }
}

/// Fills in placeholders among bytes that need not be UTF-8.
fn fill_bytes(bytes: &[u8], cell: &Cell) -> Vec<u8> {
    bytes.utf8_chunks().fold(Vec::new(), |mut filled, chunk| {
        filled.extend(cell.fill(chunk.valid()).bytes());
        filled.extend(chunk.invalid());
        filled
    })
}
