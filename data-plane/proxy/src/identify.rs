//! Second stage: who is calling.

use std::sync::Arc;

use http::{HeaderMap, header};
use sluicegate_model::secret::KeyHash;
use sluicegate_telemetry::clock;

use crate::{
    policy::{Caller, Holds, Keys, Known, Policy},
    refusal::Refusal,
};

/// The caller that the request's key names. `keys`: which hold, as far as that is known apart from the
/// policy.
///
/// # Errors
/// No key, several, a malformed header, an unknown, disabled, revoked or expired key.
pub fn caller(
    policy: &Policy,
    keys: Option<&Keys>,
    headers: &HeaderMap,
) -> Result<Arc<Caller>, Refusal> {
    let key = bearer(headers)?;
    let hash = KeyHash::of(key);
    usable(policy, keys, hash, Some(hash))
}

/// The caller with the key of this name, whose request was taken before.
///
/// # Errors
/// There is none any more, or its key is disabled, revoked or has expired.
pub fn by_name(policy: &Policy, keys: Option<&Keys>, key: &str) -> Result<Arc<Caller>, Refusal> {
    // Its secret was proven when the request was taken, and may be another by now.
    usable(policy, keys, policy.key_named(key).ok_or(Refusal::UnknownKey)?, None)
}

fn usable(
    policy: &Policy,
    keys: Option<&Keys>,
    hash: KeyHash,
    proven: Option<KeyHash>,
) -> Result<Arc<Caller>, Refusal> {
    let caller = policy.caller(hash).ok_or(Refusal::UnknownKey)?;
    if caller.disabled {
        return Err(Refusal::KeyDisabled);
    }
    let now_unix_ms = clock::unix_ms();
    if caller.expires_unix_ms.is_some_and(|expires| now_unix_ms >= expires) {
        return Err(Refusal::KeyExpired);
    }
    let (epoch, revision) = (&*policy.epoch, policy.revision);
    let known = Known { epoch, revision, is_stale: caller.is_stale };
    match keys.map_or(Holds::Yes, |keys| keys.holds(known, &caller.key, proven, now_unix_ms)) {
        Holds::Yes => Ok(caller.clone()),
        Holds::No => Err(Refusal::UnknownKey),
        Holds::Expired => Err(Refusal::KeyExpired),
    }
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
