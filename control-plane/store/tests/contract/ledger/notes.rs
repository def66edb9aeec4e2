//! What every ledger promises of notes.

use bytes::Bytes;
use sluicegate_store::{
    StoreError,
    ledger::{Ledger, MAX_NOTE_BYTES, MAX_NOTE_MS, MAX_NOTES, Note},
};

use super::fixture::*;

fn note(name: &str, value: &[u8], ttl_ms: u64) -> Note {
    Note { name: name.to_owned(), value: Bytes::copy_from_slice(value), ttl_ms }
}

async fn told(ledger: &dyn Ledger, put: Option<Note>) -> Vec<(String, Bytes)> {
    let mut notes = ledger.notes(put.as_ref()).await.unwrap();
    notes.sort();
    notes
}

pub async fn b1_notes_are_told_to_everybody_until_they_end<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    assert_eq!(told(l, None).await, []);
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(told(l, Some(note("a", &bytes, MAX_NOTE_MS))).await.len(), 1);
    told(l, Some(note("b", b"", MAX_NOTE_MS))).await;
    // A newer one takes the place of the one before.
    told(l, Some(note("b", b"7:x\n", MAX_NOTE_MS))).await;
    let expected = [("a".to_owned(), bytes.into()), ("b".to_owned(), Bytes::from("7:x\n"))];
    assert_eq!(told(l, None).await, expected);
    let now_ms = l.now_ms().await.unwrap();
    told(l, Some(note("a", b"short", 50))).await;
    past(l, now_ms + 150).await;
    assert_eq!(told(l, None).await, expected[1..]);
}

pub async fn b1_notes_are_bounded<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    for n in 0..MAX_NOTES + 3 {
        let ttl_ms = 30_000 + 100 * u64::try_from(n).unwrap();
        told(l, Some(note(&format!("{n:03}"), b"x", ttl_ms))).await;
    }
    let names: Vec<_> = told(l, None).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!((names.len(), names[0].as_str()), (MAX_NOTES, "003"), "those that end first go");
    let large = vec![0; MAX_NOTE_BYTES + 1];
    for bad in [
        note("", b"x", 1),
        note(&"n".repeat(300), b"x", 1),
        note("n", b"x", 0),
        note("n", b"x", u64::MAX),
        note("n", &large, 1),
    ] {
        let refused = l.notes(Some(&bad)).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    }
    assert_eq!(told(l, Some(note("n", &large[1..], 9_000))).await.len(), MAX_NOTES);
}
