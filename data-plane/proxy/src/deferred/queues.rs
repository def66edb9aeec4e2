//! Which queues requests are claimed from, and how many of each.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use sluicegate_model::resource::model::Unavailable;
use sluicegate_proto::deferred::v1::QueueClaim;

use super::pace::{Ended, Pace};
use crate::{
    policy::{Model, Policy},
    pool::Pool,
    target::Standing,
};

/// Queues in one claim; that of a control plane is 256.
const MOST_QUEUES: usize = 200;
/// Queues of models that keep requests now. The rest are those that have kept some and do no more.
const MOST_NOW: usize = 150;

/// The pace of every queue, by the name of its model.
#[derive(Debug, Default)]
pub(super) struct Queues {
    paces: HashMap<String, Pace>,
    turn: usize,
}

impl Queues {
    /// What may be claimed now, at most `most` requests in all: of models with a target that is up
    /// and has room, no more than their pace allows. Where there are too many, others come next time.
    pub(super) fn wanted(
        &mut self,
        policy: &Policy,
        pool: &Pool,
        mut most: u32,
        now_ms: u64,
    ) -> Vec<QueueClaim> {
        self.paces.retain(|name, pace| pace.running() > 0 || policy.model(name).is_some());
        let mut models: Vec<_> = policy.models().collect();
        models.sort_unstable_by_key(|model| (Reverse(keeps(model)), &model.name));
        let now = models.iter().take_while(|model| keeps(model)).count();
        let (now, before) = models.split_at(now);
        let mut wanted = Vec::new();
        let rest = MOST_QUEUES - now.len().min(MOST_NOW);
        for (models, places) in [(now, MOST_NOW), (before, rest)] {
            for model in in_turn(models, self.turn, places) {
                let pace = self.paces.entry(model.name.clone()).or_default();
                match standing(policy, model, pool) {
                    Standing::Down => pace.down(),
                    Standing::Full => {}
                    Standing::Free { used, most: takes } => {
                        // Those that have just begun may not be there yet.
                        let busy = used.max(pace.running().into());
                        let left = u32::try_from(takes.saturating_sub(busy)).unwrap_or(u32::MAX);
                        let room = pace.room(now_ms).min(left).min(most);
                        if room > 0 {
                            most -= room;
                            wanted.push(QueueClaim { queue: model.name.clone(), most: room });
                        }
                    }
                }
            }
        }
        self.turn = self.turn.wrapping_add(1);
        wanted
    }

    /// One of the queue has begun.
    pub(super) fn began(&mut self, queue: &str) {
        self.paces.entry(queue.to_owned()).or_default().began();
    }

    /// One of the queue has ended.
    pub(super) fn ended(&mut self, queue: &str, how: Ended, now_ms: u64) {
        if let Some(pace) = self.paces.get_mut(queue) {
            pace.ended(how, now_ms);
        }
    }
}

/// So many of them, others with each turn where they are more.
fn in_turn<'m>(
    models: &'m [&'m Arc<Model>],
    turn: usize,
    places: usize,
) -> impl Iterator<Item = &'m Arc<Model>> {
    let start = match models.len() {
        0 => 0,
        count if count <= places => 0,
        count => turn.wrapping_mul(places) % count,
    };
    models.iter().cycle().skip(start).take(places.min(models.len())).copied()
}

/// Does the model keep what it cannot run now?
pub(super) fn keeps(model: &Model) -> bool {
    model.when_unavailable.answer == Unavailable::Defer
}

/// How those of its targets, and of its fallbacks', stand that have a key.
fn standing(policy: &Policy, model: &Model, pool: &Pool) -> Standing {
    let fallbacks = model.fallback.models.iter().filter_map(|other| policy.model(&other.model));
    let models = fallbacks.map(AsRef::as_ref).chain([model]);
    let targets = models.flat_map(|model| {
        model.targets.iter().filter(|target| {
            let name = target.model.as_deref().unwrap_or(&model.name);
            target.provider.keyless || pool.any_up(&target.provider.credentials, name)
        })
    });
    targets.map(|target| target.state.standing()).fold(Standing::Down, Standing::or)
}
