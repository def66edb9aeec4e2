//! How a target stands, as it is kept in the store.

use bytes::Bytes;
use prost::Message;
use sluicegate_proto::health::v1 as pb;
use sluicegate_protocol::breaker::{Grant, Word};

/// What is said of a target, and who has leave to probe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) word: Word,
    pub(super) grant: Option<Grant>,
    /// Data planes that were heard of lately.
    pub(super) nodes: u32,
    /// Openings in a row.
    pub(super) strikes: u32,
    /// How long the order has been the same in kind.
    pub(super) since_ms: u64,
    /// The data plane that sends its health probes.
    pub(super) prober: Option<String>,
}

impl Verdict {
    pub(super) fn encode(&self) -> Bytes {
        let grant = self.grant.as_ref();
        let wire = pb::Verdict {
            directive: Some(self.word.to_proto()),
            granted_to: grant.map(|grant| grant.node.clone()).unwrap_or_default(),
            grant: grant.map(Grant::to_proto),
            nodes: self.nodes,
            strikes: self.strikes,
            since_ms: self.since_ms,
            prober: self.prober.clone().unwrap_or_default(),
        };
        wire.encode_to_vec().into()
    }

    /// Reads what [`Verdict::encode`] wrote; `None` for anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let wire = pb::Verdict::decode(bytes).ok()?;
        let node = wire.granted_to;
        let grant = wire.grant.map(|grant| Grant::of_proto(node, grant)).transpose().ok()?;
        Some(Self {
            word: Word::try_from(wire.directive?).ok()?,
            grant,
            nodes: wire.nodes,
            strikes: wire.strikes,
            since_ms: wire.since_ms,
            prober: Some(wire.prober).filter(|prober| !prober.is_empty()),
        })
    }
}
