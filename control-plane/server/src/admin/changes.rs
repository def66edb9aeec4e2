//! Calls that change the configuration.

use sluicegate_control_core::{Change, CoreError, Desire, Difference, Outcome, Request};
use sluicegate_model::{
    Violation, Violations,
    path::Path,
    secret::{KeyHash, new_caller_key},
};
use sluicegate_proto::{
    admin::v1 as pb,
    resource::v1::{Resource, resource::Spec},
};
use sluicegate_protocol::policy::Lane;
use tonic::Status;

use super::{AUTHOR, AdminService};
use crate::{
    status,
    wire::{self, Wait},
};

impl AdminService {
    pub(super) async fn apply_changes(
        &self,
        request: pb::ApplyRequest,
    ) -> Result<pb::ApplyReply, Status> {
        let mut found = Violations::default();
        let wait = keep(wire::wait(request.wait).map_err(Violations::from), &mut found);
        let prune = keep(wire::kinds(&request.prune_kinds, "prune_kinds"), &mut found);
        let changes = keep(wire::changes(request.changes), &mut found);
        found.or(()).map_err(|found| status::invalid(&found))?;
        let request = Request {
            changes,
            prune,
            dry_run: request.dry_run,
            idempotency_key: Some(request.idempotency_key).filter(|key| !key.is_empty()),
            comment: request.comment,
            author: AUTHOR.to_owned(),
            ..Request::default()
        };
        let outcome = self.applier.apply(&request).await;
        self.reply(outcome, &request, wait).await
    }

    pub(super) async fn delete_resources(
        &self,
        request: pb::DeleteRequest,
    ) -> Result<pb::ApplyReply, Status> {
        let mut found = Violations::default();
        let wait = keep(wire::wait(request.wait).map_err(Violations::from), &mut found);
        let refs = Path::root().field("refs");
        if request.refs.is_empty() {
            found.0.push(Violation::new(refs.clone(), "is empty").hint("name what to delete"));
        }
        if request.expect_version.is_some() && request.refs.len() > 1 {
            let path = Path::root().field("expect_version");
            let violation = Violation::new(path, "is for one resource, but several are named");
            found.0.push(violation.hint("use Apply, where every change has a version of its own"));
        }
        let mut changes = Vec::with_capacity(request.refs.len());
        for (index, reference) in request.refs.iter().enumerate() {
            match wire::reference(Some(reference), &refs.index(index)) {
                Ok(reference) => changes.push(Change {
                    desire: Desire::Delete(reference),
                    expect_version: request.expect_version,
                }),
                Err(violation) => found.0.push(violation),
            }
        }
        found.or(()).map_err(|found| status::invalid(&found))?;
        let request = Request {
            changes,
            must_exist: true,
            dry_run: request.dry_run,
            comment: request.comment,
            author: AUTHOR.to_owned(),
            ..Request::default()
        };
        let outcome = self.applier.apply(&request).await;
        self.reply(outcome, &request, wait).await
    }

    pub(super) async fn roll_back(
        &self,
        request: pb::RollbackRequest,
    ) -> Result<pb::ApplyReply, Status> {
        let wait = wire::wait(request.wait).map_err(status::fault)?;
        let comment = match request.comment {
            comment if comment.is_empty() => format!("rollback to {}", request.to_revision),
            comment => comment,
        };
        let rest = Request {
            dry_run: request.dry_run,
            comment,
            author: AUTHOR.to_owned(),
            ..Request::default()
        };
        let outcome = self.applier.rollback(request.to_revision, &rest).await;
        self.reply(outcome, &rest, wait).await
    }

    pub(super) async fn create_key(
        &self,
        request: pb::CreateApiKeyRequest,
    ) -> Result<pb::CreateApiKeyReply, Status> {
        let wait = wire::wait(request.wait).map_err(status::fault)?;
        let path = Path::root().field("api_key");
        let Some(mut spec) = request.api_key else {
            return Err(status::fault(Violation::new(path, "is missing").hint("name the key")));
        };
        for (field, given) in [("hash", !spec.hash.is_empty()), ("secret", spec.secret.is_some())] {
            if given {
                let violation = Violation::new(path.field(field), "is made by this call");
                return Err(status::fault(violation.hint("leave it out, or use Apply")));
            }
        }
        let key = new_caller_key()
            .map_err(|error| status::status(CoreError::NoRandomness(error.to_string())))?;
        spec.hash = KeyHash::of(key.expose()).to_string();
        let change = Change {
            desire: Desire::Put(Resource { spec: Some(Spec::ApiKey(spec)) }),
            expect_version: Some(0),
        };
        let request =
            Request { changes: vec![change], author: AUTHOR.to_owned(), ..Request::default() };
        let outcome = self.applier.apply(&request).await;
        let applied = self.reply(outcome, &request, wait).await?;
        Ok(pb::CreateApiKeyReply { key: key.expose().to_owned(), applied: Some(applied) })
    }

    /// The answer to a change, once it has come as far as is waited for.
    async fn reply(
        &self,
        outcome: Result<Outcome, CoreError>,
        request: &Request,
        wait: Option<Wait>,
    ) -> Result<pb::ApplyReply, Status> {
        self.metrics.changed(&outcome, request.dry_run);
        let outcome = outcome.map_err(status::status)?;
        if !request.dry_run && !outcome.repeated && !outcome.differences.is_empty() {
            let revision = outcome.at.revision;
            let (changes, author) = (outcome.differences.len(), &request.author);
            tracing::info!(revision, changes, author, "the configuration changed");
        }
        let progress = match wait.filter(|_| !request.dry_run) {
            Some(wait) => {
                // What takes keys away alone has come where the keys have.
                let differences = &outcome.differences;
                let revokes =
                    !differences.is_empty() && differences.iter().all(Difference::is_revocation);
                let lane = if revokes { Lane::Keys } else { Lane::Config };
                Some(self.fleet.wait_for(&outcome.at, lane, wait.fraction, wait.patience).await)
            }
            None => None,
        };
        Ok(wire::apply_reply(&outcome, progress))
    }
}

/// The value, or its default with the faults added to `found`.
fn keep<T: Default>(read: Result<T, Violations>, found: &mut Violations) -> T {
    read.unwrap_or_else(|violations| {
        found.0.extend(violations.0);
        T::default()
    })
}
