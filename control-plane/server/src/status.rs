//! The one place that turns errors into gRPC statuses, with details that programs can read.

use std::{collections::HashMap, time::Duration};

use sluicegate_control_core::CoreError;
use sluicegate_model::{Violation, Violations};
use sluicegate_store::{StoreError, deferred::DeferredError};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt};

const DOMAIN: &str = "sluicegate";
/// Details travel in a header, and common clients take headers of 16 KiB in all.
const MAX_DETAILS: usize = 6 * 1024;
/// Longest text of one detail, in bytes.
const MAX_TEXT: usize = 1024;
/// When to try again after the store was away.
const RETRY: Duration = Duration::from_millis(500);
/// When to try again after there was no room.
const ROOM: Duration = Duration::from_secs(10);

/// The status for an error.
pub(crate) fn status(error: CoreError) -> Status {
    let message = capped(&error.to_string());
    match error {
        CoreError::Invalid(violations) => invalid(&violations),
        CoreError::Conflict(moved) => {
            let violations = moved.iter().map(|moved| {
                let subject = moved.reference.to_string();
                PreconditionViolation::new("VERSION", subject, moved.to_string())
            });
            let cost = |one: &PreconditionViolation| one.subject.len() + one.description.len();
            let (mut violations, left) = fitting(violations, cost);
            if left > 0 {
                let more = format!("and {left} more");
                violations.push(PreconditionViolation::new("VERSION", "", more));
            }
            let details = ErrorDetails::with_precondition_failure(violations);
            Status::with_error_details(Code::FailedPrecondition, message, details)
        }
        CoreError::NotFound { reference, near } => {
            let kind = reference.kind.singular();
            let hint = near.map(|near| format!("did you mean '{near}'?")).unwrap_or_default();
            let details = ErrorDetails::with_resource_info(kind, reference.name, "", hint);
            Status::with_error_details(Code::NotFound, message, details)
        }
        CoreError::IdempotencyKeyReused => {
            reason(Code::FailedPrecondition, message, "IDEMPOTENCY_KEY_REUSED", &[])
        }
        CoreError::HistoryTooShort { asked, oldest } => {
            let facts = [("asked", asked), ("oldest", oldest)];
            reason(Code::OutOfRange, message, "HISTORY_TOO_SHORT", &facts)
        }
        CoreError::RevisionAhead { asked, head } => {
            let facts = [("asked", asked), ("head", head)];
            reason(Code::OutOfRange, message, "REVISION_AHEAD", &facts)
        }
        CoreError::UnknownRequest { id } => {
            let details = ErrorDetails::with_resource_info("deferred", id, "", "");
            Status::with_error_details(Code::NotFound, message, details)
        }
        CoreError::Deferred(
            ref error @ (DeferredError::Full { bound, limit }
            | DeferredError::ShareFull { bound, limit }),
        ) => {
            let is_share = matches!(error, DeferredError::ShareFull { .. });
            let code = if is_share { "DEFERRED_SHARE_FULL" } else { "DEFERRED_FULL" };
            let mut details = ErrorDetails::with_retry_info(Some(ROOM));
            let facts = [("bound", bound.name().to_owned()), ("limit", limit.to_string())];
            let facts = facts.map(|(name, value)| (name.to_owned(), value));
            details.set_error_info(code, DOMAIN, HashMap::from(facts));
            Status::with_error_details(Code::ResourceExhausted, message, details)
        }
        CoreError::Deferred(DeferredError::Store(
            StoreError::TooLarge { actual, limit, .. } | StoreError::TooMany { actual, limit, .. },
        )) => {
            let facts = [("actual", actual as u64), ("limit", limit as u64)];
            reason(Code::InvalidArgument, message, "DEFERRED_TOO_LARGE", &facts)
        }
        CoreError::Contended { .. } => retryable(Code::Aborted, message, "CONTENDED"),
        CoreError::Store(StoreError::Unavailable { .. }) | CoreError::StoreAway { .. } => {
            retryable(Code::Unavailable, message, "STORE_UNAVAILABLE")
        }
        CoreError::Store(
            StoreError::TooLarge { actual, limit, .. } | StoreError::TooMany { actual, limit, .. },
        ) => {
            let facts = [("actual", actual as u64), ("limit", limit as u64)];
            let message = format!("{message}; make the change in several smaller ones");
            reason(Code::InvalidArgument, message, "CHANGE_TOO_LARGE", &facts)
        }
        CoreError::Store(
            StoreError::Refused { .. } | StoreError::Misconfigured { .. } | StoreError::File { .. },
        )
        | CoreError::Deferred(DeferredError::Store(_)) => {
            reason(Code::Internal, message, "STORE_REFUSED", &[])
        }
        CoreError::Corrupt { .. } => reason(Code::DataLoss, message, "STORE_CORRUPT", &[]),
        CoreError::BadToken { .. }
        | CoreError::ForeignSealKey
        | CoreError::Seal(_)
        | CoreError::NoRandomness(_) => reason(Code::Internal, message, "INTERNAL", &[]),
    }
}

