//! What the targets of one model share, whatever becomes of the policy.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sluicegate_model::resource::Retry;
use tower::retry::budget::{Budget, TpsBudget};

/// How far back the budget of repeats looks.
const WINDOW: Duration = Duration::from_secs(10);

/// The targets of one model.
#[derive(Debug)]
pub struct Group {
    /// Attempts after failures, as a share of requests. (Finagle's retry budget, whose form this is.)
    budget: TpsBudget,
    terms: (u32, u64),
}

impl Group {
    fn new(retry: &Retry) -> Self {
        let share = retry.budget.clamp(0.0, 1.0);
        #[expect(clippy::cast_possible_truncation, reason = "a number from 0 to 1")]
        let budget = TpsBudget::new(WINDOW, retry.budget_min, share as f32);
        Self { budget, terms: terms(retry) }
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

/// What makes it another budget.
fn terms(retry: &Retry) -> (u32, u64) {
    (retry.budget_min, retry.budget.to_bits())
}

/// The groups of every model.
#[derive(Debug, Default)]
pub struct Groups(Mutex<HashMap<String, Arc<Group>>>);

impl Groups {
    /// The group of a model, as it is or with new terms.
    pub fn of(&self, model: &str, retry: &Retry) -> Arc<Group> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match groups.get(model) {
            Some(group) if group.terms == terms(retry) => group.clone(),
            _ => {
                let group = Arc::new(Group::new(retry));
                groups.insert(model.to_owned(), group.clone());
                group
            }
        }
    }

    /// Forgets models that are gone.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|model, _| is_there(model));
    }
}
