//! What operators see of deferred requests, whoever put them: everything but what is in them.

use sluicegate_proto::{admin::v1 as admin, deferred::v1 as pb};
use sluicegate_store::deferred::{Cancelled, Listed, MAX_LIST_JOBS};

use super::{Deferred, parse::Owner, state};
use crate::error::CoreError;

/// Pages of the store that are looked through for one page of those that are wanted.
const MOST_LOOKS: usize = 20;

/// Which requests are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only those of this model.
    pub model: Option<String>,
    /// Only those that stand so.
    pub state: Option<pb::State>,
}

impl Wanted {
    fn is(&self, listed: &Listed) -> bool {
        self.model.as_ref().is_none_or(|model| *model == listed.queue)
            && self.state.is_none_or(|wanted| wanted == state(listed.state))
    }
}

impl Deferred {
    /// About `most` of those that are wanted, and where the next ones are; from there on, or from the
    /// beginning if it is empty. A page may be empty that is not the last.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(
        &self,
        wanted: &Wanted,
        from: &str,
        most: usize,
    ) -> Result<(Vec<admin::DeferredRequest>, Option<String>), CoreError> {
        let (mut found, mut from) = (Vec::new(), from.to_owned());
        for _ in 0..MOST_LOOKS {
            let page = self.store.list(&from, MAX_LIST_JOBS.min(most)).await?;
            let jobs = page.jobs.into_iter().filter(|listed| wanted.is(listed));
            found.extend(jobs.map(shown));
            match page.next {
                Some(next) => from = next,
                None => return Ok((found, None)),
            }
            if found.len() >= most {
                break;
            }
        }
        Ok((found, Some(from)))
    }

    /// One request, whosever it is.
    ///
    /// # Errors
    /// [`CoreError::UnknownRequest`].
    pub async fn inspect(&self, id: &str) -> Result<admin::DeferredRequest, CoreError> {
        let unknown = || CoreError::UnknownRequest { id: id.to_owned() };
        let found = self.store.get(id).await?.ok_or_else(unknown)?;
        let status = match &found.result {
            Some(result) => self.response(id, result)?.status,
            None => 0,
        };
        let listed = Listed {
            id: found.id,
            owner: found.owner,
            queue: found.queue,
            state: found.state,
            attempt: found.attempt,
            age_ms: found.age_ms,
            left_ms: found.left_ms,
        };
        Ok(admin::DeferredRequest { ahead: found.ahead, status, ..shown(listed) })
    }

    /// Ends a request without a result, whosever it is. `false`: it had ended otherwise.
    ///
    /// # Errors
    /// [`CoreError::UnknownRequest`].
    pub async fn withdraw(&self, id: &str) -> Result<bool, CoreError> {
        match self.store.cancel(id).await?.answer {
            Cancelled::Done => Ok(true),
            Cancelled::Already => Ok(false),
            Cancelled::Unknown => Err(CoreError::UnknownRequest { id: id.to_owned() }),
        }
    }
}

fn shown(listed: Listed) -> admin::DeferredRequest {
    admin::DeferredRequest {
        caller: Owner::from_text(&listed.owner).map(Into::into),
        state: state(listed.state).into(),
        id: listed.id,
        model: listed.queue,
        attempt: listed.attempt,
        age_ms: listed.age_ms,
        left_ms: listed.left_ms,
        ahead: 0,
        status: 0,
    }
}
