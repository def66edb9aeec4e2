//! A meter as bytes: a version, the numbers, the leases.

use crate::ledger::{
    counter::{Counter, Counting},
    meter::{Lease, Meter, State},
};

/// The layout below.
const VERSION: u8 = 1;

pub(super) fn encode(meter: &Meter) -> Vec<u8> {
    let Meter { counter, leases, keep_until_ms } = meter;
    let mut bytes = vec![VERSION, letter(counter.counting.letter())];
    for number in [
        counter.amount,
        counter.interval_ms,
        counter.capacity,
        counter.used.to_bits(),
        counter.previous.to_bits(),
        counter.reserved,
        u64::from(counter.holders),
        counter.at_ms,
        counter.window,
        counter.window_end_ms,
        counter.due_ms,
        *keep_until_ms,
        leases.len() as u64,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    for (id, lease) in leases {
        bytes.extend((id.len() as u64).to_le_bytes());
        bytes.extend(id.as_bytes());
        bytes.push(letter(lease.state.letter()));
        let Lease { granted, charged, refunded, due_ms, seq, state: _ } = *lease;
        for number in [granted, charged, refunded, due_ms, seq] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}

/// `None` if these are not the bytes of a meter.
pub(super) fn decode(bytes: &[u8]) -> Option<Meter> {
    let mut reader = Reader(bytes);
    if reader.byte()? != VERSION {
        return None;
    }
    let counting = Counting::from_letter(char::from(reader.byte()?));
    let counter = Counter {
        counting,
        amount: reader.number()?,
        interval_ms: reader.number()?,
        capacity: reader.number()?,
        used: f64::from_bits(reader.number()?),
        previous: f64::from_bits(reader.number()?),
        reserved: reader.number()?,
        holders: u32::try_from(reader.number()?).ok()?,
        at_ms: reader.number()?,
        window: reader.number()?,
        window_end_ms: reader.number()?,
        due_ms: reader.number()?,
    };
    let mut meter = Meter { counter, keep_until_ms: reader.number()?, ..Meter::default() };
    for _ in 0..reader.number()? {
        let length = usize::try_from(reader.number()?).ok()?;
        let id = String::from_utf8(reader.take(length)?.to_vec()).ok()?;
        let state = State::from_letter(char::from(reader.byte()?))?;
        let lease = Lease {
            granted: reader.number()?,
            charged: reader.number()?,
            refunded: reader.number()?,
            due_ms: reader.number()?,
            seq: reader.number()?,
            state,
        };
        meter.leases.insert(id, lease);
    }
    reader.0.is_empty().then_some(meter)
}

fn letter(letter: char) -> u8 {
    u8::try_from(letter).unwrap_or(b'?')
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn number(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{LeaseOp, MeterKind, MeterSpec, OnExpiry, meter::Phase};

    #[test]
    fn a_meter_comes_back_and_a_cut_one_does_not() {
        let spec = MeterSpec {
            kind: MeterKind::Bucket { amount: 7, window_ms: 1_000 },
            capacity: 100,
            on_expiry: OnExpiry::Hold,
            ttl_ms: 500,
        };
        let mut meter = Meter::default();
        for (at_ms, lease, seq, charged) in
            [(1_000, "a", 1, 0), (1_001, "a", 2, 5), (1_013, "\u{e9}", 1, 0), (1_900, "a", 3, 6)]
        {
            let op = LeaseOp {
                meter: "m".to_owned(),
                spec,
                lease: lease.to_owned(),
                seq,
                charged,
                refunded: charged / 5,
                granted: charged,
                wanted: charged + 10,
                minimum: 0,
                close: seq == 3,
                window: 0,
            };
            meter.apply(at_ms, &op, Phase::Normal);
        }
        let bytes = encode(&meter);
        assert_eq!(decode(&bytes), Some(meter));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None);
        }
    }
}
