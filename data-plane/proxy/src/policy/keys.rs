//! Which keys of callers hold, as the lane of their own says.
//!
//! The configuration says it, too, and more of each; but what is revoked must not wait for a configuration
//! that is large, or that this build refuses. So whichever of the two is newer decides.

use std::{collections::HashMap, sync::Arc};

use prost::Message;
use sluicegate_model::secret::KeyHash;
use sluicegate_proto::policy::v1 as pb;
use sluicegate_protocol::policy::{Body, Change, Key, Point, SCHEMA};

/// The keys that hold at one point.
#[derive(Debug, Clone)]
pub struct Keys {
    at: Point,
    /// By name. Most changes of the configuration are of no key, and share it.
    valid: Arc<HashMap<String, Valid>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Valid {
    hash: KeyHash,
    expires_unix_ms: Option<u64>,
}

/// How new what the configuration says of a key is.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub epoch: &'a [u8],
    pub revision: u64,
    /// An older version of the key is used than there is, because this build cannot read that one.
    pub is_stale: bool,
}

/// What there is to say of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Yes,
    /// It was revoked, disabled or replaced.
    No,
    Expired,
}

impl Keys {
    /// The keys after a change set, which starts from `before` or is whole, and those that this build cannot
    /// read: they do not hold.
    pub fn after(before: Option<&Self>, change: &Change) -> (Self, Vec<pb::Rejected>) {
        let known = before.filter(|_| change.from.is_some());
        let mut shared = known.map_or_else(Arc::default, |before| before.valid.clone());
        let mut rejected = Vec::new();
        if change.removes.is_empty() && change.upserts.is_empty() {
            return (Self { at: change.to.clone(), valid: shared }, rejected);
        }
        let valid = Arc::make_mut(&mut shared);
        for key in &change.removes {
            valid.remove(&key.name);
        }
        for (key, body) in &change.upserts {
            match parse(body) {
                Ok(one) => drop(valid.insert(key.name.clone(), one)),
                Err(reason) => {
                    valid.remove(&key.name);
                    rejected.push(refused(key, body, reason));
                }
            }
        }
        (Self { at: change.to.clone(), valid: shared }, rejected)
    }

    /// Does the key of this name hold, which the configuration has as of `known`? `hash`: with this secret;
    /// `None`: with any.
    pub fn holds(
        &self,
        known: Known<'_>,
        name: &str,
        hash: Option<KeyHash>,
        now_unix_ms: u64,
    ) -> Holds {
        if !known.is_stale && known.epoch == self.at.epoch && known.revision >= self.at.revision {
            return Holds::Yes;
        }
        let same = |valid: &&Valid| hash.is_none_or(|hash| valid.hash == hash);
        match self.valid.get(name).filter(same) {
            None => Holds::No,
            Some(valid) if valid.expires_unix_ms.is_some_and(|at| now_unix_ms >= at) => {
                Holds::Expired
            }
            Some(_) => Holds::Yes,
        }
    }
}

fn parse(body: &Body) -> Result<Valid, String> {
    if body.schema > SCHEMA {
        return Err(format!("schema {} is newer than this build's {SCHEMA}", body.schema));
    }
    let wire = pb::ValidKey::decode(body.bytes.clone())
        .map_err(|error| format!("does not decode: {error}"))?;
    let hash = KeyHash::from_bytes(&wire.hash).ok_or("has no hash of 32 bytes")?;
    let expires = wire.expires_unix_ms;
    Ok(Valid { hash, expires_unix_ms: (expires > 0).then_some(expires) })
}

fn refused(key: &Key, body: &Body, reason: String) -> pb::Rejected {
    pb::Rejected {
        r#ref: Some(key.to_proto()),
        version: body.version,
        serving_version: 0,
        reason: format!("{reason}; the key is refused"),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_protocol::policy::Digest;

    use super::*;

    fn point(revision: u64) -> Point {
        Point { epoch: "e".into(), revision }
    }

    fn known(epoch: &[u8], revision: u64) -> Known<'_> {
        Known { epoch, revision, is_stale: false }
    }

    fn key(name: &str) -> Key {
        Key { kind: "key".into(), name: name.into() }
    }

    fn valid(secret: &str, expires_unix_ms: u64) -> Body {
        let hash = KeyHash::of(secret).bytes().to_vec().into();
        let bytes = pb::ValidKey { hash, expires_unix_ms }.encode_to_vec().into();
        Body { version: 0, schema: 1, bytes }
    }

    fn change(from: Option<u64>, to: u64, upserts: Vec<(Key, Body)>, removes: Vec<Key>) -> Change {
        Change { from: from.map(point), to: point(to), upserts, removes, digest: Digest::default() }
    }

    #[test]
    fn d3_the_newer_of_lane_and_configuration_decides() {
        let all = vec![(key("a"), valid("sa", 0)), (key("b"), valid("sb", 500))];
        let (five, _) = Keys::after(None, &change(None, 5, all, vec![]));
        let (six, _) = Keys::after(Some(&five), &change(Some(5), 6, vec![], vec![key("a")]));
        let (a, b) = (KeyHash::of("sa"), KeyHash::of("sb"));
        assert_eq!(five.holds(known(b"e", 4), "a", Some(a), 0), Holds::Yes);
        assert_eq!(
            six.holds(known(b"e", 5), "a", Some(a), 0),
            Holds::No,
            "the configuration has it still"
        );
        assert_eq!(six.holds(known(b"e", 6), "a", Some(a), 0), Holds::Yes, "and has it again");
        assert_eq!(six.holds(known(b"e", 5), "b", Some(b), 499), Holds::Yes);
        assert_eq!(six.holds(known(b"e", 5), "b", Some(b), 500), Holds::Expired);
        assert_eq!(
            six.holds(known(b"e", 5), "b", Some(a), 0),
            Holds::No,
            "it has another secret now"
        );
        assert_eq!(six.holds(known(b"e", 5), "b", None, 0), Holds::Yes, "with whichever");
        let stale = Known { is_stale: true, ..known(b"e", 6) };
        assert_eq!(six.holds(stale, "a", Some(a), 0), Holds::No, "its newest version is not read");
        // Another history is neither older nor newer: what it does not have is refused.
        assert_eq!(six.holds(known(b"f", 9), "a", Some(a), 0), Holds::No);
        assert_eq!(six.holds(known(b"f", 9), "b", Some(b), 0), Holds::Yes);
    }

    #[test]
    fn d3_what_cannot_be_read_does_not_hold() {
        let whole = change(None, 5, vec![(key("a"), valid("sa", 0))], vec![]);
        let (five, _) = Keys::after(None, &whole);
        for (schema, bytes) in [(1, "rubbish"), (1, ""), (9, "")] {
            let body = Body { version: 0, schema, bytes: bytes.into() };
            let next = change(Some(5), 6, vec![(key("a"), body)], vec![]);
            let (six, rejected) = Keys::after(Some(&five), &next);
            let holds = six.holds(known(b"e", 5), "a", Some(KeyHash::of("sa")), 0);
            assert_eq!((holds, rejected.len()), (Holds::No, 1), "{bytes}");
        }
    }
}
