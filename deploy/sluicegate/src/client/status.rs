//! What an answer of the control plane means, in the user's words.

use std::error::Error;

use sluicegate_model::{ResourceRef, Violation, path::Path};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{connect::cause, grpc::NotGrpc};
use crate::{failure::Failure, output::clean};

/// The failure that a status stands for.
pub(super) fn failure(status: &Status, server: &str, token_from: &str) -> Failure {
    if expired(status) {
        return Failure::unreachable(format!(
            "the control plane at {server} did not answer in time (see --timeout-ms)"
        ));
    }
    if let Some(answer) = stranger(status) {
        return Failure::unreachable(format!(
            "{server} answers, but does not speak gRPC there ({answer}); is it the admin address \
             (default port 9180)?"
        ));
    }
    if let Some(text) = transport_fault(status) {
        return Failure::unreachable(format!(
            "the connection to {server} failed ({text}); is it the admin address (default \
             port 9180)?"
        ));
    }
    let details = status.get_error_details();
    let text = explain(status, &details);
    match status.code() {
        Code::Unauthenticated => Failure::unreachable(format!(
            "{server} does not accept the token from {token_from}: {text}"
        )),
        Code::PermissionDenied => Failure::unreachable(format!("not allowed: {text}")),
        Code::Unavailable => {
            Failure::unreachable(format!("the control plane at {server} is not available: {text}"))
        }
        Code::DeadlineExceeded | Code::Cancelled => Failure::unreachable(format!(
            "the control plane at {server} did not answer in time: {text}"
        )),
        Code::NotFound
        | Code::AlreadyExists
        | Code::Aborted
        | Code::FailedPrecondition
        | Code::OutOfRange => Failure::not_so(text),
        Code::InvalidArgument => {
            if details.has_bad_request_violations() {
                Failure::not_so(text)
            } else {
                Failure::refused(text)
            }
        }
        Code::Unimplemented => Failure::refused(format!(
            "the control plane at {server} does not know this call; is it an older build? ({text})"
        )),
        Code::Ok | Code::Unknown | Code::ResourceExhausted | Code::Internal | Code::DataLoss => {
            Failure::refused(text)
        }
    }
}

/// May the same call succeed a moment later: the control plane is away, or the connection broke?
pub(super) fn is_passing(status: &Status) -> bool {
    !expired(status)
        && !is_stranger(status)
        && (status.code() == Code::Unavailable || transport_fault(status).is_some())
}

/// Does somebody else answer there? Asking again does not help then.
pub(crate) fn is_stranger(status: &Status) -> bool {
    stranger(status).is_some()
}

/// Faults that the control plane found in a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Those that it named, field by field.
    pub(crate) named: Vec<Violation>,
    /// How many more there are.
    pub(crate) more: usize,
}

/// The faults that a status names; none when it is about something else.
pub(crate) fn faults(status: &Status) -> Faults {
    let mut faults = Faults::default();
    let Some(bad) = status.get_details_bad_request() else { return faults };
    for found in &bad.field_violations {
        match and_more(&found.description) {
            Some(more) if found.field.is_empty() => faults.more += more,
            _ => faults.named.push(violation(&found.field, &clean(&found.description))),
        }
    }
    faults
}

/// Reads `and 400 more`, which stands for what did not fit into the answer.
fn and_more(text: &str) -> Option<usize> {
    text.strip_prefix("and ")?.strip_suffix(" more")?.parse().ok()
}

/// Reads back the place that the control plane wrote: `provider/NAME: base_url`.
fn violation(field: &str, description: &str) -> Violation {
    let (subject, path) = field.split_once(": ").unwrap_or((field, ""));
    let reference = subject
        .split_once('/')
        .and_then(|(kind, name)| kind.parse().ok().map(|kind| ResourceRef::new(kind, name)));
    match reference {
        Some(reference) => Violation::new(Path::parse(path), description).of(&reference),
        None => Violation::new(Path::parse(field), description),
    }
}

