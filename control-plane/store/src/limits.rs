//! How large one commit may be, checked before anything is sent.

use std::collections::HashSet;

use crate::{Commit, Op, StoreError};

/// Where a store keeps its own identity; no commit may write it.
pub(crate) const EPOCH_KEY: &str = "epoch";

/// Bytes that one write or precondition costs on the wire beside its key and value, rounded up.
const OVERHEAD: usize = 64;

/// Upper bounds of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Keys, values and wire overhead together, in bytes.
    pub bytes: usize,
    /// Writes, and likewise preconditions.
    pub ops: usize,
}

impl Limits {
    /// Refuses what the store would refuse, so that "too large" is never a mere failed request.
    /// `key_prefix` is the length of what the store puts before every key.
    pub(crate) fn check(
        &self,
        store: &'static str,
        commit: &Commit,
        key_prefix: usize,
    ) -> Result<(), StoreError> {
        for (what, actual) in
            [("writes", commit.ops.len()), ("preconditions", commit.preconditions.len())]
        {
            if actual > self.ops {
                return Err(StoreError::TooMany { what, actual, limit: self.ops });
            }
        }
        let actual = size(commit, key_prefix);
        if actual > self.bytes {
            return Err(StoreError::TooLarge { what: "a commit", actual, limit: self.bytes });
        }
        let mut written = HashSet::with_capacity(commit.ops.len());
        for key in commit.ops.iter().map(Op::key) {
            if key == EPOCH_KEY || key.is_empty() {
                return Err(refused(store, format!("the key {key:?} is reserved")));
            }
            if !written.insert(key) {
                return Err(refused(store, format!("one commit writes the key {key:?} twice")));
            }
        }
        Ok(())
    }
}

impl Op {
    /// The key this write is about.
    pub fn key(&self) -> &str {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
        }
    }
}

/// Preconditions count twice: they are compared, and read back when they fail.
fn size(commit: &Commit, key_prefix: usize) -> usize {
    let write = |op: &Op| match op {
        Op::Put { key, value, .. } => key_prefix + key.len() + value.len() + OVERHEAD,
        Op::Delete { key } => key_prefix + key.len() + OVERHEAD,
    };
    let writes: usize = commit.ops.iter().map(write).sum();
    let compares: usize =
        commit.preconditions.iter().map(|p| 2 * (key_prefix + p.key.len()) + OVERHEAD).sum();
    writes + compares
}

fn refused(store: &'static str, reason: String) -> StoreError {
    StoreError::Refused { store, reason }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn put(key: &str, length: usize) -> Op {
        Op::Put { key: key.into(), value: Bytes::from(vec![0; length]), ttl: None }
    }

    fn check(ops: Vec<Op>) -> Result<(), StoreError> {
        let limits = Limits { bytes: 1_000, ops: 2 };
        limits.check("test", &Commit { preconditions: vec![], ops }, 5)
    }

    #[test]
    fn refuses_before_sending() {
        assert!(check(vec![put("a", 800), put("b", 1)]).is_ok());
        assert!(matches!(check(vec![put("a", 1_000)]), Err(StoreError::TooLarge { .. })));
        assert!(matches!(
            check(vec![put("a", 1), put("b", 1), put("c", 1)]),
            Err(StoreError::TooMany { actual: 3, limit: 2, .. })
        ));
        assert!(matches!(check(vec![put("a", 1), put("a", 1)]), Err(StoreError::Refused { .. })));
        assert!(matches!(check(vec![put("epoch", 1)]), Err(StoreError::Refused { .. })));
        assert!(matches!(check(vec![put("", 1)]), Err(StoreError::Refused { .. })));
    }
}
