//! Sealing bytes so that nobody reads or alters them without the key.
//!
//! XChaCha20-Poly1305 with a random 192-bit nonce for each seal; the associated data binds a sealed
//! value to its place, so that one cannot be moved to another.

use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead, KeyInit, Payload},
};
use zeroize::Zeroizing;

const NONCE: usize = 24;

/// A 256-bit key.
#[derive(Clone)]
pub struct SealKey(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey(***)")
    }
}

/// Why sealed bytes did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Altered, cut short, sealed with another key, or meant for another place.
    #[error("the sealed bytes were altered or sealed with another key")]
    Rejected,
    /// The operating system gave no randomness.
    #[error("the operating system gives no random numbers")]
    NoRandomness,
    /// A key file must hold 64 hex digits.
    #[error("a seal key is 64 hexadecimal digits")]
    BadKey,
}

impl SealKey {
    /// A fresh key.
    ///
    /// # Errors
    /// [`SealError::NoRandomness`].
    pub fn generate() -> Result<Self, SealError> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut()).map_err(|_| SealError::NoRandomness)?;
        Ok(Self(bytes))
    }

    /// Reads the text form: 64 hex digits, white space around them allowed.
    ///
    /// # Errors
    /// [`SealError::BadKey`].
    pub fn parse(text: &str) -> Result<Self, SealError> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        hex::decode_to_slice(text.trim(), bytes.as_mut()).map_err(|_| SealError::BadKey)?;
        Ok(Self(bytes))
    }

    /// The text form, for a file that only its owner reads.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(self.0.as_slice()))
    }

    /// Seals `plain` for the place that `context` names.
    ///
    /// # Errors
    /// [`SealError::NoRandomness`].
    pub fn seal(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0_u8; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let sealed = self
            .cipher()
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: context })
            .map_err(|_| SealError::Rejected)?;
        let mut out = Vec::with_capacity(NONCE + sealed.len());
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        Ok(out)
    }

    /// Opens what [`SealKey::seal`] made with the same key and context.
    ///
    /// # Errors
    /// [`SealError::Rejected`].
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (nonce, body) = sealed.split_first_chunk::<NONCE>().ok_or(SealError::Rejected)?;
        self.cipher()
            .decrypt(&XNonce::from(*nonce), Payload { msg: body, aad: context })
            .map(Zeroizing::new)
            .map_err(|_| SealError::Rejected)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_with_key_and_context_and_unaltered() {
        let key = SealKey::generate().unwrap();
        let sealed = key.seal(b"credential/a", b"sk-1").unwrap();
        assert_eq!(key.open(b"credential/a", &sealed).unwrap().as_slice(), b"sk-1");
        assert_eq!(key.open(b"credential/b", &sealed), Err(SealError::Rejected));
        assert_eq!(
            SealKey::generate().unwrap().open(b"credential/a", &sealed),
            Err(SealError::Rejected)
        );
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert_eq!(key.open(b"credential/a", &altered), Err(SealError::Rejected));
            assert_eq!(key.open(b"credential/a", &sealed[..at]), Err(SealError::Rejected));
        }
    }

    #[test]
    fn text_form_round_trips() {
        let key = SealKey::generate().unwrap();
        let again = SealKey::parse(&format!(" {}\n", key.to_text().as_str())).unwrap();
        assert_eq!(again.to_text(), key.to_text());
        assert!(SealKey::parse("beef").is_err());
    }
}
