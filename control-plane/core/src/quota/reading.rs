//! Checking what a data plane asks for.

use sluicegate_model::{
    Violation, Violations,
    name::MAX_NAME,
    path::Path,
    scope::{Subject, said},
};
use sluicegate_proto::quota::v1 as pb;

use super::fault;

/// Operations in one request, at most.
const MAX_OPS: usize = 512;
/// Longest name of a data plane, in bytes, as on the policy stream.
const MAX_NODE: usize = 256;
/// Longest subject of a meter, in bytes of all its parts: callers have a say in some of them.
const MAX_SUBJECT: usize = 8 * 1024;

/// The subject of each operation.
///
/// # Errors
/// Every fault of the request.
pub(super) fn subjects(request: &pb::LeaseRequest) -> Result<Vec<Subject>, Violations> {
    let mut found = Violations::default();
    if request.node_id.is_empty() || request.node_id.len() > MAX_NODE {
        let path = Path::root().field("node_id");
        let hint = format!("use 1 to {MAX_NODE} bytes");
        found.0.push(Violation::new(path, "names no data plane").hint(hint));
    }
    if request.ops.len() > MAX_OPS {
        let what = format!("holds {} operations", request.ops.len());
        let hint = format!("send at most {MAX_OPS} at once");
        found.0.push(Violation::new(Path::root().field("ops"), what).hint(hint));
        return Err(found);
    }
    let mut subjects = Vec::with_capacity(request.ops.len());
    for (index, op) in request.ops.iter().enumerate() {
        let mut add = |field: &str, what: &str, hint: &str| {
            found.0.push(fault(index, field, what, hint));
        };
        let Some(meter) = &op.meter else {
            add("meter", "is missing", "name the limit and the subject");
            continue;
        };
        if meter.limit.is_empty() || meter.limit.len() > MAX_NAME {
            add("meter.limit", "names no limit", &format!("use 1 to {MAX_NAME} bytes"));
        }
        let subject = meter.subject.clone().unwrap_or_default();
        let size: usize = said(&subject).map(|(_, value)| value.len()).sum();
        if size == 0 {
            add("meter.subject", "names nobody", "give the parts of the limit's scope");
        } else if size > MAX_SUBJECT {
            add("meter.subject", "is too long", &format!("use at most {MAX_SUBJECT} bytes"));
        }
        subjects.push(Subject::from_proto(&subject));
    }
    found.or(subjects)
}
