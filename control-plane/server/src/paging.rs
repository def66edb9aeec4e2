//! Page tokens: opaque to callers, checked when they come back.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sluicegate_model::{ResourceRef, Violation, path::Path};

/// Bytes of messages on one page, at most, unless one alone is larger: clients take 4 MiB by default.
pub(crate) const PAGE_BYTES: usize = 2 << 20;

/// How many a page holds at most, from what was asked for.
///
/// # Errors
/// When more was asked for than a page may hold.
pub(crate) fn size(asked: u32, default: usize, max: usize) -> Result<usize, Violation> {
    match asked as usize {
        0 => Ok(default),
        asked if asked <= max => Ok(asked),
        _ => {
            let violation = Violation::new(Path::root().field("page_size"), "is too large");
            Err(violation.hint(format!("at most {max} fit on a page")))
        }
    }
}

/// The token for what comes after `last`, as of `revision`.
pub(crate) fn after_resource(last: &ResourceRef, revision: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("r{revision}:{}/{}", last.kind, last.name))
}

/// The resource that the page before ended with; `None` for the first page.
///
/// # Errors
/// When the token is not one of [`after_resource`].
pub(crate) fn last_resource(token: &str) -> Result<Option<ResourceRef>, Violation> {
    if token.is_empty() {
        return Ok(None);
    }
    let read = || {
        let text = decode(token)?;
        let (_, reference) = text.strip_prefix('r')?.split_once(':')?;
        let (kind, name) = reference.split_once('/')?;
        Some(ResourceRef::new(kind.parse().ok()?, name))
    };
    read().map(Some).ok_or_else(bad_token)
}

/// The token for deferred requests from this place on; empty without one.
pub(crate) fn from_place(place: Option<&str>) -> String {
    place.map(|place| URL_SAFE_NO_PAD.encode(format!("d{place}"))).unwrap_or_default()
}

/// The place that the page begins with; empty for the first page.
///
/// # Errors
/// When the token is not one of [`from_place`].
pub(crate) fn place(token: &str) -> Result<String, Violation> {
    if token.is_empty() {
        return Ok(String::new());
    }
    let read = || Some(decode(token)?.strip_prefix('d')?.to_owned());
    read().ok_or_else(bad_token)
}

/// The token for the change with this number and those before it.
pub(crate) fn from_change(sequence: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("h{sequence}"))
}

/// The number of the change that the page begins with; `None` for the first page.
///
/// # Errors
/// When the token is not one of [`from_change`].
pub(crate) fn first_change(token: &str) -> Result<Option<u64>, Violation> {
    if token.is_empty() {
        return Ok(None);
    }
    let read = || decode(token)?.strip_prefix('h')?.parse().ok();
    read().map(Some).ok_or_else(bad_token)
}

fn decode(token: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()
}

fn bad_token() -> Violation {
    Violation::new(Path::root().field("page_token"), "is not a page token of this call")
        .hint("leave it out to begin with the first page")
}

#[cfg(test)]
mod tests {
    use sluicegate_model::Kind;

    use super::*;

    #[test]
    fn tokens_come_back() {
        let reference = ResourceRef::new(Kind::Credential, "p/k:1");
        let token = after_resource(&reference, 7);
        assert_eq!(last_resource(&token), Ok(Some(reference)));
        assert_eq!(first_change(&from_change(12)), Ok(Some(12)));
        assert_eq!(last_resource(""), Ok(None));
        for bad in ["x", "!!", &from_change(1)] {
            assert!(last_resource(bad).is_err(), "{bad}");
        }
        assert!(first_change(&token).is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(size(0, 50, 500), Ok(50));
        assert_eq!(size(500, 50, 500), Ok(500));
        assert!(size(501, 50, 500).is_err());
    }
}
