//! First stage: which endpoint is meant, and the body, bounded in size and time.

use std::time::Duration;

use async_compression::tokio::bufread::{GzipDecoder, ZlibDecoder, ZstdDecoder};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, Method, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sluicegate_dialect::Endpoint;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};

use crate::refusal::Refusal;

/// Longest time for a whole body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long, and how far, a body that is refused is still read, so that a caller that is busy
/// sending gets to see why.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// What a request line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    Call(Endpoint),
    ListModels,
    /// One model; the name is percent-decoded.
    GetModel(String),
    /// What became of a request that was kept for later.
    GetDeferred(String),
    /// It is not wanted any more.
    CancelDeferred(String),
}

/// Reads method and path.
///
/// # Errors
/// When nothing of the kind is served.
pub fn wanted(method: &Method, path: &str) -> Result<Wanted, Refusal> {
    let unknown = || Refusal::NoSuchPath { path: path.chars().take(200).collect() };
    let below =
        path.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).ok_or_else(unknown)?;
    let only = |allowed: Method, allow: &'static str, wanted: Wanted| {
        let is_head = *method == Method::HEAD && allowed == Method::GET;
        if *method == allowed || is_head {
            Ok(wanted)
        } else {
            Err(Refusal::MethodNotAllowed { allow })
        }
    };
    if let Some(endpoint) = Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == below) {
        return only(Method::POST, "POST", Wanted::Call(endpoint));
    }
    if below == "/models" {
        return only(Method::GET, "GET, HEAD", Wanted::ListModels);
    }
    if let Some(rest) = below.strip_prefix("/deferred/").filter(|rest| !rest.is_empty()) {
        return deferred(method, rest).unwrap_or_else(|| Err(unknown()));
    }
    match below.strip_prefix("/models/").filter(|name| !name.is_empty()) {
        Some(name) => only(Method::GET, "GET, HEAD", Wanted::GetModel(percent_decode(name))),
        None => Err(unknown()),
    }
}

/// What is asked for below `/v1/deferred/`; `None`: nothing that there is.
fn deferred(method: &Method, rest: &str) -> Option<Result<Wanted, Refusal>> {
    let (id, verb) = rest.split_once('/').unwrap_or((rest, ""));
    let id = id.to_owned();
    Some(match (verb, method) {
        ("", &Method::GET | &Method::HEAD) => Ok(Wanted::GetDeferred(id)),
        ("", &Method::DELETE) => Ok(Wanted::CancelDeferred(id)),
        ("", _) => Err(Refusal::MethodNotAllowed { allow: "GET, HEAD, DELETE" }),
        ("cancel", &Method::POST) => Ok(Wanted::CancelDeferred(id)),
        ("cancel", _) => Err(Refusal::MethodNotAllowed { allow: "POST" }),
        _ => return None,
    })
}

/// Resolves `%41`; anything else stays, as do bytes that make no UTF-8.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let decoded = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { after.get(2..).unwrap_or(&[]) } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Reads the whole body, decoded, of at most `limit` bytes.
///
/// # Errors
/// Too large, too slow, broken, or in a coding that is not understood.
pub async fn body(headers: &HeaderMap, mut body: Incoming, limit: usize) -> Result<Bytes, Refusal> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        // Who asks first has sent nothing yet; everyone else is busy sending.
        if !headers.contains_key(header::EXPECT) {
            discard(body, limit).await;
        }
        return Err(Refusal::BodyTooLarge { limit });
    }
    let deadline = Instant::now() + BODY_TIMEOUT;
    let mut chunks = Collected::with_capacity(declared.unwrap_or(0));
    loop {
        let frame = timeout_at(deadline, body.frame()).await.map_err(|_| Refusal::BodyTimeout)?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Refusal::BodyBroken("the connection broke".into()))?;
        if let Ok(data) = frame.into_data() {
            if chunks.len() + data.len() > limit {
                discard(body, limit).await;
                return Err(Refusal::BodyTooLarge { limit });
            }
            chunks.push(data);
        }
    }
    decode(headers, chunks.finish(), limit).await
}

/// Bytes that arrive in pieces; a single piece is not copied.
enum Collected {
    Nothing { expect: usize },
    One { piece: Bytes, expect: usize },
    Many(BytesMut),
}

impl Collected {
    fn with_capacity(expect: usize) -> Self {
        Self::Nothing { expect }
    }

    fn len(&self) -> usize {
        match self {
            Self::Nothing { .. } => 0,
            Self::One { piece, .. } => piece.len(),
            Self::Many(joined) => joined.len(),
        }
    }

    fn push(&mut self, data: Bytes) {
        match self {
            Self::Nothing { expect } => *self = Self::One { piece: data, expect: *expect },
            Self::One { piece, expect } => {
                let mut joined = BytesMut::with_capacity((*expect).max(piece.len() + data.len()));
                joined.extend_from_slice(piece);
                joined.extend_from_slice(&data);
                *self = Self::Many(joined);
            }
            Self::Many(joined) => joined.extend_from_slice(&data),
        }
    }

