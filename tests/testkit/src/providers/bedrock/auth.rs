//! Who calls: an API key, or a signature made with the secret of an access key.

use super::signature::{Claim, expected};
use crate::providers::read::Refusal;
use crate::upstream::Call;

/// The secret of an access key.
pub fn secret(access_key_id: &str) -> String {
    format!("secret-of-{access_key_id}")
}

/// The API key, or the id of the access key that signed.
pub(super) fn key(call: &Call) -> Result<String, Refusal> {
    let Some(authorization) = call.header("authorization") else {
        return Err(Refusal::new(
            403,
            "MissingAuthenticationTokenException",
            "Missing Authentication Token",
        ));
    };
    if let Some(key) = call.bearer() {
        return Ok(key.to_owned());
    }
    let incomplete = |fault| Refusal::new(400, "IncompleteSignatureException", fault);
    let (id, claim, signature) = claim(call, authorization).map_err(incomplete)?;
    if signature != expected(call, &claim, &secret(id)) {
        return Err(Refusal::new(
            403,
            "InvalidSignatureException",
            "The request signature we calculated does not match the signature you provided. Check your \
             AWS Secret Access Key and signing method. Consult the service documentation for details.",
        ));
    }
    Ok(id.to_owned())
}

/// The access key id, what was signed, and the signature of an `AWS4-HMAC-SHA256` header.
fn claim<'a>(
    call: &'a Call,
    authorization: &'a str,
) -> Result<(&'a str, Claim<'a>, &'a str), String> {
    let parameters = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or("Unknown algorithm")?;
    let parameter = |name: &str| {
        let found = parameters.split(',').find_map(|pair| pair.trim().strip_prefix(name));
        found.ok_or(format!("Authorization header requires '{name}' parameter."))
    };
    let scope: Vec<&str> = parameter("Credential=")?.split('/').collect();
    let [id, date, region, "bedrock", "aws4_request"] = scope.as_slice() else {
        return Err("Credential must have the scope DATE/REGION/bedrock/aws4_request".into());
    };
    let moment = call.header("x-amz-date").ok_or("'X-Amz-Date' header is required")?;
    if id.is_empty() || region.is_empty() || date.len() != 8 || !moment.starts_with(date) {
        return Err("The date of the credential is not that of 'X-Amz-Date'".into());
    }
    let signed: Vec<&str> = parameter("SignedHeaders=")?.split(';').collect();
    if !signed.contains(&"host") || !signed.contains(&"x-amz-date") || !signed.is_sorted() {
        return Err("'host' and 'x-amz-date' must be signed, and names must be sorted".into());
    }
    Ok((*id, Claim { date, region, moment, signed }, parameter("Signature=")?))
}
