//! What is kept of a request, sealed for the one place where it is.

use bytes::Bytes;
use sluicegate_model::seal::{SealError, SealKey};

use crate::error::CoreError;

/// Seals and opens.
#[derive(Debug)]
pub(super) struct Sealed(pub(super) SealKey);

/// Which of the three it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Body,
    Kept,
    Result,
}

impl Sealed {
    pub(super) fn seal(&self, place: Place, id: &str, plain: &[u8]) -> Result<Bytes, CoreError> {
        Ok(self.0.seal(&context(place, id), plain)?.into())
    }

    pub(super) fn open(&self, place: Place, id: &str, sealed: &[u8]) -> Result<Bytes, CoreError> {
        let opened = self.0.open(&context(place, id), sealed);
        let plain = opened.map_err(|error: SealError| CoreError::Corrupt {
            key: format!("deferred/{id}"),
            reason: error.to_string(),
        })?;
        Ok(Bytes::copy_from_slice(&plain))
    }
}

/// Binds what is sealed to its request, so that no result can be put in the place of another.
fn context(place: Place, id: &str) -> Vec<u8> {
    let place = match place {
        Place::Body => "body",
        Place::Kept => "kept",
        Place::Result => "result",
    };
    format!("deferred/{id}/{place}").into_bytes()
}
