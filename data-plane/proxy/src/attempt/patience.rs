//! Waiting for targets that are full, or left alone, as the model says.

use std::{sync::Arc, time::Duration};

use sluicegate_flow::gate::Ask;
use sluicegate_model::resource::model::Unavailable;
use tokio::time::Instant;

use crate::{
    group::{Group, Waiting},
    policy::Model,
    report::Report,
    route::{Choice, Plan},
};

/// How long one request may wait, in all.
#[derive(Debug)]
pub(super) struct Patience<'a> {
    model: &'a Arc<Model>,
    group: &'a Group,
    /// When it is over; from the first wait on.
    until: Option<Instant>,
    /// Its place among those that wait.
    place: Option<Waiting<'a>>,
}

/// What became of waiting.
#[derive(Debug)]
pub(super) enum Waited {
    /// There is room.
    Go(Box<Choice>),
    /// Something may have changed.
    Look,
    /// There is nothing to wait for, or no time.
    Enough,
}

impl<'a> Patience<'a> {
    pub(super) fn new(model: &'a Arc<Model>, group: &'a Group) -> Self {
        Self { model, group, until: None, place: None }
    }

    /// Waits for what stands in the plan's way. For room anybody waits; for a target that is left alone,
    /// or a key that rests, those of a model that says so. `tried`: something was, and failed.
    pub(super) async fn wait(
        &mut self,
        plan: &mut Plan<'_>,
        tried: bool,
        report: &mut Report,
    ) -> Waited {
        let terms = &self.model.when_unavailable;
        let until = *self.until.get_or_insert_with(|| Instant::now() + terms.wait);
        let until = report.deadline().map_or(until, |deadline| deadline.min(until));
        let now = Instant::now();
        if until <= now || !self.has_place(terms.max_waiting) {
            return Waited::Enough;
        }
        if terms.keep_alive && report.record.stream {
            report.waits.begin();
        }
        let waited = if let Some(full) = plan.obstacles().full.clone() {
            let Some((gate, load)) = plan.door(&full) else { return Waited::Enough };
            let request = load.request();
            let entered = gate.enter(Ask { request, deadline: until, wait: true }).await;
            match entered {
                Ok(room) => match plan.enter(&full, room) {
                    Some(choice) => Waited::Go(Box::new(choice)),
                    None => Waited::Look,
                },
                Err(refused) => {
                    plan.still_full(&full, refused);
                    Waited::Enough
                }
            }
        } else if terms.answer == Unavailable::Wait
            && !tried
            && let Some(left_ms) = plan.obstacles().left_ms()
        {
            let over = now + Duration::from_millis(left_ms.max(1));
            if over > until {
                return Waited::Enough;
            }
            tokio::time::sleep_until(over).await;
            Waited::Look
        } else {
            return Waited::Enough;
        };
        report.waited(now.elapsed());
        waited
    }

    fn has_place(&mut self, most: u32) -> bool {
        if self.place.is_none() {
            self.place = self.group.wait(most);
        }
        self.place.is_some()
    }
}
