//! Whom a limit is for, and the one subject that a counter is for.

use std::fmt::{self, Write};

use sluicegate_proto::resource::v1 as pb;

/// A thing that limits can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Tenant,
    Key,
    User,
    Model,
    Provider,
    Credential,
    Address,
    App,
}

impl Part {
    /// All parts, in the order in which subjects are written.
    pub const ALL: [Self; 8] = [
        Self::Tenant,
        Self::Key,
        Self::User,
        Self::Model,
        Self::Provider,
        Self::Credential,
        Self::Address,
        Self::App,
    ];

    /// As files name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Key => "key",
            Self::User => "user",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Credential => "credential",
            Self::Address => "address",
            Self::App => "app",
        }
    }

    /// Is it only known once an attempt has been chosen?
    pub fn of_attempt(self) -> bool {
        matches!(self, Self::Provider | Self::Credential)
    }

    /// The part that files name so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// What the wire form says of it; "" is nothing.
    pub fn of(self, wire: &pb::LimitScope) -> &str {
        match self {
            Self::Tenant => &wire.tenant,
            Self::Key => &wire.key,
            Self::User => &wire.user,
            Self::Model => &wire.model,
            Self::Provider => &wire.provider,
            Self::Credential => &wire.credential,
            Self::Address => &wire.address,
            Self::App => &wire.app,
        }
    }

    /// Where the wire form says it.
    pub fn of_mut(self, wire: &mut pb::LimitScope) -> &mut String {
        match self {
            Self::Tenant => &mut wire.tenant,
            Self::Key => &mut wire.key,
            Self::User => &mut wire.user,
            Self::Model => &mut wire.model,
            Self::Provider => &mut wire.provider,
            Self::Credential => &mut wire.credential,
            Self::Address => &mut wire.address,
            Self::App => &mut wire.app,
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// The parts of which the wire form says something.
pub fn said(wire: &pb::LimitScope) -> impl Iterator<Item = (Part, &str)> {
    let all = Part::ALL.into_iter().map(|part| (part, part.of(wire)));
    all.filter(|(_, value)| !value.is_empty())
}

/// What a part of a scope asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Everyone, each counted apart.
    Each,
    One(String),
}

/// Selectors by part; parts that are absent do not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope([Option<Selector>; Part::ALL.len()]);

impl Scope {
    /// Reads the wire form; "" is absent, "*" is [`Selector::Each`].
    #[must_use]
    pub fn from_proto(wire: &pb::LimitScope) -> Self {
        Self(Part::ALL.map(|part| match part.of(wire) {
            "" => None,
            "*" => Some(Selector::Each),
            one => Some(Selector::One(one.to_owned())),
        }))
    }

    /// Does it select by nothing at all?
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// What it says of one part.
    pub fn get(&self, part: Part) -> Option<&Selector> {
        self.0.get(part.index())?.as_ref()
    }

    /// The parts that it says something of.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &Selector)> {
        Part::ALL.into_iter().filter_map(|part| Some((part, self.get(part)?)))
    }

    /// Must an attempt have been chosen before it can be asked?
    pub fn of_attempt(&self) -> bool {
        self.parts().any(|(part, _)| part.of_attempt())
    }

    /// The subject that it counts for a request with these values, if it is for that request.
    /// `value` gives the values of one part, nearest first; a named selector takes any of them, and
    /// each counts apart by the first.
    pub fn subject<'a, I>(&self, value: impl Fn(Part) -> I) -> Option<Subject>
    where
        I: Iterator<Item = &'a str>,
    {
        let mut subject = Subject::default();
        for (part, selector) in self.parts() {
            let mut values = value(part);
            let counted = match selector {
                Selector::Each => values.next().filter(|value| !value.is_empty())?,
                Selector::One(one) => values.find(|value| value == one)?,
            };
            subject.set(part, counted.to_owned());
        }
        Some(subject)
    }

    /// Is a subject among those that it names? Parts that are absent take any.
    pub fn covers(&self, subject: &Subject) -> bool {
        self.parts().all(|(part, selector)| match (selector, subject.get(part)) {
            (Selector::Each, Some(_)) => true,
            (Selector::One(one), Some(value)) => one == value,
            (_, None) => false,
        })
    }
}

/// One value for each part of a scope: what one counter is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject([Option<String>; Part::ALL.len()]);