    fn finish(self) -> Bytes {
        match self {
            Self::Nothing { .. } => Bytes::new(),
            Self::One { piece, .. } => piece,
            Self::Many(joined) => joined.freeze(),
        }
    }
}

/// Reads on for a while and forgets what comes.
async fn discard(body: Incoming, limit: usize) {
    let deadline = Instant::now() + DISCARD_TIMEOUT;
    let mut data = body.into_data_stream();
    let mut seen = 0;
    while let Ok(Some(Ok(chunk))) = timeout_at(deadline, data.next()).await {
        seen += chunk.len();
        if seen > limit.saturating_mul(4) {
            break;
        }
    }
}

/// Undoes the body's coding; the decoded body is bounded too, so that a small one cannot unfold
/// into a large one.
async fn decode(headers: &HeaderMap, body: Bytes, limit: usize) -> Result<Bytes, Refusal> {
    let coding = match headers.get(header::CONTENT_ENCODING) {
        None => return Ok(body),
        Some(value) => value.to_str().unwrap_or("?").trim().to_ascii_lowercase(),
    };
    let mut decoded = Vec::new();
    let most = limit as u64 + 1;
    let read = match coding.as_str() {
        "" | "identity" => return Ok(body),
        "gzip" | "x-gzip" => {
            let mut decoder = GzipDecoder::new(&*body);
            decoder.multiple_members(true);
            decoder.take(most).read_to_end(&mut decoded).await
        }
        "deflate" => ZlibDecoder::new(&*body).take(most).read_to_end(&mut decoded).await,
        "zstd" => {
            let mut decoder = ZstdDecoder::new(&*body);
            decoder.multiple_members(true);
            decoder.take(most).read_to_end(&mut decoded).await
        }
        _ => {
            let shown: String = coding.chars().take(32).collect();
            return Err(Refusal::UnknownCoding(format!(
                "content-encoding '{shown}' is not supported; use gzip, deflate, zstd or none"
            )));
        }
    };
    read.map_err(|error| Refusal::BodyBroken(format!("not valid {coding}: {error}")))?;
    if decoded.len() > limit {
        return Err(Refusal::BodyTooLarge { limit });
    }
    Ok(decoded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods() {
        let get = |path: &str| wanted(&Method::GET, path);
        let post = |path: &str| wanted(&Method::POST, path);
        assert_eq!(post("/v1/chat/completions"), Ok(Wanted::Call(Endpoint::Chat)));
        assert_eq!(post("/v1/embeddings"), Ok(Wanted::Call(Endpoint::Embeddings)));
        assert_eq!(get("/v1/models"), Ok(Wanted::ListModels));
        assert_eq!(get("/v1/models/org/N-7B:q4"), Ok(Wanted::GetModel("org/N-7B:q4".into())));
        assert_eq!(get("/v1/models/org%2FN%3Aq"), Ok(Wanted::GetModel("org/N:q".into())));
        assert_eq!(get("/v1/models/a%2"), Ok(Wanted::GetModel("a%2".into())));
        assert_eq!(get("/v1/chat/completions"), Err(Refusal::MethodNotAllowed { allow: "POST" }));
        assert_eq!(get("/v1/deferred/def_1"), Ok(Wanted::GetDeferred("def_1".into())));
        let delete = wanted(&Method::DELETE, "/v1/deferred/def_1");
        assert_eq!(delete, Ok(Wanted::CancelDeferred("def_1".into())));
        let cancel = post("/v1/deferred/def_1/cancel");
        assert_eq!(cancel, Ok(Wanted::CancelDeferred("def_1".into())));
        let allow = "GET, HEAD, DELETE";
        assert_eq!(post("/v1/deferred/def_1"), Err(Refusal::MethodNotAllowed { allow }));
        for unknown in [
            "/",
            "/v1",
            "/v1/",
            "/v2/models",
            "/v1models",
            "/v1/models/",
            "/v1//models",
            "/v1/deferred",
            "/v1/deferred/",
            "/v1/deferred/def_1/x",
        ] {
            assert!(matches!(get(unknown), Err(Refusal::NoSuchPath { .. })), "{unknown}");
        }
    }

    #[tokio::test]
    async fn a_bomb_is_cut_short() {
        use tokio::io::AsyncWriteExt;
        let mut encoder = async_compression::tokio::write::GzipEncoder::new(Vec::new());
        encoder.write_all(&vec![b'a'; 4 << 20]).await.unwrap();
        encoder.shutdown().await.unwrap();
        let packed = Bytes::from(encoder.into_inner());
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, "gzip".parse().unwrap())]);
        let bomb = decode(&headers, packed.clone(), 1 << 20).await;
        assert_eq!(bomb, Err(Refusal::BodyTooLarge { limit: 1 << 20 }));
        assert_eq!(decode(&headers, packed.clone(), 4 << 20).await.unwrap().len(), 4 << 20);
        let cut = decode(&headers, packed.slice(..packed.len() / 2), 8 << 20).await;
        assert!(matches!(cut, Err(Refusal::BodyBroken(_))));
    }
}
