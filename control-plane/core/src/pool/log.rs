//! What operators are told when a key goes out of use or comes back.

use sluicegate_protocol::pool::{CellKey, Record, State};

/// A cell was one thing and is another. A key that somebody has to look after is a warning: once, not
/// with every failure that follows.
pub(super) fn changed(key: &CellKey, before: Option<&Record>, now: Option<&Record>, now_ms: u64) {
    let Some(now) = now else { return };
    let CellKey { credential, model, operator } = key;
    let was = before.filter(|before| !before.cleared).map(|before| before.state);
    if now.cleared {
        if let Some(was) = was.filter(|was| *was != State::Resting) {
            tracing::info!(credential, model, was = was.name(), "a provider key is in use again");
        }
        return;
    }
    let left_ms = now.end_ms.saturating_sub(now_ms);
    let (state, reason, by) = (now.state.name(), &now.reason, &now.by);
    if now.state == State::Resting || *operator || was == Some(now.state) {
        tracing::debug!(credential, model, state, left_ms, reason, by, "a provider key");
    } else {
        tracing::warn!(
            credential,
            model,
            state,
            left_ms,
            reason,
            by,
            "a provider key is out of use until it works again"
        );
    }
}
