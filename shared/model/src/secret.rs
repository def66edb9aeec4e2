//! Secrets that cannot be printed, and caller keys.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Text that never shows: `Debug` prints stars, there is no `Display`, memory is wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself. Whoever calls this must not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Tells two secrets apart without telling either: 12 hex digits of a hash.
    pub fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(b"sluicegate secret fingerprint\0");
        hasher.update(self.0.as_bytes());
        let digest = hasher.finalize();
        hex::encode(digest.get(..6).unwrap_or(&[]))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// SHA-256 of a caller key. Keys are random and long, so a plain hash is enough: there is nothing
/// to guess that a slow hash would protect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Hashes a key as a caller sends it.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Reads the stored form, `sha256:` and 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        let bytes = hex::decode(digits).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// The SHA-256 itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What [`KeyHash::bytes`] gave; `None`: these are no 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A fresh random token with 256 bits of randomness behind `prefix`.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn random_token(prefix: &str) -> Result<Secret, getrandom::Error> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    getrandom::fill(bytes.as_mut())?;
    Ok(Secret::new(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes.as_slice()))))
}

/// A fresh caller key: `sk-sg-…`.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn new_caller_key() -> Result<Secret, getrandom::Error> {
    random_token("sk-sg-")
}

/// Are two byte strings equal? Takes equally long wherever they differ.
pub fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print() {
        let secret = Secret::new("sk-canary");
        assert_eq!(format!("{secret:?}"), "***");
        assert!(!secret.fingerprint().contains("canary"));
        assert_eq!(secret.fingerprint().len(), 12);
    }

    #[test]
    fn key_hash_round_trips() {
        let hash = KeyHash::of("sk-x");
        assert_eq!(KeyHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(KeyHash::parse("sha256:12"), None);
        assert_eq!(KeyHash::parse("md5:00"), None);
    }

    #[test]
    fn tokens_differ() {
        let (one, two) = (new_caller_key().unwrap(), new_caller_key().unwrap());
        assert_ne!(one, two);
        assert!(one.expose().starts_with("sk-sg-") && one.expose().len() == 49);
    }
}
