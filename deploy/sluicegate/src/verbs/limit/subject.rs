//! Subjects on the command line, and the names of overrides for them.

use sluicegate_model::scope::{Part, said};
use sluicegate_proto::resource::v1::LimitScope;

use crate::{change::name_of, failure::Failure};

/// One part of a subject: `key=alice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    part: Part,
    value: String,
}

/// Reads `key=alice`.
pub(super) fn named(text: &str) -> Result<Named, String> {
    let parts = || Part::ALL.map(Part::name).join(", ");
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("write it as key=alice; parts are {}", parts()))?;
    let part = Part::named(name)
        .ok_or_else(|| format!("'{name}' is not a part; parts are {}", parts()))?;
    if value.is_empty() || value == "*" {
        return Err(format!("name one {name}; for all of them change the limit itself"));
    }
    Ok(Named { part, value: value.to_owned() })
}

/// The subject that the parts make.
///
/// # Errors
/// When a part is given twice.
pub(super) fn subject(all: &[Named]) -> Result<LimitScope, Failure> {
    let mut scope = LimitScope::default();
    for Named { part, value } in all {
        let field = part.of_mut(&mut scope);
        if !field.is_empty() {
            let part = part.name();
            return Err(Failure::usage(format!("--for names two {part}s; make two overrides")));
        }
        field.clone_from(value);
    }
    Ok(scope)
}

/// The name of an override that was given none: `key-rpm/key-alice`.
pub(super) fn name(limit: &str, subject: &LimitScope) -> String {
    let mut name = limit.to_owned();
    for (part, value) in said(subject) {
        name.push_str(&format!("/{}-{value}", part.name()));
    }
    name_of(&name)
}

#[cfg(test)]
mod tests {
    use sluicegate_model::name::{MAX_NAME, is_name};

    use super::*;

    fn scope(texts: &[&str]) -> LimitScope {
        subject(&texts.iter().map(|text| named(text).unwrap()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn subjects() {
        let both = scope(&["model=org/m:1", "key=alice"]);
        assert_eq!((both.key.as_str(), both.model.as_str()), ("alice", "org/m:1"));
        for bad in ["alice", "kye=alice", "key=", "key=*", ""] {
            assert!(named(bad).is_err(), "{bad}");
        }
        let twice = [named("key=a").unwrap(), named("key=b").unwrap()];
        assert!(subject(&twice).is_err());
    }

    #[test]
    fn names_are_legal_and_tell_subjects_apart() {
        assert_eq!(name("rpm", &scope(&["key=alice"])), "rpm/key-alice");
        assert_eq!(name("rpm", &scope(&["key=a", "tenant=t/u"])), "rpm/tenant-t/u/key-a");
        let odd = name("rpm", &scope(&["user=a b"]));
        assert!(odd.starts_with("rpm/user-a-b-") && is_name(&odd), "{odd}");
        assert_ne!(odd, name("rpm", &scope(&["user=a:b"])));
        let long = format!("user={}", "x".repeat(500));
        let long = name("rpm", &scope(&[&long]));
        assert!(is_name(&long) && long.len() == MAX_NAME, "{long}");
    }
}
