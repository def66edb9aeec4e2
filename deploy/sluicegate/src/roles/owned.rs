//! What a start has declared by itself, by its file or by default, so that what it stops declaring
//! can be taken away. What was made in other ways (`key create`, `apply`) is not its to delete.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use sluicegate_model::ResourceRef;
use sluicegate_proto::admin::v1::{Change, change};

use super::state;

/// Names of resources, remembered over restarts.
#[derive(Debug)]
pub(super) struct Owned {
    path: PathBuf,
    names: BTreeSet<ResourceRef>,
}

impl Owned {
    /// As remembered in `state_dir`; nothing when there is no memory or it makes no sense.
    pub(super) fn load(state_dir: &Path) -> Self {
        let path = state_dir.join("config.applied.json");
        let texts: Vec<String> = std::fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let name = |text: &String| {
            let (kind, name) = text.split_once('/')?;
            Some(ResourceRef::new(kind.parse().ok()?, name))
        };
        Self { path, names: texts.iter().filter_map(name).collect() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Deletes what was declared before and is not among `named`.
    pub(super) fn dropped(&self, named: &BTreeSet<ResourceRef>) -> Vec<Change> {
        let delete = |reference: &ResourceRef| Change {
            change: Some(change::Change::Delete(reference.to_proto())),
            expect_version: None,
        };
        self.names.difference(named).map(delete).collect()
    }

    /// From now on, `named` is what is declared.
    pub(super) fn remember(&mut self, named: BTreeSet<ResourceRef>) {
        if named == self.names {
            return;
        }
        self.names = named;
        let texts: Vec<_> = self.names.iter().map(ResourceRef::to_string).collect();
        let text = serde_json::to_string(&texts).unwrap_or_default();
        if let Err(error) = state::write_private(&self.path, &text) {
            tracing::warn!(%error, "what is declared cannot be remembered");
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_model::Kind;

    use super::*;

    #[test]
    fn what_is_no_longer_declared_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let refs = |names: &[&str]| -> BTreeSet<_> {
            names.iter().map(|name| ResourceRef::new(Kind::Model, *name)).collect()
        };
        let mut owned = Owned::load(folder.path());
        assert!(owned.dropped(&refs(&["a"])).is_empty());
        owned.remember(refs(&["a", "org/b"]));
        let owned = Owned::load(folder.path());
        assert_eq!(owned.len(), 2);
        let dropped = owned.dropped(&refs(&["a", "c"]));
        let expected = ResourceRef::new(Kind::Model, "org/b").to_proto();
        assert_eq!(dropped.len(), 1);
        assert_eq!(dropped[0].change, Some(change::Change::Delete(expected)));
        std::fs::write(folder.path().join("config.applied.json"), "garbage").unwrap();
        assert_eq!(Owned::load(folder.path()).len(), 0);
    }
}