/// Did our own clock end the call?
fn expired(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<tonic::TimeoutExpired>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// What somebody answered who speaks no gRPC.
fn stranger(status: &Status) -> Option<String> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(answer) = error.downcast_ref::<NotGrpc>() {
            return Some(answer.to_string());
        }
        source = error.source();
    }
    // What the first bytes of an HTTP/1 answer are in HTTP/2.
    transport_fault(status)
        .filter(|text| text.contains("frame with invalid size"))
        .map(|_| "HTTP/1 only".to_owned())
}

/// What happened below gRPC, when that is where it happened.
fn transport_fault(status: &Status) -> Option<String> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(transport) = error.downcast_ref::<tonic::transport::Error>() {
            return Some(cause(transport));
        }
        source = error.source();
    }
    None
}

/// The message with everything that its details add, one line each.
fn explain(status: &Status, details: &ErrorDetails) -> String {
    let mut lines = Vec::new();
    if let Some(info) = details.resource_info() {
        let missing = status.code() == Code::NotFound;
        let name = format!("{}/{}", info.resource_type, info.resource_name);
        let message = status.message();
        lines.push(match (missing, message.contains(&info.resource_name)) {
            (true, false) => format!("{name} does not exist"),
            (false, false) => format!("{name}: {message}"),
            (_, true) => message.to_owned(),
        });
        if !info.description.is_empty() && info.description != message {
            lines.push(info.description.clone());
        }
    } else {
        lines.push(status.message().to_owned());
    }
    if let Some(failure) = details.precondition_failure() {
        lines.extend(failure.violations.iter().map(|found| match and_more(&found.description) {
            Some(more) if found.subject.is_empty() => format!("... and {more} more"),
            _ => format!("{}: {}", found.subject, found.description),
        }));
    }
    let faults = faults(status);
    lines.extend(faults.named.iter().map(ToString::to_string));
    lines.extend((faults.more > 0).then(|| format!("... and {} more", faults.more)));
    if let Some(quota) = details.quota_failure() {
        lines.extend(
            quota
                .violations
                .iter()
                .map(|found| format!("{}: {}", found.subject, found.description)),
        );
    }
    if let Some(info) = details.error_info() {
        let mut facts: Vec<_> =
            info.metadata.iter().map(|(name, value)| format!("{name} {value}")).collect();
        facts.sort();
        lines.extend((!facts.is_empty()).then(|| facts.join(", ")));
    }
    if let Some(delay) = details.retry_info().and_then(|retry| retry.retry_delay) {
        lines.push(format!("try again in {} ms", delay.as_millis()));
    }
    // The message may say what a detail repeats for programs.
    let said = lines.first().cloned().unwrap_or_default();
    let mut first = true;
    lines.retain(|line| {
        let new = std::mem::take(&mut first) || !said.contains(line.as_str());
        new && !line.is_empty()
    });
    if lines.is_empty() {
        // No words at all: the code's own description is better than nothing.
        lines.push(status.code().description().to_lowercase());
    }
    let lines: Vec<_> = lines.iter().map(|line| clean(line)).collect();
    lines.join("\n  ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sluicegate_model::Kind;
    use tonic_types::{FieldViolation, PreconditionViolation};

    use super::*;
    use crate::failure::Exit;

    const SERVER: &str = "http://cp";

    #[track_caller]
    fn check(status: &Status, exit: Exit, parts: &[&str]) {
        let failure = failure(status, SERVER, "SLUICEGATE_ADMIN_TOKEN");
        assert_eq!(failure.exit, exit, "{failure}");
        for part in parts {
            assert!(failure.message.contains(part), "{failure}\n  lacks: {part}");
        }
    }

    #[test]
    fn codes_choose_exit_codes() {
        check(
            &Status::unavailable("store is away"),
            Exit::Unreachable,
            &["http://cp", "store is away"],
        );
        check(
            &Status::unauthenticated("unknown token"),
            Exit::Unreachable,
            &["token from SLUICEGATE_ADMIN_TOKEN", "unknown token"],
        );
        check(
            &Status::permission_denied("read only"),
            Exit::Unreachable,
            &["not allowed: read only"],
        );
        check(&Status::deadline_exceeded("no answer within 5 ms"), Exit::Unreachable, &["in time"]);
        check(&Status::not_found("no such revision"), Exit::NotSo, &["no such revision"]);
        check(&Status::aborted("changed meanwhile"), Exit::NotSo, &["changed meanwhile"]);
        check(&Status::internal("x"), Exit::Refused, &["x"]);
        check(&Status::unimplemented(""), Exit::Refused, &["older build"]);
        check(&Status::invalid_argument("too many changes"), Exit::Refused, &["too many"]);
        check(&Status::resource_exhausted(""), Exit::Refused, &["exhausted"]);
    }

    #[test]
    fn details_are_told() {
        let details = ErrorDetails::with_resource_info("provider", "p", "", "did you mean 'q'?");
        check(
            &Status::with_error_details(Code::NotFound, "not found", details),
            Exit::NotSo,
            &["provider/p does not exist", "did you mean 'q'?"],
        );
        let moved =
            PreconditionViolation::new("VERSION", "model/m", "expected version 3, it has 7");
        let details = ErrorDetails::with_precondition_failure(vec![moved]);
        check(
            &Status::with_error_details(Code::FailedPrecondition, "a version moved", details),
            Exit::NotSo,
            &["a version moved", "model/m: expected version 3, it has 7"],
        );
        let bad = FieldViolation::new("provider/p: base_url", "not a URL; use https");
        let details = ErrorDetails::with_bad_request(vec![bad]);
        check(
            &Status::with_error_details(Code::InvalidArgument, "1 fault", details),
            Exit::NotSo,
            &["provider/p: base_url: not a URL; use https"],
        );
        let found =
            PreconditionViolation::new("VERSION", "api_key/k", "must not exist, but it does");
        let details = ErrorDetails::with_precondition_failure(vec![found]);
        let said = "api_key/k: must not exist, but it does";
        let status = Status::with_error_details(Code::FailedPrecondition, said, details);
        assert_eq!(failure(&status, SERVER, "x"), Failure::not_so(said), "said once");
        let ahead = HashMap::from([("head".to_owned(), "5".to_owned())]);
        let details = ErrorDetails::with_error_info("REVISION_AHEAD", "sluicegate", ahead);
        check(
            &Status::with_error_details(Code::OutOfRange, "revision 9 is not there yet", details),
            Exit::NotSo,
            &["revision 9 is not there yet", "head 5"],
        );
        let facts = HashMap::from([("limit".to_owned(), "10".to_owned())]);
        let details = ErrorDetails::with_error_info("TOO_MANY", "sluicegate", facts);
        check(
            &Status::with_error_details(Code::ResourceExhausted, "too many watches", details),
            Exit::Refused,
            &["too many watches", "limit 10"],
        );
    }

    #[test]
    fn places_read_back() {
        check("provider/p: base_url", Some((Kind::Provider, "p")), "base_url");
        check("credential/p/k1: secret.env", Some((Kind::Credential, "p/k1")), "secret.env");
        check(
            "model/org:m/x: targets[1].provider",
            Some((Kind::Model, "org:m/x")),
            "targets[1].provider",
        );
        check("tenant/t", Some((Kind::Tenant, "t")), "");
        check("to_revision", None, "to_revision");
        check("changes[0].put", None, "changes[0].put");

        #[track_caller]
        fn check(field: &str, subject: Option<(Kind, &str)>, path: &str) {
            let found = violation(field, "wrong");
            let expected = subject.map(|(kind, name)| ResourceRef::new(kind, name));
            assert_eq!(
                (found.subject.clone(), found.path.to_string()),
                (expected, path.to_owned())
            );
            assert_eq!(found.location(), field);
        }
    }

    #[test]
    fn control_characters_stay_out_of_the_terminal() {
        let status = Status::internal("a\u{1b}[2Jb");
        assert!(!failure(&status, SERVER, "x").message.contains('\u{1b}'));
    }
}