/// The status for one fault of a request.
pub(crate) fn fault(violation: Violation) -> Status {
    invalid(&violation.into())
}

/// The status for faults of a request: as many as fit, and how many there are.
pub(crate) fn invalid(violations: &Violations) -> Status {
    let count = violations.0.len();
    let message = if count == 1 {
        "the request has a fault".to_owned()
    } else {
        format!("the request has {count} faults")
    };
    let fields = violations.0.iter().map(|violation| {
        FieldViolation::new(capped(&violation.location()), capped(&violation.text()))
    });
    let cost = |field: &FieldViolation| field.field.len() + field.description.len();
    let (mut fields, left) = fitting(fields, cost);
    if left > 0 {
        fields.push(FieldViolation::new("", format!("and {left} more")));
    }
    let details = ErrorDetails::with_bad_request(fields);
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// The status for a token that is missing or wrong.
pub(crate) fn unauthenticated(message: &str) -> Status {
    reason(Code::Unauthenticated, message.to_owned(), "UNAUTHENTICATED", &[])
}

/// The status for streams that end because this replica does.
pub(crate) fn stopping() -> Status {
    retryable(Code::Unavailable, "this control plane is stopping".to_owned(), "STOPPING")
}

/// The status for a data plane that is one of too many at one time.
pub(crate) fn come_back(after: Duration) -> Status {
    let message = "too many data planes come at one time".to_owned();
    let mut details = ErrorDetails::with_retry_info(Some(after));
    details.set_error_info("TOO_MANY_ARRIVALS", DOMAIN, HashMap::new());
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

/// The status for what only the replica does that works on degradations.
pub(crate) fn not_the_leader() -> Status {
    let message = "another control plane works on degradations";
    retryable(Code::Unavailable, message.to_owned(), "NOT_THE_LEADER")
}

/// The status for a probe where nobody can make its calls.
pub(crate) fn no_prober() -> Status {
    let message = "this control plane was built without the calls of probes";
    reason(Code::Unimplemented, message.to_owned(), "NO_PROBER", &[])
}

/// The status for deferred requests where nothing can keep them.
pub(crate) fn no_deferred() -> Status {
    let message = "this control plane has no store for deferred requests";
    reason(Code::Unimplemented, message.to_owned(), "NO_DEFERRED", &[])
}

/// The status for a second probe at once.
pub(crate) fn probing() -> Status {
    let message = "another probe is running; wait for its end and try again";
    reason(Code::ResourceExhausted, message.to_owned(), "PROBE_RUNNING", &[])
}

/// The status for a provider that cannot be called by this build.
pub(crate) fn cannot_probe(why: &str) -> Status {
    reason(Code::FailedPrecondition, capped(why), "CANNOT_PROBE", &[])
}

/// The status for a probe that did not end in time.
pub(crate) fn probe_overdue(limit: Duration) -> Status {
    let message = format!("the probe did not end within {} s", limit.as_secs());
    reason(Code::DeadlineExceeded, message, "PROBE_OVERDUE", &[])
}

fn reason(code: Code, message: String, reason: &str, facts: &[(&str, u64)]) -> Status {
    let facts: HashMap<_, _> =
        facts.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, facts))
}