impl Subject {
    /// The value of one part.
    pub fn get(&self, part: Part) -> Option<&str> {
        self.0.get(part.index())?.as_deref()
    }

    /// Reads what [`Subject`]'s display writes; `None` when it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut subject = Self::default();
        for pair in text.split(',') {
            let (name, value) = pair.split_once('=')?;
            subject.set(Part::named(name)?, unescaped(value));
        }
        Some(subject)
    }

    fn set(&mut self, part: Part, value: String) {
        if let Some(slot) = self.0.get_mut(part.index()) {
            *slot = Some(value);
        }
    }

    /// Reads the wire form; "" is absent.
    #[must_use]
    pub fn from_proto(wire: &pb::LimitScope) -> Self {
        let mut subject = Self::default();
        said(wire).for_each(|(part, value)| subject.set(part, value.to_owned()));
        subject
    }

    /// The wire form.
    #[must_use]
    pub fn to_proto(&self) -> pb::LimitScope {
        let mut wire = pb::LimitScope::default();
        for part in Part::ALL {
            part.of_mut(&mut wire).push_str(self.get(part).unwrap_or_default());
        }
        wire
    }
}

/// `key=alice,model=m`. Commas, equals signs and percent signs within values are written as in URLs,
/// so that two subjects never look alike.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for part in Part::ALL {
            let Some(value) = self.get(part) else { continue };
            if !std::mem::take(&mut first) {
                f.write_char(',')?;
            }
            write!(f, "{}=", part.name())?;
            for character in value.chars() {
                match character {
                    ',' | '=' | '%' | '|' => write!(f, "%{:02X}", u32::from(character))?,
                    _ => f.write_char(character)?,
                }
            }
        }
        Ok(())
    }
}

/// Undoes what is escaped when a subject is written.
fn unescaped(text: &str) -> String {
    let escapes = [("%2C", ","), ("%3D", "="), ("%7C", "|"), ("%25", "%")];
    // The percent sign comes last: what it makes must not be read again.
    escapes.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(tenant: &str, key: &str) -> Scope {
        Scope::from_proto(&pb::LimitScope {
            tenant: tenant.into(),
            key: key.into(),
            ..pb::LimitScope::default()
        })
    }

    fn subject(scope: &Scope, tenants: &[&'static str], key: &'static str) -> Option<String> {
        let values = |part| match part {
            Part::Tenant => tenants.to_vec(),
            Part::Key => vec![key],
            _ => Vec::new(),
        };
        scope.subject(|part| values(part).into_iter()).map(|subject| subject.to_string())
    }

    #[test]
    fn b3_what_a_scope_counts() {
        let chain = ["team", "org"];
        assert_eq!(subject(&scope("*", ""), &chain, "k").as_deref(), Some("tenant=team"));
        assert_eq!(subject(&scope("org", ""), &chain, "k").as_deref(), Some("tenant=org"));
        assert_eq!(subject(&scope("other", ""), &chain, "k"), None);
        assert_eq!(subject(&scope("org", "*"), &chain, "k").as_deref(), Some("tenant=org,key=k"));
        assert_eq!(subject(&scope("*", "*"), &[], "k"), None, "it has no tenant");
    }

    #[test]
    fn subjects_never_look_alike() {
        let one = subject(&scope("*", "*"), &["a,key=b"], "c").unwrap();
        let other = subject(&scope("*", "*"), &["a"], "b,key=c").unwrap();
        assert_ne!(one, other);
        assert_eq!(one, "tenant=a%2Ckey%3Db,key=c");
        let again = Subject::parse(&one).unwrap();
        assert_eq!((again.get(Part::Tenant), again.get(Part::Key)), (Some("a,key=b"), Some("c")));
        assert_eq!(Subject::parse("tenant"), None);
    }

    #[test]
    fn an_override_covers_what_it_names() {
        let subject = scope("*", "*").subject(|part| {
            let value = match part {
                Part::Tenant => Some("t"),
                Part::Key => Some("k"),
                _ => None,
            };
            value.into_iter()
        });
        let subject = subject.unwrap();
        assert!(scope("", "k").covers(&subject) && scope("t", "k").covers(&subject));
        assert!(!scope("", "x").covers(&subject) && !scope("x", "k").covers(&subject));
    }
}
