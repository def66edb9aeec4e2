//! Bodies as they are meant, whatever coding they came in.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, header};
use http_body::Body;
use hyper::body::Incoming;
use tokio_util::io::{ReaderStream, StreamReader};

/// A body that gives decoded chunks as soon as they can be had.
pub enum Decoded {
    Plain(Incoming),
    Coded(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl std::fmt::Debug for Decoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Decoded::Plain",
            Self::Coded(_) => "Decoded::Coded",
        })
    }
}

/// A coding that is not understood here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("content-encoding '{0}' is not supported; use gzip, deflate, br, zstd or none")]
pub struct UnknownCoding(pub String);

impl Decoded {
    /// Undoes what `content-encoding` says.
    ///
    /// # Errors
    /// When the coding is not known, or several are stacked.
    pub fn new(headers: &HeaderMap, body: Incoming) -> Result<Self, UnknownCoding> {
        let coding = match headers.get(header::CONTENT_ENCODING) {
            None => return Ok(Self::Plain(body)),
            Some(value) => value.to_str().unwrap_or("?").trim().to_ascii_lowercase(),
        };
        let reader = StreamReader::new(Chunks(body));
        let capacity = 16 * 1024;
        Ok(Self::Coded(match coding.as_str() {
            "" | "identity" => return Ok(Self::Plain(reader.into_inner().0)),
            "gzip" | "x-gzip" => {
                let mut decoder = GzipDecoder::new(reader);
                decoder.multiple_members(true);
                Box::pin(ReaderStream::with_capacity(decoder, capacity))
            }
            "deflate" => Box::pin(ReaderStream::with_capacity(ZlibDecoder::new(reader), capacity)),
            "br" => Box::pin(ReaderStream::with_capacity(BrotliDecoder::new(reader), capacity)),
            "zstd" => {
                let mut decoder = ZstdDecoder::new(reader);
                decoder.multiple_members(true);
                Box::pin(ReaderStream::with_capacity(decoder, capacity))
            }
            _ => return Err(UnknownCoding(coding.chars().take(32).collect())),
        }))
    }
}

impl Stream for Decoded {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.get_mut() {
            Self::Plain(body) => Pin::new(&mut Chunks::of(body)).poll_next(context),
            Self::Coded(stream) => stream.as_mut().poll_next(context),
        }
    }
}

/// The data frames of a body; trailers are passed over.
struct Chunks<B>(B);

impl<'a> Chunks<&'a mut Incoming> {
    fn of(body: &'a mut Incoming) -> Self {
        Self(body)
    }
}

impl<B: Body<Data = Bytes, Error = hyper::Error> + Unpin> Stream for Chunks<B> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }
}
