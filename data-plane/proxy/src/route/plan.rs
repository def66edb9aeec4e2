//! What may be tried for one request, and what of it is next.

use std::sync::Arc;

use sluicegate_dialect::Endpoint;
use sluicegate_model::{
    Outcome,
    outcome::Blame,
    resource::{Again, LastResort},
};
use sluicegate_protocol::pool::Down;

use super::{Choice, Why, stages};
use crate::{
    policy::{Credential, Model, Policy, Provider},
    pool::{Pass, Pool, sooner},
};

/// What may be tried for one request, best first.
#[derive(Debug)]
pub struct Plan<'p> {
    policy: &'p Policy,
    endpoint: Endpoint,
    pool: Arc<Pool>,
    stages: Vec<Stage>,
    attempts_left: u32,
    /// What was tried last.
    last: Option<Place>,
    /// Whose failure it was.
    blame: Option<Blame>,
    /// Why keys were left out, of the one that callers can hope for soonest.
    down: Option<Down>,
    /// Other models stand in for this one now, since it cannot take the request.
    diverted: bool,
}

/// Targets of one model and priority.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) model: Arc<Model>,
    pub(super) priority: u32,
    /// Why this model, if it is not the one that was asked for.
    pub(super) why: Option<Why>,
    pub(super) aims: Vec<Aim>,
}

/// One target, and what of it is untried.
#[derive(Debug)]
pub(super) struct Aim {
    pub(super) provider: Arc<Provider>,
    pub(super) model: String,
    pub(super) chosen: bool,
    /// Of a provider that takes keys.
    pub(super) untried: Vec<Arc<Credential>>,
    /// It takes no key, and is untried.
    pub(super) keyless: bool,
    /// How often it was tried.
    pub(super) tries: u32,
    /// Its last failure may pass by itself.
    pub(super) again: bool,
}

/// Stage and aim.
type Place = (usize, usize);

/// What to do next.
#[derive(Debug)]
pub enum Next {
    /// This is to be tried.
    Try(Choice),
    /// Only what has failed is left; it may be asked again, for the time of this number.
    Again { tries: u32 },
    /// Nothing is left.
    Over,
}

impl Aim {
    fn choice(&self, stage: (&Arc<Model>, Option<Why>), pass: Option<Pass>) -> Choice {
        Choice {
            provider: self.provider.clone(),
            credential: pass.as_ref().map(|pass| pass.credential().clone()),
            model: self.model.clone(),
            serves: stage.0.clone(),
            why: stage.1,
            pass,
            chosen: self.chosen,
        }
    }

    /// The next key that is up, if the provider takes any; `Err`: why none is, if any is untried.
    fn take(&mut self, pool: &Arc<Pool>) -> Result<Option<Pass>, Option<Down>> {
        if std::mem::take(&mut self.keyless) {
            return Ok(None);
        }
        let pass = pool.choose(&self.provider, &self.untried, &self.model)?;
        Ok(Some(self.used(pass)))
    }

    /// The key whose rest ends first, where the provider wants that rather than nothing.
    fn take_resting(&mut self, pool: &Arc<Pool>) -> Option<Pass> {
        if self.provider.last_resort != LastResort::Soonest {
            return None;
        }
        let pass = pool.soonest(&self.provider, &self.untried, &self.model)?;
        Some(self.used(pass))
    }

    fn used(&mut self, pass: Pass) -> Pass {
        self.untried.retain(|credential| credential.name != pass.credential().name);
        pass
    }

    /// Everything about it counts as untried again.
    fn renew(&mut self) {
        self.keyless = self.provider.keyless;
        if !self.keyless {
            self.untried.clone_from(&self.provider.credentials);
        }
        self.again = false;
    }

    fn is_over(&self, pool: &Pool) -> bool {
        !self.keyless && !pool.any_up(&self.untried, &self.model)
    }
}

impl<'p> Plan<'p> {
    pub(super) fn new(
        policy: &'p Policy,
        endpoint: Endpoint,
        pool: Arc<Pool>,
        stages: Vec<Stage>,
        attempts_left: u32,
    ) -> Self {
        Self {
            policy,
            endpoint,
            pool,
            stages,
            attempts_left,
            last: None,
            blame: None,
            down: None,
            diverted: false,
        }
    }

    /// Was that the last choice there is, but for asking again?
    pub fn is_last(&self) -> bool {
        self.stages.iter().flat_map(|stage| &stage.aims).all(|aim| aim.is_over(&self.pool))
    }

    /// Sets the choice that was just taken aside without its having been tried.
    pub fn untried(&mut self) {
        self.attempts_left += 1;
        if let Some(aim) = self.last_aim() {
            aim.tries = aim.tries.saturating_sub(1);
        }
    }

