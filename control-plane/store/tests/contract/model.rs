//! Random commits against a store and against a map in memory: both must agree on everything.

use std::{collections::BTreeMap, fmt::Write};

use proptest::{collection::vec, prelude::*, sample::select};
use sluicegate_store::{
    Change, ChangeSet, Commit, Committed, Entry, Op, Precondition, Revision, WatchStream,
};

use crate::fixture::{self, Fixture};

const KEYS: [&str; 7] = ["a/1", "a/2", "a/2/x", "b", "b/1", "b/2", "c"];

/// One step of a random history. Key numbers are positions in [`KEYS`].
#[derive(Debug, Clone)]
pub enum Step {
    /// Preconditions by key, each right or wrong, and writes: `None` deletes.
    Commit { wanted: Vec<(usize, bool)>, writes: BTreeMap<usize, Option<String>> },
    /// As after a restart of our process.
    Reopen,
}

pub fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS.len();
    let value = prop_oneof![3 => "[a-z]{0,8}".prop_map(Some), 2 => Just(None)];
    let wanted = vec((key.clone(), select(vec![true, true, true, false])), 0..3);
    let writes = prop::collection::btree_map(key, value, 0..4);
    let commit = (wanted, writes).prop_map(|(wanted, writes)| Step::Commit { wanted, writes });
    vec(prop_oneof![30 => commit, 1 => Just(Step::Reopen)], 1..max)
}

/// What the store must be.
#[derive(Default)]
struct Model {
    entries: BTreeMap<String, Entry>,
    revision: Revision,
    /// Every revision since the start.
    history: Vec<ChangeSet>,
}

impl Model {
    fn commit(&mut self, commit: &Commit) -> Committed {
        let found = |key: &str| self.entries.get(key).map_or(0, |entry| entry.mod_revision);
        let conflicts: Vec<(String, Revision)> = commit
            .preconditions
            .iter()
            .filter(|wanted| found(&wanted.key) != wanted.mod_revision)
            .map(|wanted| (wanted.key.clone(), found(&wanted.key)))
            .collect();
        if !conflicts.is_empty() {
            return Committed::Conflict(conflicts);
        }
        let revision = self.revision + 1;
        let changes: Vec<Change> =
            commit.ops.iter().filter_map(|op| self.apply(op, revision)).collect();
        if !changes.is_empty() {
            self.revision = revision;
            self.history.push(ChangeSet { revision, changes });
        }
        Committed::At(self.revision)
    }

    fn apply(&mut self, op: &Op, mod_revision: Revision) -> Option<Change> {
        match op {
            Op::Put { key, value, .. } => {
                let entry = Entry { key: key.clone(), value: value.clone(), mod_revision };
                self.entries.insert(key.clone(), entry.clone());
                Some(Change::Put(entry))
            }
            Op::Delete { key } => {
                self.entries.remove(key).map(|_| Change::Delete { key: key.clone() })
            }
        }
    }

    fn to_commit(
        &self,
        wanted: &[(usize, bool)],
        writes: &BTreeMap<usize, Option<String>>,
    ) -> Commit {
        let precondition = |&(key, right): &(usize, bool)| {
            let found = self.entries.get(KEYS[key]).map_or(0, |entry| entry.mod_revision);
            let mod_revision = if right { found } else { found + 1 };
            Precondition { key: KEYS[key].to_owned(), mod_revision }
        };
        let op = |(&key, value): (&usize, &Option<String>)| match value {
            Some(value) => fixture::put(KEYS[key], value),
            None => fixture::delete(KEYS[key]),
        };
        Commit {
            preconditions: wanted.iter().map(precondition).collect(),
            ops: writes.iter().map(op).collect(),
        }
    }
}

/// Does the steps on the store and on the model. On the way and at the end the outcomes, every
/// listing, and what a watch tells must be those of the model.
pub async fn agrees(fixture: &mut dyn Fixture, steps: &[Step]) {
    let mut model =
        Model { revision: fixture.store().list("").await.unwrap().revision, ..Model::default() };
    let start = model.revision;
    let mut watch = fixture::watch(fixture.store(), "", start + 1).await;
    let mut told = 0;
    for step in steps {
        match step {
            Step::Commit { wanted, writes } => {
                let commit = model.to_commit(wanted, writes);
                let outcome = fixture.store().commit(commit.clone()).await.unwrap();
                assert_eq!(outcome, model.commit(&commit));
            }
            Step::Reopen => {
                check_told(&mut watch, &model, &mut told).await;
                drop(watch);
                fixture.reopen().await;
                watch = fixture::watch(fixture.store(), "", model.revision + 1).await;
            }
        }
    }
    check_told(&mut watch, &model, &mut told).await;

    for prefix in ["", "a/", "b", "b/", "nothing"] {
        let listing = fixture.store().list(prefix).await.unwrap();
        assert_eq!(listing.revision, model.revision);
        let expected: Vec<&Entry> =
            model.entries.values().filter(|entry| entry.key.starts_with(prefix)).collect();
        assert_eq!(listing.entries.iter().collect::<Vec<_>>(), expected);
    }
    for key in KEYS {
        let entry = fixture.store().get(key).await.unwrap();
        assert_eq!(entry.as_ref(), model.entries.get(key), "{key}");
    }
    // A second watch, of the whole past.
    let mut replay = fixture::watch(fixture.store(), "", start + 1).await;
    check_told(&mut replay, &model, &mut 0).await;
}

/// Reads the watch on to the newest revision; `told` counts the revisions it has told so far.
async fn check_told(watch: &mut WatchStream, model: &Model, told: &mut usize) {
    for expected in &model.history[*told..] {
        let set = fixture::next_changes(watch).await;
        assert_eq!(&set, expected, "{}", keys(&set));
    }
    *told = model.history.len();
}

fn keys(set: &ChangeSet) -> String {
    set.changes.iter().fold(String::new(), |mut keys, change| {
        match change {
            Change::Put(entry) => write!(keys, "{} ", entry.key),
            Change::Delete { key } => write!(keys, "-{key} "),
        }
        .unwrap();
        keys
    })
}
