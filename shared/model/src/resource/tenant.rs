//! Groups of callers.

use sluicegate_proto::resource::v1 as pb;

/// A group of callers, below another or on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    pub name: String,
    /// The tenant above.
    pub parent: Option<String>,
}

pub(super) fn parse(spec: &pb::Tenant) -> Tenant {
    Tenant {
        name: spec.name.clone(),
        parent: (!spec.parent.is_empty()).then(|| spec.parent.clone()),
    }
}
