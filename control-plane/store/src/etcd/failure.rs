//! What an error of the etcd client means for us.

use std::error::Error as StdError;

use etcd_client::Error;
use tonic::{Code, Status};

use crate::StoreError;

/// As the error of a store call.
pub(super) fn store_error(error: Error) -> StoreError {
    let reason = reason(&error);
    if is_final(&error) {
        StoreError::Refused { store: super::KIND, reason }
    } else {
        StoreError::Unavailable { store: super::KIND, reason }
    }
}

/// The part of the error that tells people something: what the server said, and what is at the
/// bottom of a broken connection.
pub(super) fn reason(error: &Error) -> String {
    let Error::GRpcStatus(status) = error else { return error.to_string() };
    let message = status.message();
    match causes(status).last().map(ToString::to_string) {
        Some(root) if !message.contains(&root) => format!("{message}: {root}"),
        _ => message.to_owned(),
    }
}

/// The servers understood the request and will not do it, now or later; nothing was written.
pub(super) fn is_final(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => match status.code() {
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange => true,
            // Out of space until an operator helps; "too many requests" has this code as well.
            Code::ResourceExhausted => status.message().contains("space exceeded"),
            _ => false,
        },
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => true,
        _ => false,
    }
}

/// No server can have seen the request: there was no connection to send it on.
pub(super) fn is_unsent(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else { return false };
    causes(status).any(|cause| cause.is::<tonic::ConnectError>())
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |&cause| cause.source())
}

/// The revision that was asked for is no longer kept.
pub(super) fn is_compacted(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if compacted(status))
}

fn compacted(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("compacted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        check(Status::unavailable("etcdserver: no leader"), false);
        check(Status::resource_exhausted("etcdserver: too many requests"), false);
        check(Status::resource_exhausted("etcdserver: mvcc: database space exceeded"), true);
        check(Status::invalid_argument("etcdserver: request is too large"), true);
        check(Status::permission_denied("etcdserver: permission denied"), true);

        #[track_caller]
        fn check(status: Status, expected: bool) {
            assert_eq!(is_final(&Error::GRpcStatus(status)), expected);
        }
    }
}