    /// The target of the choice that was just taken cannot take the request: none of its keys can.
    pub fn unfit(&mut self) {
        self.untried();
        if let Some(aim) = self.last_aim() {
            aim.untried.clear();
        }
    }

    /// The choice that was just taken has been sent twice.
    pub fn counts_twice(&mut self) {
        self.attempts_left = self.attempts_left.saturating_sub(1);
    }

    /// Why keys were left out, if any were.
    pub fn down(&self) -> Option<Down> {
        self.down
    }

    /// The choice that was just taken has failed.
    pub fn failed(&mut self, outcome: Outcome, again: Again) {
        self.blame = Some(outcome.blame());
        match again {
            Again::Never => self.attempts_left = 0,
            Again::Elsewhere => {}
            Again::Here => {
                if let Some(aim) = self.last_aim() {
                    aim.again = true;
                }
            }
        }
    }

    /// Has the choice that was just taken been of the model's fallbacks?
    pub fn is_fallback(&self) -> bool {
        self.last.and_then(|(stage, _)| self.stages.get(stage)).is_some_and(|it| it.why.is_some())
    }

    /// The model that failed last cannot take the request for this reason: only those stand in for it
    /// that are declared for that. `false`: none is, or they have been tried.
    pub fn divert(&mut self, why: Why) -> bool {
        let last = self.last.and_then(|(stage, _)| self.stages.get(stage));
        let Some(model) = last.map(|stage| stage.model.clone()) else { return false };
        let names = match why {
            Why::ContextLength => &model.fallback.on_context_length,
            Why::ContentFilter => &model.fallback.on_content_filter,
            Why::Unavailable => return false,
        };
        if self.diverted || self.attempts_left == 0 {
            return false;
        }
        let models = names.iter().filter_map(|name| self.policy.model(name));
        let others: Vec<_> = models
            .flat_map(|it| stages(it, &it.name, self.endpoint, Some(why), &mut false))
            .collect();
        if others.is_empty() {
            return false;
        }
        self.diverted = true;
        self.stages = others;
        (self.last, self.blame) = (None, None);
        true
    }

    /// The next attempt.
    ///
    /// A key's failure moves on to the next key of the same target; a target's failure moves on to
    /// the next target, and comes back to other keys of this one only when no other is left.
    pub fn advance(&mut self) -> Next {
        if self.attempts_left == 0 {
            return Next::Over;
        }
        let mut order = self.places();
        match (self.blame, self.last) {
            // Stable: the others stay in their order.
            (Some(Blame::Upstream), Some(last)) => order.sort_by_key(|place| *place == last),
            (Some(Blame::Credential), Some(last)) => order.sort_by_key(|place| *place != last),
            _ => {}
        }
        if let Some(choice) = self.take(&order) {
            return Next::Try(choice);
        }
        let tries = self.again().map(|place| self.aim(place).map_or(0, |aim| aim.tries));
        tries.map_or(Next::Over, |tries| Next::Again { tries })
    }

    /// Lets a target be asked again that has failed.
    pub fn renew(&mut self) {
        if let Some(place) = self.again()
            && let Some(aim) = self.aim(place)
        {
            aim.renew();
        }
    }

    /// The first of those that may be asked again, the least often tried first.
    fn again(&mut self) -> Option<Place> {
        let places = self.places().into_iter();
        let again = places.filter_map(|place| {
            let aim = self.aim(place).filter(|aim| aim.again)?;
            Some((aim.tries, place))
        });
        again.min().map(|(_, place)| place)
    }

    fn places(&self) -> Vec<Place> {
        let stages = self.stages.iter().enumerate();
        stages.flat_map(|(at, stage)| (0..stage.aims.len()).map(move |aim| (at, aim))).collect()
    }

    fn aim(&mut self, (stage, aim): Place) -> Option<&mut Aim> {
        self.stages.get_mut(stage)?.aims.get_mut(aim)
    }

    fn last_aim(&mut self) -> Option<&mut Aim> {
        self.aim(self.last?)
    }

    fn take(&mut self, order: &[Place]) -> Option<Choice> {
        for place in order {
            let pool = self.pool.clone();
            match self.aim(*place)?.take(&pool) {
                Ok(pass) => return self.taken(*place, pass),
                Err(Some(down)) => self.down = Some(sooner(self.down, down)),
                Err(None) => {}
            }
        }
        for place in order {
            let pool = self.pool.clone();
            if let Some(pass) = self.aim(*place)?.take_resting(&pool) {
                return self.taken(*place, Some(pass));
            }
        }
        None
    }

    fn taken(&mut self, place: Place, pass: Option<Pass>) -> Option<Choice> {
        self.attempts_left -= 1;
        self.last = Some(place);
        let stage = self.stages.get_mut(place.0)?;
        let of = (&stage.model, stage.why);
        let aim = stage.aims.get_mut(place.1)?;
        aim.tries += 1;
        Some(aim.choice(of, pass))
    }
}
