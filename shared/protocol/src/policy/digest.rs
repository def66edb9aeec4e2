//! A digest of a set that is updated in time proportional to the change.

use std::fmt;

use super::state::{Body, Key};

/// Sum modulo 2^256 of a BLAKE3 hash over each member: independent of order, cheap to add to and
/// to take from (an additive multiset hash; Clarke et al., "Incremental Multiset Hash Functions
/// and Their Application to Memory Integrity Checking", ASIACRYPT 2003). It finds faults, not
/// attackers: the channel is authenticated by other means.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Digest([u64; 4]);

impl Digest {
    /// Bytes on the wire, little-endian.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads the wire form; `None` when it is not 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 32] = bytes.try_into().ok()?;
        let mut words = [0; 4];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().ok()?);
        }
        Some(Self(words))
    }

    /// Takes a member in.
    pub fn add(&mut self, key: &Key, body: &Body) {
        let mut carry = false;
        for (word, addend) in self.0.iter_mut().zip(hash(key, body).0) {
            let (sum, over) = word.overflowing_add(addend);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            *word = sum;
            carry = over || over_again;
        }
    }

    /// Takes a member out that was taken in before.
    pub fn remove(&mut self, key: &Key, body: &Body) {
        let mut borrow = false;
        for (word, subtrahend) in self.0.iter_mut().zip(hash(key, body).0) {
            let (difference, under) = word.overflowing_sub(subtrahend);
            let (difference, under_again) = difference.overflowing_sub(u64::from(borrow));
            *word = difference;
            borrow = under || under_again;
        }
    }
}

fn hash(key: &Key, body: &Body) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for part in [key.kind.as_bytes(), key.name.as_bytes(), &body.bytes] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(&body.version.to_le_bytes());
    hasher.update(&body.schema.to_le_bytes());
    Digest::from_bytes(hasher.finalize().as_bytes()).unwrap_or_default()
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}..", self.0[3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, version: u64) -> (Key, Body) {
        let body = Body { version, schema: 1, bytes: name.to_owned().into() };
        (Key { kind: "k".into(), name: name.into() }, body)
    }

    #[test]
    fn order_does_not_matter_and_removal_undoes() {
        let members: Vec<_> = (0..50).map(|n| member(&format!("r{n}"), n)).collect();
        let mut forwards = Digest::default();
        let mut backwards = Digest::default();
        members.iter().for_each(|(key, body)| forwards.add(key, body));
        members.iter().rev().for_each(|(key, body)| backwards.add(key, body));
        assert_eq!(forwards, backwards);
        assert_eq!(Digest::from_bytes(&forwards.to_bytes()), Some(forwards));
        members.iter().for_each(|(key, body)| forwards.remove(key, body));
        assert_eq!(forwards, Digest::default());
    }

    #[test]
    fn every_part_counts() {
        let digest = |key: &Key, body: &Body| {
            let mut digest = Digest::default();
            digest.add(key, body);
            digest
        };
        let (key, body) = member("a", 1);
        let base = digest(&key, &body);
        assert_ne!(base, digest(&member("b", 1).0, &body));
        assert_ne!(base, digest(&key, &Body { version: 2, ..body.clone() }));
        assert_ne!(base, digest(&key, &Body { bytes: "x".into(), ..body }));
    }
}
