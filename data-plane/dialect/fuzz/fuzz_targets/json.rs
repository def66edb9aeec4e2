//! The JSON scanner, held against serde's parser.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use sluicegate_dialect::json::{Scanner, What};

fuzz_target!(|bytes: &[u8]| {
    let read = |mut scanner: Scanner<'_>| {
        scanner.skip()?;
        scanner.end()
    };
    let ours = read(Scanner::new(bytes));
    let lenient = read(Scanner::lenient(bytes));
    assert!(ours.is_err() || lenient.is_ok(), "the lenient takes all that the strict takes");
    let theirs = serde_json::from_slice::<Box<RawValue>>(bytes);
    match ours {
        // Bytes that are no UTF-8, lone surrogates, and depth are where the two differ.
        Ok(()) if !plain(bytes) => {}
        Ok(()) => assert!(theirs.is_ok(), "only ours takes it"),
        Err(error) if error.what == What::TooDeep => {}
        Err(error) => assert!(theirs.is_err(), "only theirs takes it: {error}"),
    }
});

/// Nothing in it that one of them refuses and the other passes over.
fn plain(bytes: &[u8]) -> bool {
    let nested = bytes.iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    std::str::from_utf8(bytes).is_ok() && nested < 100 && !bytes.windows(2).any(|it| it == b"\\u")
}
