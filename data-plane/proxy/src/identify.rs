//! Second stage: who is calling.

use std::sync::Arc;

use http::{HeaderMap, header};
use sluicegate_model::secret::KeyHash;
use sluicegate_telemetry::clock;

use crate::{
    policy::{Caller, Policy},
    refusal::Refusal,
};

/// The caller that the request's key names.
///
/// # Errors
/// No key, several, a malformed header, an unknown, disabled or expired key.
pub fn caller(policy: &Policy, headers: &HeaderMap) -> Result<Arc<Caller>, Refusal> {
    let key = bearer(headers)?;
    usable(policy.caller(KeyHash::of(key)))
}

/// The caller with the key of this name, whose request was taken before.
///
/// # Errors
/// There is none any more, or its key is disabled or has expired.
pub fn by_name(policy: &Policy, key: &str) -> Result<Arc<Caller>, Refusal> {
    usable(policy.caller_named(key))
}

fn usable(caller: Option<&Arc<Caller>>) -> Result<Arc<Caller>, Refusal> {
    let caller = caller.ok_or(Refusal::UnknownKey)?;
    if caller.disabled {
        return Err(Refusal::KeyDisabled);
    }
    if caller.expires_unix_ms.is_some_and(|expires| clock::unix_ms() >= expires) {
        return Err(Refusal::KeyExpired);
    }
    Ok(caller.clone())
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750; the scheme's case does not matter).
fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::MissingKey)?;
    if values.next().is_some() {
        return Err(Refusal::BadAuthorization("several Authorization headers were sent"));
    }
    let malformed = Refusal::BadAuthorization("the Authorization header must be 'Bearer KEY'");
    let Ok(text) = value.to_str() else { return Err(malformed) };
    let Some((scheme, token)) = text.trim().split_once(' ') else { return Err(malformed) };
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer")
        || token.is_empty()
        || token.contains([' ', ',', '\t'])
    {
        return Err(malformed);
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_the_header() {
        check(&["Bearer T"], Some("T"));
        check(&["bearer T"], Some("T"));
        check(&["BEARER   T "], Some("T"));
        check(&["Bearer"], None);
        check(&["Bearer "], None);
        check(&["Basic T"], None);
        check(&["T"], None);
        check(&["Bearer T, Bearer X"], None);
        check(&["Bearer T", "Bearer X"], None);
        check(&[], None);

        #[track_caller]
        fn check(values: &[&str], expected: Option<&str>) {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(bearer(&headers).ok(), expected, "{values:?}");
        }
    }
}
