//! What the journal keeps of an attempt so that the next process can price it, should this one die.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use sluicegate_model::{TokenRates, resource::limit::Dimension};

const DIMENSIONS: [Dimension; 5] = [
    Dimension::Requests,
    Dimension::Tokens,
    Dimension::Units,
    Dimension::Cost,
    Dimension::Concurrency,
];

/// Weights, prices, and what each of the attempt's leases counts, in the order of its holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memo {
    pub(crate) units: TokenRates,
    pub(crate) prices: TokenRates,
    pub(crate) dimensions: Vec<Dimension>,
}

impl Memo {
    pub(crate) fn write(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(8 * 8 + self.dimensions.len());
        for rates in [self.units, self.prices] {
            for rate in [rates.input, rates.output, rates.cached, rates.reasoning] {
                bytes.put_u64_le(rate);
            }
        }
        for dimension in &self.dimensions {
            let index = DIMENSIONS.iter().position(|known| known == dimension).unwrap_or(0);
            bytes.put_u8(u8::try_from(index).unwrap_or(0));
        }
        bytes.freeze()
    }

    /// Reads what [`Memo::write`] wrote; what is missing is nothing.
    pub(crate) fn read(mut bytes: &[u8]) -> Self {
        let mut rates = || {
            let mut next = || bytes.try_get_u64_le().unwrap_or(0);
            let (input, output) = (next(), next());
            TokenRates { input, output, cached: next(), reasoning: next() }
        };
        let (units, prices) = (rates(), rates());
        let known = |index: &u8| DIMENSIONS.get(usize::from(*index)).copied();
        Self { units, prices, dimensions: bytes.iter().filter_map(known).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written() {
        let memo = Memo {
            units: TokenRates { input: 1, output: 2, cached: 3, reasoning: 4 },
            prices: TokenRates { input: 5, output: 6, cached: 7, reasoning: 8 },
            dimensions: vec![Dimension::Cost, Dimension::Tokens],
        };
        assert_eq!(Memo::read(&memo.write()), memo);
        assert_eq!(Memo::read(b""), Memo::default());
    }
}
