//! Who calls: an API key, or a signature that names an access key. A signature is read, not checked.

use crate::providers::read::Refusal;
use crate::upstream::Call;

/// The API key, or the id of the access key.
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
    signature(call, authorization)
        .map_err(|fault| Refusal::new(400, "IncompleteSignatureException", fault))
}

/// The access key id of an `AWS4-HMAC-SHA256` header that is whole.
fn signature(call: &Call, authorization: &str) -> Result<String, String> {
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
    if !signed.contains(&"host") || !signed.contains(&"x-amz-date") {
        return Err("'host' and 'x-amz-date' must be signed".into());
    }
    let signature = parameter("Signature=")?;
    if signature.len() != 64 || !signature.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err("Signature must be 64 digits".into());
    }
    Ok((*id).to_owned())
}
