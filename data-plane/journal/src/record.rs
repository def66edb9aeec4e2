//! What is written, and its bytes.
//!
//! What a replay needs to keep the books stands at fixed places in front, numbers as little-endian;
//! the rest is protobuf that only a reader who wants it decodes.

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use sluicegate_proto::usage::v1::UsageEvent;

use crate::clock::Moment;

/// Version of the files. A newer one is left alone.
pub(crate) const FORMAT: u32 = 1;
/// Most bytes of one append.
pub(crate) const MAX_APPEND_BYTES: usize = 1 << 20;

/// An attempt that was sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Started {
    /// Number of the request within this process.
    pub request: u64,
    /// What is known of the attempt by now: its number, the names, the version of the prices, and as
    /// input the estimate.
    pub event: UsageEvent,
    /// What is reserved for it.
    pub holds: Vec<Hold>,
    /// What the caller needs to price the attempt, should its process die; at most 64 KiB. Opaque here.
    pub memo: Bytes,
}

/// Part of a lease that is reserved for one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    pub lease: u64,
    /// In the smallest unit of what the lease counts.
    pub amount: u64,
}

/// Where a quota lease stands at this node. Every number is a total.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseTotals {
    /// What it counts: an encoded `quota.v1.Meter`. Opaque here.
    pub meter: Bytes,
    pub lease: u64,
    /// The calendar window that it belongs to; 0: none.
    pub window: u64,
    /// Never goes down: of two records the greater holds, in whatever order they arrive.
    pub charged: u64,
    pub granted: u64,
}

/// One thing to be written.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// An attempt was sent. It is open until its event, or `Dropped`.
    Started(&'a Started),
    /// What an open attempt has produced so far, estimated.
    Progress { request: u64, attempt: u32, output_tokens: u64 },
    /// What an attempt used. Gets the next number of the source.
    Event { request: u64, event: &'a UsageEvent },
    /// An attempt ended and cost nothing.
    Dropped { request: u64, attempt: u32 },
    /// A lease after a draw or a charge. To be written when the lease is opened, too: an estimate can
    /// only be charged to a lease that is known.
    LeaseTotals(&'a LeaseTotals),
    /// A lease is closed at the ledger: its totals are of no more use.
    LeaseClosed { lease: u64 },
}

/// First record of a segment.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Header {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(fixed64, tag = "2")]
    pub(crate) incarnation: u64,
    #[prost(string, tag = "3")]
    pub(crate) node_id: String,
    /// Number of the first event in the segment, if one follows.
    #[prost(uint64, tag = "4")]
    pub(crate) first_seq: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) wall_ms: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) boot_ms: u64,
    #[prost(string, tag = "7")]
    pub(crate) boot_id: String,
}

/// An acknowledgement, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) at: Moment,
    pub(crate) through: u64,
    pub(crate) durable: bool,
    pub(crate) store: String,
}

