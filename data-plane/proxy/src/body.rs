//! What callers get: nothing, all at once, or as it comes.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Frame, SizeHint};

use crate::{hold::Held, relay::Relay, report::Report};

/// A response body. It owns the request's report, so that the record says when the last byte was
/// taken, or that nobody took it.
#[derive(Debug)]
pub enum Body {
    Full {
        bytes: Option<Bytes>,
        report: Option<Report>,
    },
    /// All there already, but framed as the stream that the caller asked for.
    Events {
        bytes: Option<Bytes>,
        report: Option<Report>,
    },
    Stream(Box<Relay>),
    /// It began before it was known how it goes on.
    Held(Box<Held>),
}

impl Body {
    /// A whole body; the report ends when it is taken.
    pub fn full(bytes: Bytes, report: Report) -> Self {
        Self::Full { bytes: Some(bytes), report: Some(report) }
    }

    /// A stream whose events are all there.
    pub fn events(bytes: Bytes, report: Report) -> Self {
        Self::Events { bytes: Some(bytes), report: Some(report) }
    }

    /// The same answer without its bytes.
    #[must_use]
    pub fn without_bytes(self) -> Self {
        match self {
            Self::Full { report, .. } | Self::Events { report, .. } => {
                Self::Full { bytes: None, report }
            }
            Self::Stream(_) | Self::Held(_) => Self::Full { bytes: None, report: None },
        }
    }

    /// Its caller was told another status than the one that the record says.
    pub(crate) fn was_told_as(&mut self, status: StatusCode) {
        if let Self::Full { report: Some(report), .. } | Self::Events { report: Some(report), .. } =
            self
        {
            report.record.status = status.as_u16();
        }
    }

    /// A body of requests that leave no record.
    pub fn unrecorded(bytes: impl Into<Bytes>) -> Self {
        Self::Full { bytes: Some(bytes.into()), report: None }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Full { bytes, report } | Self::Events { bytes, report } => {
                if let Some(report) = report.take() {
                    report.finish();
                }
                Poll::Ready(
                    bytes.take().filter(|bytes| !bytes.is_empty()).map(|b| Ok(Frame::data(b))),
                )
            }
            Self::Stream(relay) => {
                relay.poll_frame(context).map(|bytes| bytes.map(|b| Ok(Frame::data(b))))
            }
            Self::Held(held) => {
                held.poll_frame(context).map(|bytes| bytes.map(|b| Ok(Frame::data(b))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full { bytes, report } | Self::Events { bytes, report } => {
                report.is_none() && bytes.as_ref().is_none_or(Bytes::is_empty)
            }
            Self::Stream(relay) => relay.is_over(),
            Self::Held(held) => held.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full { bytes, .. } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events { .. } | Self::Stream(_) | Self::Held(_) => SizeHint::default(),
        }
    }
}
