//! Random changes against a model: what is refused, what is kept, what followers see, what a
//! rollback restores.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sluicegate_control_core::{Change, Changes, CoreError};
use sluicegate_model::{Kind, Resource};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec};
use sluicegate_protocol::policy::Point;

use crate::fixture::{Core, delete, put, request, wrap};

/// Tenants and their parents: every reference and cycle that can go wrong, in one kind.
type Model = BTreeMap<u8, Option<u8>>;

#[derive(Debug, Clone)]
enum Step {
    /// Each tenant gets this parent, or is deleted.
    Change(BTreeMap<u8, Option<Option<u8>>>),
    /// Back by so many revisions of those that there were.
    Rollback(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0_u8..6;
    let becomes = prop::option::weighted(0.7, prop::option::weighted(0.6, name()));
    let change = prop::collection::btree_map(name(), becomes, 1..5).prop_map(Step::Change);
    let step = prop_oneof![8 => change, 1 => (0_usize..6).prop_map(Step::Rollback)];
    prop::collection::vec(step, 1..24)
}

fn valid(model: &Model) -> bool {
    model.keys().all(|start| {
        let mut at = *start;
        for _ in 0..=model.len() {
            match model.get(&at) {
                None => return false,
                Some(None) => return true,
                Some(Some(parent)) => at = *parent,
            }
        }
        false
    })
}

fn change(name: u8, becomes: Option<Option<u8>>) -> Change {
    let Some(parent) = becomes else { return delete(Kind::Tenant, &name.to_string()) };
    let parent = parent.map(|parent| parent.to_string()).unwrap_or_default();
    put(wrap(Spec::Tenant(pb::Tenant { name: name.to_string(), parent, ..Default::default() })))
}

fn read<'a>(resources: impl Iterator<Item = &'a Resource>) -> Model {
    let read = |resource: &Resource| {
        let Resource::Tenant(spec) = resource else { panic!("{resource:?}") };
        let parent = spec.parent.as_ref().map(|parent| parent.parse().unwrap());
        (spec.name.parse().unwrap(), parent)
    };
    resources.map(read).collect()
}

fn state(core: &Core) -> Model {
    let state = core.desired.snapshot();
    read(state.resources.values().map(|stored| &stored.parsed))
}

/// One who follows by the changes alone.
struct Follower {
    cursor: Point,
    known: BTreeMap<String, Resource>,
}

impl Follower {
    fn follow(&mut self, core: &Core) {
        let Changes::These(events) = core.desired.changes_after(&self.cursor) else {
            panic!("nothing was skipped")
        };
        for event in events {
            assert!(event.revision > self.cursor.revision);
            self.cursor.revision = event.revision;
            for deleted in &event.deletes {
                assert!(self.known.remove(&deleted.to_string()).is_some());
            }
            for (reference, stored) in &event.puts {
                self.known.insert(reference.to_string(), stored.parsed.clone());
            }
        }
    }
}

async fn run(steps: Vec<Step>) {
    let core = Core::new().await;
    let cursor = core.desired.snapshot().point();
    let mut follower = Follower { cursor, known: BTreeMap::new() };
    let mut model = Model::new();
    let mut past = vec![(core.revision(), model.clone())];
    for step in steps {
        let before = core.revision();
        let (wanted, outcome) = match step {
            Step::Change(changes) => {
                let mut wanted = model.clone();
                for (name, becomes) in &changes {
                    match becomes {
                        Some(parent) => drop(wanted.insert(*name, *parent)),
                        None => drop(wanted.remove(name)),
                    }
                }
                let changes = changes.into_iter().map(|(name, becomes)| change(name, becomes));
                (wanted, core.apply(changes.collect()).await)
            }
            Step::Rollback(back) => {
                let (revision, then) = &past[past.len().saturating_sub(back + 1)];
                let outcome = core.applier.rollback(*revision, &request(vec![])).await;
                (then.clone(), outcome)
            }
        };
        match outcome {
            Ok(outcome) => {
                assert!(valid(&wanted), "taken over: {wanted:?}");
                assert_eq!(outcome.differences.is_empty(), wanted == model);
                assert_eq!(outcome.at.revision > before, wanted != model);
                model = wanted;
            }
            Err(CoreError::Invalid(_)) => assert!(!valid(&wanted), "refused: {wanted:?}"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(state(&core), model);
        follower.follow(&core);
        assert_eq!(read(follower.known.values()), model);
        past.push((core.revision(), model.clone()));
    }
    let again = Core::over(core.store.clone(), core.seal.clone()).await;
    assert_eq!(state(&again), model);
    assert_eq!(again.revision(), core.revision());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn changes_rollbacks_and_followers_agree_with_the_model(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