/// A record as it is read back. The slices are what a checkpoint copies or a reader decodes.
#[derive(Debug)]
pub(crate) enum Stored<'a> {
    Header(Header),
    Started { request: u64, attempt: u32, payload: &'a [u8] },
    Progress { request: u64, attempt: u32, progress: Progress },
    Event { seq: u64, at: Moment, request: u64, attempt: u32, event: &'a [u8] },
    Dropped { request: u64, attempt: u32 },
    LeaseTotals { meter: &'a [u8], lease: u64, window: u64, charged: u64, granted: u64 },
    LeaseClosed { lease: u64 },
    Cursor(Cursor),
}

/// The last that was heard of a running attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) at: Moment,
    pub(crate) output_tokens: u64,
}

/// Numbers of the kinds on disk; never given anew.
pub(crate) mod kind {
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const STARTED: u8 = 2;
    pub(crate) const PROGRESS: u8 = 3;
    pub(crate) const EVENT: u8 = 4;
    pub(crate) const DROPPED: u8 = 5;
    pub(crate) const LEASE_TOTALS: u8 = 6;
    pub(crate) const LEASE_CLOSED: u8 = 7;
    pub(crate) const CURSOR: u8 = 8;
}

/// Writes one record's payload and gives its kind. An event's number is 0 until the frame is sealed.
pub(crate) fn encode(out: &mut Vec<u8>, now: Moment, record: &Record<'_>) -> u8 {
    match *record {
        Record::Started(started) => {
            put_moment(out, now);
            put_attempt(out, started.request, started.event.attempt);
            let holds = started.holds.get(..started.holds.len().min(usize::from(u16::MAX)));
            let holds = holds.unwrap_or_default();
            out.put_u16_le(u16::try_from(holds.len()).unwrap_or(u16::MAX));
            for hold in holds {
                out.put_u64_le(hold.lease);
                out.put_u64_le(hold.amount);
            }
            let memo = started.memo.get(..started.memo.len().min(usize::from(u16::MAX)));
            let memo = memo.unwrap_or_default();
            out.put_u16_le(u16::try_from(memo.len()).unwrap_or(u16::MAX));
            out.put_slice(memo);
            put_event(out, &started.event);
            kind::STARTED
        }
        Record::Progress { request, attempt, output_tokens } => {
            encode_progress(out, request, attempt, Progress { at: now, output_tokens })
        }
        Record::Event { request, event } => {
            out.put_u64_le(0);
            put_moment(out, now);
            put_attempt(out, request, event.attempt);
            put_event(out, event);
            kind::EVENT
        }
        Record::Dropped { request, attempt } => {
            put_attempt(out, request, attempt);
            kind::DROPPED
        }
        Record::LeaseTotals(totals) => encode_totals(out, totals),
        Record::LeaseClosed { lease } => {
            out.put_u64_le(lease);
            kind::LEASE_CLOSED
        }
    }
}

pub(crate) fn encode_progress(
    out: &mut Vec<u8>,
    request: u64,
    attempt: u32,
    progress: Progress,
) -> u8 {
    put_moment(out, progress.at);
    put_attempt(out, request, attempt);
    out.put_u64_le(progress.output_tokens);
    kind::PROGRESS
}

pub(crate) fn encode_totals(out: &mut Vec<u8>, totals: &LeaseTotals) -> u8 {
    out.put_u64_le(totals.lease);
    out.put_u64_le(totals.window);
    out.put_u64_le(totals.charged);
    out.put_u64_le(totals.granted);
    out.put_slice(&totals.meter);
    kind::LEASE_TOTALS
}

pub(crate) fn encode_cursor(out: &mut Vec<u8>, cursor: &Cursor) -> u8 {
    put_moment(out, cursor.at);
    out.put_u64_le(cursor.through);
    out.put_u8(u8::from(cursor.durable));
    out.put_slice(cursor.store.as_bytes());
    kind::CURSOR
}

pub(crate) fn encode_header(out: &mut Vec<u8>, header: &Header) -> u8 {
    header.encode(out).expect("a vector grows");
    kind::HEADER
}

/// The record of these bytes; `None` for a kind that this version does not know, or a payload that
/// is not what its kind says.
pub(crate) fn decode(kind: u8, payload: &[u8]) -> Option<Stored<'_>> {
    let mut rest = payload;
    Some(match kind {
        kind::HEADER => Stored::Header(Header::decode(rest).ok()?),
        kind::STARTED => {
            get_moment(&mut rest)?;
            let (request, attempt) = get_attempt(&mut rest)?;
            Stored::Started { request, attempt, payload }
        }
        kind::PROGRESS => {
            let at = get_moment(&mut rest)?;
            let (request, attempt) = get_attempt(&mut rest)?;
            let output_tokens = rest.try_get_u64_le().ok()?;
            Stored::Progress { request, attempt, progress: Progress { at, output_tokens } }
        }
        kind::EVENT => {
            let seq = rest.try_get_u64_le().ok()?;
            let at = get_moment(&mut rest)?;
            let (request, attempt) = get_attempt(&mut rest)?;
            Stored::Event { seq, at, request, attempt, event: rest }
        }
        kind::DROPPED => {
            let (request, attempt) = get_attempt(&mut rest)?;
            Stored::Dropped { request, attempt }
        }
        kind::LEASE_TOTALS => Stored::LeaseTotals {
            lease: rest.try_get_u64_le().ok()?,
            window: rest.try_get_u64_le().ok()?,
            charged: rest.try_get_u64_le().ok()?,
            granted: rest.try_get_u64_le().ok()?,
            meter: rest,
        },
        kind::LEASE_CLOSED => Stored::LeaseClosed { lease: rest.try_get_u64_le().ok()? },
        kind::CURSOR => Stored::Cursor(Cursor {
            at: get_moment(&mut rest)?,
            through: rest.try_get_u64_le().ok()?,
            durable: rest.try_get_u8().ok()? != 0,
            store: std::str::from_utf8(rest).ok()?.to_owned(),
        }),
        _ => return None,
    })
}

/// All of a started attempt, from the payload that [`Stored::Started`] has.
pub(crate) fn decode_started(mut payload: &[u8]) -> Option<(Moment, Started)> {
    let at = get_moment(&mut payload)?;
    let (request, _) = get_attempt(&mut payload)?;
    let count = payload.try_get_u16_le().ok()?;
    let mut holds = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let lease = payload.try_get_u64_le().ok()?;
        holds.push(Hold { lease, amount: payload.try_get_u64_le().ok()? });
    }
    let length = usize::from(payload.try_get_u16_le().ok()?);
    let (memo, event) = payload.split_at_checked(length)?;
    let memo = Bytes::copy_from_slice(memo);
    Some((at, Started { request, event: UsageEvent::decode(event).ok()?, holds, memo }))
}

fn put_event(out: &mut Vec<u8>, event: &UsageEvent) {
    event.encode(out).expect("a vector grows");
}

fn put_attempt(out: &mut Vec<u8>, request: u64, attempt: u32) {
    out.put_u64_le(request);
    out.put_u32_le(attempt);
}

fn get_attempt(bytes: &mut &[u8]) -> Option<(u64, u32)> {
    Some((bytes.try_get_u64_le().ok()?, bytes.try_get_u32_le().ok()?))
}

fn put_moment(out: &mut Vec<u8>, moment: Moment) {
    out.put_u64_le(moment.boot);
    out.put_u64_le(moment.boot_ms);
    out.put_u64_le(moment.wall_ms);
}

fn get_moment(bytes: &mut &[u8]) -> Option<Moment> {
    Some(Moment {
        boot: bytes.try_get_u64_le().ok()?,
        boot_ms: bytes.try_get_u64_le().ok()?,
        wall_ms: bytes.try_get_u64_le().ok()?,
    })
}
