//! Content codings, whole and piece by piece.

use std::io;

use async_compression::tokio::write::{
    BrotliDecoder, BrotliEncoder, GzipDecoder, GzipEncoder, ZlibDecoder, ZlibEncoder, ZstdDecoder,
    ZstdEncoder,
};
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;

/// A content coding of RFC 9110 (and RFC 8878 for zstd).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coding {
    Gzip,
    Deflate,
    Br,
    Zstd,
}

impl Coding {
    /// The coding a `content-encoding` value names; `None` for `identity` and unknown ones.
    pub fn from_token(token: &str) -> Option<Self> {
        match token.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Br),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The value for `content-encoding`.
    pub fn token(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Br => "br",
            Self::Zstd => "zstd",
        }
    }

    /// Encodes a whole body.
    pub async fn encode(self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut encoder = Encoder::new(self);
        let mut coded = encoder.push(plain).await?;
        coded.extend(encoder.finish().await?);
        Ok(coded)
    }
}

macro_rules! coders {
    ($(#[$doc:meta])* $name:ident { $($variant:ident => $coder:ident),* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name { $($variant(Box<$coder<Vec<u8>>>)),* }

        impl $name {
            /// A coder at the start of a body.
            pub fn new(coding: Coding) -> Self {
                match coding { $(Coding::$variant => Self::$variant(Box::new($coder::new(Vec::new())))),* }
            }

            /// Takes the next bytes and gives all output that they determine.
            pub async fn push(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
                match self { $(Self::$variant(coder) => {
                    coder.write_all(bytes).await?;
                    coder.flush().await?;
                    Ok(std::mem::take(coder.get_mut()))
                }),* }
            }

            /// Ends the body and gives the rest of the output.
            pub async fn finish(&mut self) -> io::Result<Vec<u8>> {
                match self { $(Self::$variant(coder) => {
                    coder.shutdown().await?;
                    Ok(std::mem::take(coder.get_mut()))
                }),* }
            }
        }
    };
}

coders! {
    /// Encodes piece by piece; each piece can be decoded as soon as it arrives.
    Encoder { Gzip => GzipEncoder, Deflate => ZlibEncoder, Br => BrotliEncoder, Zstd => ZstdEncoder }
}

coders! {
    /// Decodes piece by piece.
    Decoder { Gzip => GzipDecoder, Deflate => ZlibDecoder, Br => BrotliDecoder, Zstd => ZstdDecoder }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_piece_can_be_decoded_on_its_own() {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Br, Coding::Zstd] {
            assert_eq!(Coding::from_token(coding.token()), Some(coding));
            let (mut encoder, mut decoder) = (Encoder::new(coding), Decoder::new(coding));
            for piece in ["data: one\n\n", "data: two\n\n"] {
                let coded = encoder.push(piece.as_bytes()).await.unwrap();
                let plain = decoder.push(&coded).await.unwrap();
                assert_eq!(String::from_utf8(plain).unwrap(), piece, "{coding:?}");
            }
        }
    }
}
