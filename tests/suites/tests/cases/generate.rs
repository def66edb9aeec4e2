//! Texts too long to be written into the table.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::{Compress, FlushCompress, write::GzEncoder};
use serde::Deserialize;
use serde_json::json;
use sluicegate_testkit::openai;

/// Length of the string inside the one large tool call.
const TOOL_ARGUMENT: usize = 1_200_000;
/// Number of base64 digits of the image.
const IMAGE: usize = 20_000_000;
/// Nesting of the deep event.
const DEPTH: usize = 200;
/// Size of the bomb when decoded.
const BOMB: usize = 256 << 20;

/// The bodies of requests there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RequestBody {
    /// A message with text and an image in a data URL.
    Image,
    /// Gzip with a wrong checksum.
    CorruptGzip,
    /// Little gzip for much text.
    GzipBomb,
}

/// The bodies of replies there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReplyText {
    /// An event with one tool call; see [`tool_arguments`].
    LargeToolCall,
    /// An event with text beside arrays nested deeper than JSON parsers follow.
    DeepEvent,
    /// 100 vectors of 1536 numbers with 17 digits, about 3 MB.
    Embeddings,
}

impl RequestBody {
    /// The body of a request for `model`.
    pub(crate) fn bytes(self, model: &str) -> Vec<u8> {
        match self {
            Self::Image => image(model).into_bytes(),
            Self::CorruptGzip => corrupt_gzip(model),
            Self::GzipBomb => gzip_bomb(),
        }
    }
}

impl ReplyText {
    pub(crate) fn text(self) -> String {
        match self {
            Self::LargeToolCall => large_tool_call(),
            Self::DeepEvent => deep_event(),
            Self::Embeddings => embeddings(),
        }
    }
}

/// The arguments of the large tool call.
pub(crate) fn tool_arguments() -> String {
    json!({"s": "x".repeat(TOOL_ARGUMENT)}).to_string()
}

fn large_tool_call() -> String {
    let function = json!({"name": "f", "arguments": tool_arguments()});
    let call = json!({"index": 0, "id": "t1", "type": "function", "function": function});
    openai::chunk(&json!({"tool_calls": [call]}), None)
}

fn deep_event() -> String {
    let (open, close) = ("[".repeat(DEPTH), "]".repeat(DEPTH));
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"deep\",\"x\":{open}{close}}}}}]}}\n\n"
    )
}

fn image(model: &str) -> String {
    let url = format!("data:image/png;base64,iVBORw0KGgo{}", "Q".repeat(IMAGE));
    json!({"model": model, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "hi"},
        {"type": "image_url", "image_url": {"url": url}},
    ]}]})
    .to_string()
}

fn corrupt_gzip(model: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    let written = encoder.write_all(openai::chat(model, false).as_bytes());
    let mut coded = written.and_then(|()| encoder.finish()).expect("writing to memory");
    let checksum = coded.len() - 8;
    for byte in &mut coded[checksum..] {
        *byte ^= 0xff;
    }
    coded
}

/// A few hundred kilobytes of gzip that decode to 256 MiB of spaces. Compressing one block and
/// repeating it takes no time; that leaves the checksum wrong, but who gets so far has lost.
fn gzip_bomb() -> Vec<u8> {
    let plain = vec![b' '; 1 << 20];
    let mut block = Vec::with_capacity(64 * 1024);
    let mut deflate = Compress::new(flate2::Compression::best(), false);
    deflate.compress_vec(&plain, &mut block, FlushCompress::Full).expect("a valid state");
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let last_block = [1, 0, 0, 0xff, 0xff];
    [&header, &block.repeat(BOMB / plain.len())[..], &last_block, &[0; 8]].concat()
}

fn embeddings() -> String {
    let mut state = 1_u64;
    let mut data = String::new();
    for index in 0..100 {
        let mut vector = String::new();
        for _ in 0..1536 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let digits = 10_000_000_000_000_000 + state % 90_000_000_000_000_000;
            write!(vector, "{}0.{digits}", if vector.is_empty() { "" } else { "," })
                .expect("writing to memory");
        }
        let comma = if index == 0 { "" } else { "," };
        write!(data, r#"{comma}{{"object":"embedding","index":{index},"embedding":[{vector}]}}"#)
            .expect("writing to memory");
    }
    format!(
        r#"{{"object":"list","model":"e1","data":[{data}],"usage":{{"prompt_tokens":7,"total_tokens":7}}}}"#
    )
}
