//! Headers of ours by which callers say how they want to be served, checked before anything is done.

use http::{HeaderMap, HeaderValue};
use sluicegate_model::resource::Priority;

use crate::{
    deferred::DEFER,
    pipeline::{FILL_USAGE, PRIORITY},
    refusal::{DEADLINE, Refusal},
};

/// A header, what it takes, and whether a value is that.
type Rule = (&'static str, &'static str, fn(&str) -> bool);

const RULES: [Rule; 4] = [
    (DEADLINE, "a number of milliseconds", |value| value.parse::<u64>().is_ok()),
    (PRIORITY, "critical, interactive, default or batch", |value| Priority::parse(value).is_some()),
    (DEFER, "true or false", is_flag),
    (FILL_USAGE, "true or false", is_flag),
];

fn is_flag(value: &str) -> bool {
    matches!(value, "true" | "false")
}

/// Refuses what is not understood: a caller that misspelt a wish must not find out by what is done.
///
/// # Errors
/// The header, and what it takes.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Refusal> {
    for (name, takes, is_sound) in RULES {
        let mut values = headers.get_all(name).iter();
        let sound = |value: &HeaderValue| value.to_str().is_ok_and(is_sound);
        if !values.next().is_none_or(sound) || values.next().is_some() {
            return Err(Refusal::BadHeader { name, takes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn b6_wishes_that_are_not_understood_are_refused_by_name() {
        let check = |sent: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                let (name, value) =
                    (HeaderName::from_static(name), HeaderValue::from_static(value));
                headers.append(name, value);
            }
            match super::check(&headers) {
                Err(Refusal::BadHeader { name, .. }) => Some(name),
                _ => None,
            }
        };
        assert_eq!(check(&[]), None);
        assert_eq!(check(&[(DEADLINE, "0"), (PRIORITY, "batch"), (DEFER, "true")]), None);
        for value in ["abc", "-1", "1.5", "", "99999999999999999999999"] {
            assert_eq!(check(&[(DEADLINE, value)]), Some(DEADLINE), "{value}");
        }
        assert_eq!(check(&[(DEADLINE, "5"), (DEADLINE, "6")]), Some(DEADLINE));
        assert_eq!(check(&[(PRIORITY, "Urgent")]), Some(PRIORITY));
        assert_eq!(check(&[(DEFER, "yes")]), Some(DEFER));
        assert_eq!(check(&[(FILL_USAGE, "1")]), Some(FILL_USAGE));
    }
}
