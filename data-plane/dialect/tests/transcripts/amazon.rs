//! Writing messages of `application/vnd.amazon.eventstream`.

/// A message for each line: `event NAME PAYLOAD`, or with another type in the first place.
pub(crate) fn encoded(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("not a message: {line}"));
        let (kind, name, payload) = (word(), word(), word());
        let naming = match kind {
            "exception" => ":exception-type",
            "error" => ":error-code",
            _ => ":event-type",
        };
        let headers = [
            header(naming, name),
            header(":content-type", "application/json"),
            header(":message-type", kind),
        ];
        out.extend(message(&headers.concat(), payload.as_bytes()));
    }
    out
}

/// A header whose value is a string.
fn header(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![u8::try_from(name.len()).unwrap()];
    out.extend_from_slice(name.as_bytes());
    out.push(7);
    out.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
    out.extend_from_slice(value.as_bytes());
    out
}

fn message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let word = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
    let mut out = Vec::new();
    out.extend_from_slice(&word(16 + headers.len() + payload.len()));
    out.extend_from_slice(&word(headers.len()));
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}