fn retryable(code: Code, message: String, reason: &str) -> Status {
    let mut details = ErrorDetails::with_retry_info(Some(RETRY));
    details.set_error_info(reason, DOMAIN, HashMap::new());
    Status::with_error_details(code, message, details)
}

/// Those that fit into a header, and how many do not.
fn fitting<T>(
    all: impl ExactSizeIterator<Item = T>,
    cost: impl Fn(&T) -> usize,
) -> (Vec<T>, usize) {
    let count = all.len();
    let mut size = 0;
    let fits = |one: &T| {
        size += cost(one) + 16;
        size <= MAX_DETAILS
    };
    let fitting: Vec<_> = all.take_while(fits).collect();
    let left = count - fitting.len();
    (fitting, left)
}

/// At most [`MAX_TEXT`] bytes of a text.
fn capped(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    match text.get(..end) {
        Some(start) if end < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_control_core::Moved;
    use sluicegate_model::{Kind, ResourceRef, path::Path};
    use sluicegate_store::deferred::Bound;

    use super::*;

    #[test]
    fn faults_name_their_fields() {
        let reference = ResourceRef::new(Kind::Provider, "p");
        let violation = Violation::new(Path::parse("base_url"), "is no URL").hint("use https");
        let status = status(CoreError::Invalid(violation.of(&reference).into()));
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_details_bad_request().unwrap();
        let [found] = details.field_violations.as_slice() else { panic!("{details:?}") };
        assert_eq!(found.field, "provider/p: base_url");
        assert_eq!(found.description, "is no URL; use https");
    }

    #[test]
    fn many_faults_still_fit_into_a_header() {
        let violation = |n| Violation::new(Path::parse("x"), format!("{n} {}", "y".repeat(200)));
        let status = invalid(&Violations((0..500).map(violation).collect()));
        assert_eq!(status.message(), "the request has 500 faults");
        assert!(status.details().len() < 8 * 1024);
        let details = status.get_details_bad_request().unwrap();
        let last = details.field_violations.last().unwrap();
        let told = details.field_violations.len() - 1;
        assert_eq!(last.description, format!("and {} more", 500 - told));
    }

    #[test]
    fn conflicts_name_both_versions() {
        let reference = ResourceRef::new(Kind::Model, "m");
        let status = status(CoreError::Conflict(vec![Moved { reference, expected: 3, actual: 7 }]));
        assert_eq!(status.code(), Code::FailedPrecondition);
        let details = status.get_details_precondition_failure().unwrap();
        let [found] = details.violations.as_slice() else { panic!("{details:?}") };
        assert_eq!(found.subject, "model/m");
        assert_eq!(found.description, "expected version 3, but it has 7");
    }

    #[test]
    fn b2_a_tenants_share_that_is_full_is_told_apart() {
        let error = DeferredError::ShareFull { bound: Bound::Jobs, limit: 9 };
        let status = status(CoreError::Deferred(error));
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("of this tenant"), "{}", status.message());
        assert_eq!(status.get_details_error_info().unwrap().reason, "DEFERRED_SHARE_FULL");
    }

    #[test]
    fn b2_a_full_queue_names_its_bound() {
        let error = DeferredError::Full { bound: Bound::QueueJobs, limit: 7 };
        let status = status(CoreError::Deferred(error));
        assert_eq!(status.code(), Code::ResourceExhausted);
        let info = status.get_details_error_info().unwrap();
        assert_eq!((&*info.reason, &*info.metadata["limit"]), ("DEFERRED_FULL", "7"));
        assert_eq!(info.metadata["bound"], "jobs in the queue");
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(ROOM));
    }

    #[test]
    fn an_absent_store_says_when_to_try_again() {
        let error = StoreError::Unavailable { store: "etcd", reason: "no leader".into() };
        let status = status(CoreError::Store(error));
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(RETRY));
        assert_eq!(status.get_details_error_info().unwrap().reason, "STORE_UNAVAILABLE");
    }
}
