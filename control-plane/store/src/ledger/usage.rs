//! How usage is written down, the same in every ledger.

use super::{UsageCounts, UsageNames};

/// Between the names of one combination. Inside a name it is written otherwise.
pub(crate) const SEPARATOR: char = '\u{1f}';
const ESCAPE: char = '\\';

/// No counter counts further, in any ledger.
pub(crate) const MOST: u64 = i64::MAX as u64;
/// How many counters there are.
pub(crate) const COUNTERS: usize = 8;

/// The names of a combination as one text, each ended by [`SEPARATOR`].
pub(crate) fn join(names: &UsageNames) -> String {
    let UsageNames { tenant, key, model, provider, credential } = names;
    let mut joined = String::new();
    for name in [tenant, key, model, provider, credential] {
        for c in name.chars() {
            match c {
                SEPARATOR => joined.extend([ESCAPE, 's']),
                ESCAPE => joined.extend([ESCAPE, ESCAPE]),
                other => joined.push(other),
            }
        }
        joined.push(SEPARATOR);
    }
    joined
}

/// The names that were joined to the beginning of `text`, and what comes after them.
pub(crate) fn split(text: &str) -> Option<(UsageNames, &str)> {
    let mut parts = text.splitn(6, SEPARATOR);
    let mut name = || parts.next().map(plain);
    let names = UsageNames {
        tenant: name()?,
        key: name()?,
        model: name()?,
        provider: name()?,
        credential: name()?,
    };
    Some((names, parts.next()?))
}

fn plain(written: &str) -> String {
    let mut plain = String::with_capacity(written.len());
    let mut chars = written.chars();
    while let Some(c) = chars.next() {
        match c {
            ESCAPE => plain.push(if chars.next() == Some('s') { SEPARATOR } else { ESCAPE }),
            other => plain.push(other),
        }
    }
    plain
}

impl UsageCounts {
    pub(crate) fn to_array(self) -> [u64; COUNTERS] {
        [
            self.requests,
            self.estimated,
            self.input_tokens,
            self.output_tokens,
            self.cached_tokens,
            self.reasoning_tokens,
            self.micro_units,
            self.cost_nano,
        ]
    }

    pub(crate) fn from_array(counts: [u64; COUNTERS]) -> Self {
        let [
            requests,
            estimated,
            input_tokens,
            output_tokens,
            cached_tokens,
            reasoning_tokens,
            micro_units,
            cost_nano,
        ] = counts;
        Self {
            requests,
            estimated,
            input_tokens,
            output_tokens,
            cached_tokens,
            reasoning_tokens,
            micro_units,
            cost_nano,
        }
    }
}

/// Adds counters up, none further than [`MOST`].
pub(crate) fn add(sum: &mut [u64; COUNTERS], more: [u64; COUNTERS]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_come_back(names in prop::array::uniform5("[\\\\s\u{1f}a-c\u{e9}]{0,6}")) {
            let [tenant, key, model, provider, credential] = names;
            let names = UsageNames { tenant, key, model, provider, credential };
            let joined = join(&names);
            prop_assert_eq!(joined.matches(SEPARATOR).count(), 5);
            let text = format!("{joined}rest");
            prop_assert_eq!(split(&text), Some((names, "rest")));
        }
    }
}
