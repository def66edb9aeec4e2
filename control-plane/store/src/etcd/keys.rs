//! Between the keys of the contract and the keys in etcd, which carry the installation's prefix.

use std::sync::Arc;

use bytes::Bytes;
use etcd_client::KeyValue;

use crate::{Entry, limits::EPOCH_KEY};

/// Ends the key in each watched prefix that is written to see whether it is told. No name has such a
/// character.
const CANARY: &str = "\u{1}canary";

/// That key, for the watch of `prefix`.
pub(super) fn canary(prefix: &str) -> String {
    format!("{prefix}{CANARY}")
}

/// The prefix of one installation. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Keys(Arc<str>);

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self(prefix.into())
    }

    /// Bytes that every key grows by.
    pub(super) fn prefix_len(&self) -> usize {
        self.0.len()
    }

    /// The key as etcd knows it.
    pub(super) fn absolute(&self, key: &str) -> Vec<u8> {
        [self.0.as_bytes(), key.as_bytes()].concat()
    }

    /// Where the identity of this history is kept.
    pub(super) fn epoch(&self) -> Vec<u8> {
        self.absolute(EPOCH_KEY)
    }

    /// The key as the contract knows it; `None` for the store's own keys and for what only a
    /// stranger can have put below our prefix.
    pub(super) fn relative(&self, absolute: &[u8]) -> Option<String> {
        let key = std::str::from_utf8(absolute).ok()?.strip_prefix(&*self.0)?;
        (key != EPOCH_KEY && !key.ends_with(CANARY)).then(|| key.to_owned())
    }

    /// The stored value as the contract knows it; `None` as for [`Keys::relative`].
    pub(super) fn entry(&self, kv: KeyValue) -> Option<Entry> {
        let key = self.relative(kv.key())?;
        let mod_revision = revision(kv.mod_revision());
        let (_, value) = kv.into_key_value();
        Some(Entry { key, value: Bytes::from(value), mod_revision })
    }
}

/// The first key that is greater than every key with this prefix, as etcd spells range ends.
pub(super) fn range_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    vec![0]
}

/// etcd counts revisions in a signed integer that is never negative.
pub(super) fn revision(from_etcd: i64) -> u64 {
    u64::try_from(from_etcd).unwrap_or(0)
}

/// A revision for etcd; what does not fit is a revision no store ever reaches.
pub(super) fn etcd_revision(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_end_is_the_next_prefix() {
        check(b"/a/", b"/a0");
        check(b"a\xff", b"b");
        check(b"\xff\xff", b"\0");
        check(b"", b"\0");

        #[track_caller]
        fn check(prefix: &[u8], end: &[u8]) {
            assert_eq!(range_end(prefix), end);
        }
    }

    #[test]
    fn own_and_foreign_keys_are_not_shown() {
        let keys = Keys::new("/s/");
        assert_eq!(keys.relative(b"/s/config/a"), Some("config/a".to_owned()));
        assert_eq!(keys.relative(b"/s/epoch"), None);
        assert_eq!(keys.relative(b"/s/config/\x01canary"), None);
        assert_eq!(keys.relative(b"/t/config/a"), None);
        assert_eq!(keys.relative(b"/s/\xff"), None);
    }
}
