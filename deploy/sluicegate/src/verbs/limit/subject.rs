//! Subjects on the command line, and the names of overrides for them.

use sluicegate_model::{
    name::MAX_NAME,
    scope::{Part, said},
};
use sluicegate_proto::resource::v1::LimitScope;

use crate::failure::Failure;

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

/// The name of an override that was given none: `key-rpm/key-alice`. Where names cannot hold the
/// subject, a digest of it keeps two apart.
pub(super) fn name(limit: &str, subject: &LimitScope) -> String {
    let legal = |character: char| character.is_ascii_alphanumeric() || "._-/".contains(character);
    let mut name = limit.to_owned();
    for (part, value) in said(subject) {
        name.push_str(&format!("/{}-{value}", part.name()));
    }
    if name.chars().all(legal) && name.len() <= MAX_NAME {
        return name;
    }
    let digest = blake3::hash(name.as_bytes()).to_hex();
    let end = digest.get(..10).unwrap_or_default();
    let kept = MAX_NAME - 1 - end.len();
    let legible = name.chars().map(|c| if legal(c) { c } else { '-' });
    format!("{}-{end}", legible.take(kept).collect::<String>())
}

#[cfg(test)]
mod tests {
    use sluicegate_model::name::is_name;

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
