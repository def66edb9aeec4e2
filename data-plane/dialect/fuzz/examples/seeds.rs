//! Writes the inputs to begin with, from the golden transcripts: run it in this folder.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    io,
    path::{Path, PathBuf},
};

use sluicegate_dialect_fuzz::dialects;

fn main() -> io::Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = fuzz.join("../tests/golden");
    let mut folders = vec![golden.clone()];
    while let Some(folder) = folders.pop() {
        let mut inside: Vec<PathBuf> =
            fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        inside.sort();
        folders.extend(inside.iter().filter(|path| path.is_dir()).cloned());
        let name = folder.strip_prefix(&golden).unwrap_or(&folder).display().to_string();
        let mut parts = name.split('/');
        let (dialect, rest) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
        let variant = if rest.len() > 1 { rest[0] } else { "" };
        let own = dialects().into_iter().position(|it| {
            it.name() == dialect
                && (it.variant() == variant || variant.is_empty() && it.variant() == "generic")
        });
        for path in inside.iter().filter(|path| path.is_file()) {
            let bytes = fs::read(path)?;
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let endpoint = folder.join("case.json");
            let embeds = fs::read_to_string(endpoint).is_ok_and(|it| it.contains("embeddings"));
            let marked = |kind: u8| {
                let own = u8::try_from(own.unwrap_or(0)).expect("there are few dialects");
                [&[own, kind | u8::from(embeds)], bytes.as_slice()].concat()
            };
            match file {
                "call.json" => {
                    write(fuzz, "call", &bytes)?;
                    write(fuzz, "json", &bytes)?;
                }
                "answer.json" => {
                    write(fuzz, "json", &bytes)?;
                    write(fuzz, "answer", &marked(4))?;
                    write(fuzz, "refusal", &marked(8))?;
                }
                "stream.sse" => {
                    write(fuzz, "sse", &[&[1, 7, 30], bytes.as_slice()].concat())?;
                    write(fuzz, "stream", &marked(4))?;
                    write(fuzz, "answer", &marked(0))?;
                }
                "stream.aws" => write(fuzz, "stream", &marked(4))?,
                _ => {}
            }
        }
    }
    // The lengths of pieces and of the headers, two headers with a text each, a payload.
    let headers = b"\x0d:message-type\x07\x00\x05event\x02:x\x07\x00\x05other";
    let length = [u8::try_from(headers.len()).expect("they are short")];
    let message = [&[9, 9, 9], length.as_slice(), headers, br#"{"a":"b"}"#].concat();
    write(fuzz, "eventstream", &message)
}

fn write(fuzz: &Path, target: &str, bytes: &[u8]) -> io::Result<()> {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let folder = fuzz.join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{:016x}", hasher.finish())), bytes)
}
