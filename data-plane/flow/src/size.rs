//! Prompts by size. What takes long for a short prompt is quick for a long one.

/// How many size classes there are.
pub const SIZES: usize = 6;

/// The class of a prompt of so many tokens, below [`SIZES`]: each holds prompts up to four times as long as
/// the one before, the first those below 1024 tokens.
pub fn size_class(prompt_tokens: u64) -> usize {
    let bits = (u64::BITS - (prompt_tokens >> 10).leading_zeros()) as usize;
    bits.div_ceil(2).min(SIZES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_four() {
        check(0, 0);
        check(1_023, 0);
        check(1_024, 1);
        check(4_095, 1);
        check(4_096, 2);
        check(16_384, 3);
        check(65_535, 3);
        check(65_536, 4);
        check(262_144, 5);
        check(u64::MAX, 5);

        #[track_caller]
        fn check(tokens: u64, class: usize) {
            assert_eq!(size_class(tokens), class, "{tokens}");
        }
    }
}
