//! What the targets of one model share, whatever becomes of the policy.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sluicegate_model::resource::{self, Retry};
use tower::retry::budget::{Budget, TpsBudget};

use crate::target::Choosing;

/// How far back the budget of repeats looks.
const WINDOW: Duration = Duration::from_secs(10);

/// The targets of one model.
#[derive(Debug)]
pub struct Group {
    /// Attempts after failures, as a share of requests. (Finagle's retry budget, whose form this is.)
    budget: TpsBudget,
    terms: (u32, u64),
    /// Whose turn it is.
    pub choosing: Choosing,
    waiting: AtomicU32,
}

impl Group {
    fn new(spec: &resource::Model) -> Self {
        let retry = &spec.retry;
        let share = retry.budget.clamp(0.0, 1.0);
        #[expect(clippy::cast_possible_truncation, reason = "a number from 0 to 1")]
        let budget = TpsBudget::new(WINDOW, retry.budget_min, share as f32);
        Self {
            budget,
            terms: terms(retry),
            choosing: Choosing::new(spec.choice),
            waiting: AtomicU32::new(0),
        }
    }

    /// A place among those of the model that wait, if there is one.
    pub fn wait(&self, most: u32) -> Option<Waiting<'_>> {
        let place = Waiting(&self.waiting);
        (self.waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }

    /// A request has come.
    pub fn asked(&self) {
        self.budget.deposit();
    }

    /// May an attempt follow one that has failed? Asking takes it from the budget.
    pub fn may_repeat(&self) -> bool {
        self.budget.withdraw()
    }
}

/// A place among those that wait.
#[derive(Debug)]
pub struct Waiting<'a>(&'a AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What makes it another budget.
fn terms(retry: &Retry) -> (u32, u64) {
    (retry.budget_min, retry.budget.to_bits())
}

/// The groups of every model.
#[derive(Debug, Default)]
pub struct Groups(Mutex<HashMap<String, Arc<Group>>>);

impl Groups {
    /// The group of a model, as it is or with new terms.
    pub fn of(&self, spec: &resource::Model) -> Arc<Group> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get(&spec.name)
            && group.terms == terms(&spec.retry)
            && group.choosing.spread() == spec.choice
        {
            return group.clone();
        }
        let group = Arc::new(Group::new(spec));
        groups.insert(spec.name.clone(), group.clone());
        group
    }

    /// Forgets models that are gone.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|model, _| is_there(model));
    }
}
