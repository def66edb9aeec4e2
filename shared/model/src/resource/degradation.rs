//! What is taken away when an upstream suffers, and when.

mod parse;
mod tool;

use std::time::Duration;

use sluicegate_proto::resource::v1 as pb;

pub use tool::ToolPattern;

use super::NamePattern;
use crate::{
    expression::Expression,
    name::{Kind, ResourceRef},
    path::Path,
    violation::Violations,
};

/// What callers are told at the highest level, where nothing else is said.
pub const REPLY: &str = "This service is under maintenance. Please try again later.";

/// Levels with their conditions, for some models and callers.
#[derive(Debug, Clone, PartialEq)]
pub struct Degradation {
    pub name: String,
    /// Models it is for; empty: all.
    pub models: Vec<NamePattern>,
    /// Tenants it is for, with all below them; empty: all callers.
    pub tenants: Vec<String>,
    /// At least one, mildest first, each number once.
    pub steps: Vec<Step>,
    pub sources: Vec<MetricSource>,
    /// How long a timeout of a tool call counts.
    pub tool_timeout_window: Duration,
    pub manual: Option<ByHand>,
}

/// One level, when it begins and when it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub action: Action,
    /// `None`: only an operator sets it.
    pub conditions: Option<Conditions>,
}

/// When a level begins and ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    pub enter: Expression,
    /// `None`: when `enter` does not hold.
    pub leave: Option<Expression>,
    /// How long either must hold.
    pub held_for: Duration,
}

/// How much is taken away, the more the later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    #[default]
    Normal,
    /// Some tools are stripped by name.
    SomeTools,
    /// All tools are.
    AllTools,
    /// Nothing is answered but a maintenance reply.
    Maintenance,
}

/// What a level does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// At least one pattern.
    StripTools(Vec<ToolPattern>),
    StripAllTools,
    Reply(String),
}

/// A server whose metrics are read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetricSource {
    pub provider: String,
    /// On the provider's host; begins with a slash.
    pub path: String,
    pub interval: Duration,
}

/// What an operator has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByHand {
    pub level: Level,
    /// When it ends, in milliseconds since the Unix epoch.
    pub expires_unix_ms: u64,
    pub comment: String,
}

impl Level {
    /// All of them, mildest first.
    pub const ALL: [Self; 4] = [Self::Normal, Self::SomeTools, Self::AllTools, Self::Maintenance];

    /// From 0 to 3.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The level of a number.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.number() == number)
    }
}

impl Action {
    /// The level that does this.
    pub fn level(&self) -> Level {
        match self {
            Self::StripTools(_) => Level::SomeTools,
            Self::StripAllTools => Level::AllTools,
            Self::Reply(_) => Level::Maintenance,
        }
    }
}

impl Degradation {
    /// Is it for requests to this model, by its public name, of this caller? `tenants` is the
    /// caller's with all above it.
    pub fn concerns<'a>(&self, model: &str, tenants: impl IntoIterator<Item = &'a str>) -> bool {
        let model_fits =
            self.models.is_empty() || self.models.iter().any(|pattern| pattern.matches(model));
        let one_of_them = |tenant: &str| self.tenants.iter().any(|of| of == tenant);
        model_fits && (self.tenants.is_empty() || tenants.into_iter().any(one_of_them))
    }

    /// What it refers to, and where. Names that a pattern makes up are none.
    pub fn references(&self) -> Vec<(Path, ResourceRef)> {
        let root = Path::root();
        let mut found = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            let path = root.field("sources").index(index).field("provider");
            found.push((path, ResourceRef::new(Kind::Provider, &source.provider)));
        }
        for (index, tenant) in self.tenants.iter().enumerate() {
            let path = root.field("tenants").index(index);
            found.push((path, ResourceRef::new(Kind::Tenant, tenant)));
        }
        for (index, pattern) in self.models.iter().enumerate() {
            if let NamePattern::Exact(name) = pattern {
                let path = root.field("models").index(index);
                found.push((path, ResourceRef::new(Kind::Model, name)));
            }
        }
        found
    }

    /// What is done at a level. Of one that is not declared, what the nearest milder one does; `None`
    /// where nothing is taken away.
    pub fn action(&self, level: Level) -> Option<&Action> {
        let actions = self.steps.iter().rev().map(|step| &step.action);
        actions.into_iter().find(|action| action.level() <= level)
    }
}

pub(super) fn parse(spec: &pb::Degradation, found: &mut Violations) -> Option<Degradation> {
    parse::degradation(spec, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b4_whom_it_concerns_and_what_it_does() {
        let step = |action| Step { action, conditions: None };
        let global = Degradation {
            name: "d".into(),
            models: Vec::new(),
            tenants: Vec::new(),
            steps: vec![step(Action::StripAllTools), step(Action::Reply("r".into()))],
            sources: Vec::new(),
            tool_timeout_window: Duration::from_secs(60),
            manual: None,
        };
        assert!(global.concerns("m", []) && global.concerns("m", ["t"]));
        let narrow = Degradation {
            models: ["gpt-4o", "qwen*"].into_iter().filter_map(NamePattern::parse).collect(),
            tenants: vec!["org".into()],
            ..global.clone()
        };
        assert!(narrow.concerns("qwen-max", ["team", "org"]) && narrow.concerns("gpt-4o", ["org"]));
        assert!(!narrow.concerns("gpt-4o", ["team"]) && !narrow.concerns("gpt-4o", []));
        assert!(!narrow.concerns("gpt-4o-mini", ["org"]));
        assert_eq!(global.action(Level::Normal), None);
        assert_eq!(global.action(Level::SomeTools), None);
        assert_eq!(global.action(Level::AllTools), Some(&Action::StripAllTools));
        assert_eq!(global.action(Level::Maintenance), Some(&Action::Reply("r".into())));
        let mild = Degradation { steps: vec![step(Action::StripAllTools)], ..global };
        assert_eq!(mild.action(Level::Maintenance), Some(&Action::StripAllTools));
        for level in Level::ALL {
            assert_eq!(Level::of(level.number()), Some(level));
        }
        assert_eq!(Level::of(4), None);
    }
}
