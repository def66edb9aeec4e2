//! Kinds of resources and references to them.

use std::{fmt, str::FromStr};

use sluicegate_proto::resource::v1 as pb;

/// Every kind of resource, in the order in which one may refer to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Provider,
    Credential,
    Model,
    Tenant,
    ApiKey,
    Limit,
    Override,
    Force,
    Degradation,
    Access,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Provider,
        Self::Credential,
        Self::Model,
        Self::Tenant,
        Self::ApiKey,
        Self::Limit,
        Self::Override,
        Self::Force,
        Self::Degradation,
        Self::Access,
    ];

    /// `api_key`: in references and on the command line.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Credential => "credential",
            Self::Model => "model",
            Self::Tenant => "tenant",
            Self::ApiKey => "api_key",
            Self::Limit => "limit",
            Self::Override => "override",
            Self::Force => "force",
            Self::Degradation => "degradation",
            Self::Access => "access",
        }
    }

    /// `api_keys`: the list's name in files.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Provider => "providers",
            Self::Credential => "credentials",
            Self::Model => "models",
            Self::Tenant => "tenants",
            Self::ApiKey => "api_keys",
            Self::Limit => "limits",
            Self::Override => "overrides",
            Self::Force => "forces",
            Self::Degradation => "degradations",
            Self::Access => "access",
        }
    }

    /// Name of the message that describes it.
    pub fn message_name(self) -> &'static str {
        match self {
            Self::Provider => "sluicegate.resource.v1.Provider",
            Self::Credential => "sluicegate.resource.v1.Credential",
            Self::Model => "sluicegate.resource.v1.Model",
            Self::Tenant => "sluicegate.resource.v1.Tenant",
            Self::ApiKey => "sluicegate.resource.v1.ApiKey",
            Self::Limit => "sluicegate.resource.v1.Limit",
            Self::Override => "sluicegate.resource.v1.Override",
            Self::Force => "sluicegate.resource.v1.Force",
            Self::Degradation => "sluicegate.resource.v1.Degradation",
            Self::Access => "sluicegate.resource.v1.Access",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.singular())
    }
}

/// No kind has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown kind '{0}'; kinds are provider, credential, model, tenant, api_key, limit, override, force, degradation, access"
)]
pub struct UnknownKind(pub String);

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Takes singular and plural, with `-` or `_`.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let wanted = text.to_ascii_lowercase().replace('-', "_");
        Self::ALL
            .into_iter()
            .find(|kind| kind.singular() == wanted || kind.plural() == wanted)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// Names one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceRef {
    pub kind: Kind,
    pub name: String,
}

impl ResourceRef {
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// The wire form.
    pub fn to_proto(&self) -> pb::ResourceRef {
        pb::ResourceRef { kind: self.kind.singular().to_owned(), name: self.name.clone() }
    }
}

impl TryFrom<&pb::ResourceRef> for ResourceRef {
    type Error = UnknownKind;

    fn try_from(wire: &pb::ResourceRef) -> Result<Self, UnknownKind> {
        Ok(Self::new(wire.kind.parse()?, wire.name.clone()))
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// Longest name of a resource, in characters.
pub const MAX_NAME: usize = 128;

/// Longest public model name, in characters.
pub const MAX_MODEL_NAME: usize = 256;

/// Is it a legal resource name: `a-z A-Z 0-9 . _ - /`, not empty, not too long?
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte))
}

/// Is it a legal model name: printable, without white space, not empty, not too long? Characters
/// that show nothing or turn the text around count as not printable: two names that look alike
/// must be one.
pub fn is_model_name(text: &str) -> bool {
    (1..=MAX_MODEL_NAME).contains(&text.chars().count())
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || is_invisible(c))
}

/// Unicode's format characters, fillers and other characters without a shape of their own.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}'
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        // Zero width, direction marks; embeddings and overrides; joiners, isolates.
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The known name nearest to a wrong one, when one is near enough to be what was meant.
pub fn near_miss<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |text: &str| text.to_lowercase().replace(['-', '_', '.', ' '], "");
    let folded = fold(wrong);
    known
        .into_iter()
        .map(|name| {
            let distance = if fold(name) == folded {
                0
            } else {
                strsim::damerau_levenshtein(&fold(name), &folded)
            };
            (distance, name)
        })
        .filter(|(distance, name)| *distance <= 1 + name.chars().count() / 5)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_parse_in_every_spelling() {
        for kind in Kind::ALL {
            assert_eq!(kind.singular().parse(), Ok(kind));
            assert_eq!(kind.plural().parse(), Ok(kind));
        }
        assert_eq!("api-keys".parse(), Ok(Kind::ApiKey));
        assert!("route".parse::<Kind>().is_err());
    }

    #[test]
    fn model_names_show_everything_they_hold() {
        for good in ["gpt-4o", "org/model:free", "qwen2.5-72b@int8", "通义千问", "modèle", "модель"]
        {
            assert!(is_model_name(good), "{good}");
        }
        for c in [
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{202e}',
            '\u{2066}',
            '\u{2060}',
            '\u{feff}',
            '\u{ad}',
            '\u{61c}',
            '\u{3164}',
            '\u{e0041}',
            '\u{fe0f}',
            ' ',
            '\u{a0}',
            '\n',
            '\u{7f}',
        ] {
            assert!(!is_model_name(&format!("gpt{c}-4o")), "{c:?}");
        }
        assert!(!is_model_name(""));
    }

    #[test]
    fn near_misses_by_case_hyphen_and_slip() {
        let known = ["gpt-4o", "gpt-4o-mini", "qwen2.5-72b"];
        check("GPT-4o", Some("gpt-4o"));
        check("gpt4o", Some("gpt-4o"));
        check("qwen2-5-72b", Some("qwen2.5-72b"));
        check("gpt-4o-mimi", Some("gpt-4o-mini"));
        check("claude", None);

        #[track_caller]
        fn check(wrong: &str, expected: Option<&str>) {
            let known = ["gpt-4o", "gpt-4o-mini", "qwen2.5-72b"];
            assert_eq!(near_miss(wrong, known), expected);
        }
        assert_eq!(near_miss("", known), None);
    }
}
