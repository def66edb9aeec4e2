//! Change sets in parts that other lanes can go between.

use bytes::Bytes;
use sluicegate_proto::policy::v1::{self as pb, control_plane_message::Message as Down};

use crate::policy::{
    lane::Lane,
    state::{Change, Point},
};

/// Largest part of a change set, in bytes of resource bodies, unless one resource is larger.
const CHUNK: usize = 256 * 1024;

/// Cuts a change set into parts; there is always at least one.
pub(super) fn chunks(lane: Lane, change: Change, nonce: u64) -> Vec<Down> {
    let empty = |index: u32| pb::ChangeChunk {
        lane: lane.to_proto().into(),
        nonce,
        from: change.from.as_ref().map(Point::to_proto),
        to: Some(change.to.to_proto()),
        index,
        last: false,
        upserts: Vec::new(),
        removes: Vec::new(),
        digest: Bytes::new(),
    };
    let mut chunks = vec![empty(0)];
    let mut size = 0;
    for (key, body) in &change.upserts {
        let cost = body.bytes.len() + key.name.len() + 64;
        if size > 0 && size + cost > CHUNK {
            chunks.push(empty(u32::try_from(chunks.len()).unwrap_or(u32::MAX)));
            size = 0;
        }
        size += cost;
        if let Some(chunk) = chunks.last_mut() {
            chunk.upserts.push(pb::PolicyResource {
                r#ref: Some(key.to_proto()),
                version: body.version,
                schema: body.schema,
                body: body.bytes.clone(),
            });
        }
    }
    for key in &change.removes {
        let cost = key.name.len() + 64;
        if size > 0 && size + cost > CHUNK {
            chunks.push(empty(u32::try_from(chunks.len()).unwrap_or(u32::MAX)));
            size = 0;
        }
        size += cost;
        if let Some(chunk) = chunks.last_mut() {
            chunk.removes.push(key.to_proto());
        }
    }
    if let Some(last) = chunks.last_mut() {
        last.last = true;
        last.digest = Bytes::copy_from_slice(&change.digest.to_bytes());
    }
    chunks.into_iter().map(Down::Change).collect()
}
