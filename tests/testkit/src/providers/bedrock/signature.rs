//! AWS Signature Version 4, worked out anew for each call and held against what the caller sent.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::providers::read;
use crate::upstream::Call;

/// Bytes that HMAC mixes a key into.
const BLOCK: usize = 64;

/// What an `authorization` header of the kind says.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) date: &'a str,
    pub(super) region: &'a str,
    /// `x-amz-date`.
    pub(super) moment: &'a str,
    pub(super) signed: Vec<&'a str>,
}

/// The signature that a call must have if the secret is `secret`, in hex.
pub(super) fn expected(call: &Call, claim: &Claim<'_>, secret: &str) -> String {
    let scope = format!("{}/{}/bedrock/aws4_request", claim.date, claim.region);
    let canonical = hex(&Sha256::digest(canonical(call, claim)));
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{canonical}", claim.moment);
    let steps = [claim.date, claim.region, "bedrock", "aws4_request"];
    let key = steps.iter().fold(format!("AWS4{secret}").into_bytes(), |key, step| hmac(&key, step));
    hex(&hmac(&key, &text))
}

/// The call in the form that is signed.
fn canonical(call: &Call, claim: &Claim<'_>) -> String {
    let mut text = format!("{}\n{}\n", call.method, encoded(read::path(call), "/"));
    let mut pairs: Vec<&str> = match call.target.split_once('?') {
        Some((_, query)) => query.split('&').collect(),
        None => Vec::new(),
    };
    pairs.sort_unstable();
    text.push_str(&pairs.join("&"));
    text.push('\n');
    for name in &claim.signed {
        let value = call.header(name).unwrap_or_default();
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("{name}:{value}\n"));
    }
    let payload = match call.header("x-amz-content-sha256") {
        Some(said) => said.to_owned(),
        None => hex(&Sha256::digest(&call.body)),
    };
    text.push_str(&format!("\n{}\n{payload}", claim.signed.join(";")));
    text
}

/// Percent-encodes all but what is unreserved, and `kept`. A path is encoded once more than it was.
fn encoded(path: &str, kept: &str) -> String {
    path.bytes().fold(String::new(), |mut text, byte| {
        let letter = char::from(byte);
        if letter.is_ascii_alphanumeric() || "-._~".contains(letter) || kept.contains(letter) {
            text.push(letter);
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut block = [0_u8; BLOCK];
    let short = if key.len() > BLOCK { Sha256::digest(key).to_vec() } else { key.to_vec() };
    block.iter_mut().zip(&short).for_each(|(to, from)| *to = *from);
    let mix = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(mix(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(mix(0x5c)).chain_update(inner).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a text does not fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second test case of RFC 4231.
    #[test]
    fn hmac_is_that_of_the_rfc() {
        let tag = hmac(b"Jefe", "what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&tag), expected);
    }

    #[test]
    fn paths_are_encoded_once_more() {
        assert_eq!(encoded("/model/a%3A0/converse", "/"), "/model/a%253A0/converse");
    }
}
