//! Golden transcripts: what each wire format sends and says, and what callers get.
//!
//! A transcript is a folder below `tests/golden/DIALECT` or `tests/golden/DIALECT/VARIANT`:
//!
//! | file | what |
//! |---|---|
//! | `call.json` | the caller's request, byte for byte |
//! | `case.json` | optional: `endpoint`, upstream `model`, `status` and `headers` of the answer |
//! | `sent.json` | what goes upstream: `path`, `headers`, `body`, `dropped` |
//! | `answer.json`, `stream.sse` or `stream.b64` | what the upstream answers |
//! | `stream.aws` | the same in Amazon's binary form, a line for each message: its type, its name, its payload |
//! | `caller.json` or `caller.sse` | what the caller gets |
//! | `facts.json` | usage, finish reason, proof; or the failure that it is |
//!
//! Streams are read under every segmentation that is tried, with the same result. With
//! `SLUICEGATE_BLESS=1` the files of the second half are written anew, to be looked at before they are
//! committed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "tests fail where they panic"
)]

mod amazon;
mod mutated;
mod play;
mod segments;

use std::path::{Path, PathBuf};

use play::Transcript;

/// Every transcript there is.
fn transcripts() -> Vec<Transcript> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        if folder.join("call.json").is_file() {
            found.push(Transcript::read(&folder));
            continue;
        }
        let inner = std::fs::read_dir(&folder).into_iter().flatten();
        let mut inner: Vec<PathBuf> = inner.map(|entry| entry.unwrap().path()).collect();
        inner.retain(|path| path.is_dir());
        folders.extend(inner);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!found.is_empty(), "no transcripts");
    found
}

#[test]
fn c1_every_transcript_plays_as_it_is_written() {
    let mut faults = Vec::new();
    let transcripts = transcripts();
    for transcript in &transcripts {
        faults.extend(transcript.check());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    println!("{} transcripts", transcripts.len());
}

/// Ten thousand with `SLUICEGATE_SEGMENTATIONS=10000`.
#[test]
fn c4_streams_read_the_same_however_they_are_cut() {
    let random = std::env::var("SLUICEGATE_SEGMENTATIONS");
    let random = random.ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let mut streams = 0;
    for transcript in transcripts().iter().filter(|transcript| transcript.stream.is_some()) {
        segments::check(transcript, random);
        streams += 1;
    }
    assert!(streams > 0);
    println!("{streams} streams, {random} random segmentations of each");
}

/// What upstreams send may be anything: readers fail, they never panic.
#[test]
fn c3_damaged_answers_are_read_without_a_panic() {
    for transcript in transcripts() {
        mutated::check(&transcript, 60);
    }
}
