//! Commands that put one resource, and the names that they give.

use sluicegate_model::name::MAX_NAME;
use sluicegate_proto::{
    admin::v1::{ApplyReply, ApplyRequest, Change, change},
    resource::v1::{Resource, resource::Spec},
};

use super::WaitArgs;
use crate::{client::Client, failure::Failure};

/// One resource as a command makes it.
#[derive(Debug)]
pub(crate) struct Put {
    pub(crate) spec: Spec,
    /// The version that it was made of: nobody else's change is undone by it. `None`: whatever is there.
    pub(crate) of: Option<u64>,
    pub(crate) comment: String,
    pub(crate) dry_run: bool,
}

impl Put {
    /// Sends it, as a change of its own.
    ///
    /// # Errors
    /// When the control plane refuses or cannot be asked.
    pub(crate) async fn send(
        self,
        client: &mut Client,
        wait: WaitArgs,
    ) -> Result<ApplyReply, Failure> {
        let put = change::Change::Put(Resource { spec: Some(self.spec) });
        let request = ApplyRequest {
            changes: vec![Change { change: Some(put), expect_version: self.of }],
            dry_run: self.dry_run,
            comment: self.comment,
            wait: wait.to_proto(),
            idempotency_key: uuid::Uuid::new_v4().to_string(),
            ..ApplyRequest::default()
        };
        let applied = client.apply(request, wait.extra()).await;
        applied.map_err(|status| client.failure(&status))
    }
}

/// A text as the name of a resource. Where names cannot hold it, a digest of it keeps two apart.
pub(crate) fn name_of(text: &str) -> String {
    let legal = |character: char| character.is_ascii_alphanumeric() || "._-/".contains(character);
    if text.chars().all(legal) && text.len() <= MAX_NAME {
        return text.to_owned();
    }
    let digest = blake3::hash(text.as_bytes()).to_hex();
    let end = digest.get(..10).unwrap_or_default();
    let legible = text.chars().map(|c| if legal(c) { c } else { '-' });
    format!("{}-{end}", legible.take(MAX_NAME - 1 - end.len()).collect::<String>())
}
