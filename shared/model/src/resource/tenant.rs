//! Groups of callers.

use sluicegate_proto::resource::v1 as pb;

/// A group of callers, below another or on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    pub name: String,
    /// The tenant above.
    pub parent: Option<String>,
    /// Share of its requests among those that wait.
    pub weight: u32,
    pub priority: Priority,
}

/// Which requests go first when not all can, and which are shed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    Critical,
    Interactive,
    #[default]
    Default,
    Batch,
}

impl Priority {
    /// All, the first to go first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::Interactive, Self::Default, Self::Batch];

    /// Name in files, headers and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Interactive => "interactive",
            Self::Default => "default",
            Self::Batch => "batch",
        }
    }

    /// The priority of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.name() == name)
    }
}

pub(super) fn parse(spec: &pb::Tenant) -> Tenant {
    Tenant {
        name: spec.name.clone(),
        parent: (!spec.parent.is_empty()).then(|| spec.parent.clone()),
        weight: spec.weight.unwrap_or(1),
        priority: Priority::parse(&spec.priority).unwrap_or_default(),
    }
}
