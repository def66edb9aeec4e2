//! What may be tried for one request, and what of it is next.

use std::sync::Arc;

use sluicegate_dialect::Endpoint;
use sluicegate_flow::{
    Class,
    admission::{Refused as Crowded, Request},
    choice::Pick,
    gate::Gate,
};
use sluicegate_model::{
    Outcome,
    outcome::Blame,
    resource::{Again, LastResort},
};
use sluicegate_protocol::{breaker::Refused, pool::Down};

use super::{Choice, Why, stages};
use crate::{
    policy::{Credential, Model, Policy, Provider},
    pool::{Pass, Pool, sooner},
    target::{Room, Target, Trip},
};

/// What may be tried for one request, best first.
#[derive(Debug)]
pub struct Plan<'p> {
    policy: &'p Policy,
    endpoint: Endpoint,
    pool: Arc<Pool>,
    stages: Vec<Stage>,
    attempts_left: u32,
    /// What the request is for whoever chooses among targets.
    load: Load,
    /// What was tried last.
    last: Option<Place>,
    /// Whose failure it was.
    blame: Option<Blame>,
    /// What stands in the way of what was not tried.
    obstacles: Obstacles,
    /// Other models stand in for this one now, since it cannot take the request.
    diverted: bool,
}

/// How much a request is, and whose.
#[derive(Debug, Clone, Default)]
pub struct Load {
    pub prompt_tokens: u64,
    /// With those that may be generated.
    pub tokens: u64,
    /// Names how its prompt begins.
    pub prefix: u64,
    pub tenant: Arc<str>,
    /// The tenant's share among those that wait.
    pub weight: u32,
    pub class: Class,
}

impl Load {
    /// As those see it who have room.
    pub fn request(&self) -> Request<'_> {
        let Self { tenant, weight, class, tokens, .. } = self;
        Request { tenant, weight: *weight, class: *class, cost: *tokens }
    }
}

/// What stands in the way of choices that were not tried: of each kind, what is over first.
#[derive(Debug, Clone, Default)]
pub struct Obstacles {
    /// A key is out of use.
    pub down: Option<Down>,
    /// A target is left alone.
    pub shut: Option<Shut>,
    /// A target is full; for how long, in milliseconds.
    pub full: Option<Full>,
}

/// A target that is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shut {
    pub provider: String,
    pub refused: Refused,
}

/// A target that is full.
#[derive(Debug, Clone)]
pub struct Full {
    pub provider: String,
    pub wait_ms: u64,
    pub(super) place: Place,
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
    pub(super) target: Arc<Target>,
    pub(super) weight: u32,
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
    Try(Box<Choice>),
    /// Only what has failed is left; it may be asked again, for the time of this number.
    Again { tries: u32 },
    /// Nothing is left.
    Over,
}

impl Aim {
    fn choice(&self, stage: (&Arc<Model>, Option<Why>), pass: Option<Pass>, trip: Trip) -> Choice {
        Choice {
            provider: self.provider.clone(),
            credential: pass.as_ref().map(|pass| pass.credential().clone()),
            model: self.model.clone(),
            serves: stage.0.clone(),
            why: stage.1,
            pass,
            trip,
            suspect: None,
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

    /// Nothing of it was left untried?
    fn is_spent(&self) -> bool {
        !self.keyless && self.untried.is_empty()
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
        load: Load,
    ) -> Self {
        Self {
            policy,
            endpoint,
            pool,
            stages,
            attempts_left,
            load,
            last: None,
            blame: None,
            obstacles: Obstacles::default(),
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

    /// What stood in the way of what was not tried, when the plan was last asked.
    pub fn obstacles(&self) -> &Obstacles {
        &self.obstacles
    }

    /// How much the request is.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// It is as much as this.
    pub fn set_tokens(&mut self, prompt: u64, all: u64) {
        self.load.prompt_tokens = prompt;
        self.load.tokens = all;
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
        self.obstacles = Obstacles::default();
        let found = match (self.blame, self.last) {
            (Some(Blame::Upstream), Some(last)) => {
                self.look(|place| place != last).or_else(|| self.look(|place| place == last))
            }
            (Some(Blame::Credential), Some(last)) => {
                self.look(|place| place == last).or_else(|| self.look(|place| place != last))
            }
            _ => self.look(|_| true),
        };
        if let Some(choice) = found.or_else(|| self.look_for_resting()) {
            return Next::Try(Box::new(choice));
        }
        let tries = self.again().map(|place| self.aim(place).map_or(0, |aim| aim.tries));
        tries.map_or(Next::Over, |tries| Next::Again { tries })
    }

    /// The target that was full has room now: goes there, if it still can.
    pub fn enter(&mut self, full: &Full, room: Room) -> Option<Choice> {
        self.obstacles.full = None;
        let taken = self.taken(full.place, Some(room));
        taken.ok().flatten()
    }

    /// It was waited for in vain.
    pub fn still_full(&mut self, full: &Full, refused: Crowded) {
        if let Some(known) = &mut self.obstacles.full
            && known.place == full.place
        {
            known.wait_ms = refused.wait_ms();
        }
    }

    /// Where a full target is waited for, and as what.
    pub fn door(&mut self, full: &Full) -> Option<(Arc<Gate>, &Load)> {
        let gate = self.aim(full.place)?.target.gate().clone();
        Some((gate, &self.load))
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

    /// The first choice there is among these places.
    fn look(&mut self, allowed: impl Fn(Place) -> bool) -> Option<Choice> {
        for stage in 0..self.stages.len() {
            let mut left: Vec<usize> = self
                .stages
                .get(stage)?
                .aims
                .iter()
                .enumerate()
                .filter(|(aim, it)| allowed((stage, *aim)) && !it.is_spent())
                .map(|(aim, _)| aim)
                .collect();
            while !left.is_empty() {
                let turn = self.turn(stage, &left);
                let place = (stage, left.swap_remove(turn));
                if let Ok(Some(choice)) = self.taken(place, None) {
                    return Some(choice);
                }
            }
        }
        None
    }

    /// Whose turn it is among these aims of a stage: its place in the list. Where all are left alone,
    /// the first is asked how long.
    fn turn(&self, stage: usize, left: &[usize]) -> usize {
        let Some(stage) = self.stages.get(stage) else { return 0 };
        let aims = left.iter().filter_map(|aim| stage.aims.get(*aim));
        let targets: Vec<_> = aims.map(|aim| (&aim.target, aim.weight)).collect();
        let Load { prompt_tokens, tokens, prefix, .. } = self.load;
        let pick = Pick { cost: tokens, prefix, random: fastrand::u64(..) };
        let choosing = &stage.model.group.choosing;
        choosing.choose(stage.priority, &targets, prompt_tokens, &pick).unwrap_or(0)
    }

    /// Goes there: through the breaker, with a key, and if there is room. `Err`: something is in the
    /// way, and noted.
    fn taken(&mut self, place: Place, room: Option<Room>) -> Result<Option<Choice>, ()> {
        let pool = self.pool.clone();
        let (prompt_tokens, request) = (self.load.prompt_tokens, self.load.clone());
        let Some(aim) = self.aim(place) else { return Ok(None) };
        let target = aim.target.clone();
        let mut trip = match target.admit(prompt_tokens) {
            Ok(trip) => trip,
            Err(refused) => {
                let provider = aim.provider.name.clone();
                self.obstacles.shut(Shut { provider, refused });
                return Err(());
            }
        };
        match room.map_or_else(|| target.gate().try_enter(&request.request()), Ok) {
            Ok(room) => trip.takes(room),
            Err(full) => {
                let provider = aim.provider.name.clone();
                self.obstacles.full(Full { provider, wait_ms: full.wait_ms(), place });
                return Err(());
            }
        }
        let pass = match aim.take(&pool) {
            Ok(pass) => pass,
            Err(down) => {
                if let Some(down) = down {
                    self.obstacles.down = Some(sooner(self.obstacles.down, down));
                }
                return Err(());
            }
        };
        Ok(self.choose(place, pass, trip))
    }

    /// A key that rests, where nothing better is left and its provider wants that.
    fn look_for_resting(&mut self) -> Option<Choice> {
        let pool = self.pool.clone();
        for place in self.places() {
            let (prompt_tokens, request) = (self.load.prompt_tokens, self.load.clone());
            let aim = self.aim(place)?;
            let Some(pass) = aim.take_resting(&pool) else { continue };
            let Ok(mut trip) = aim.target.admit(prompt_tokens) else { continue };
            let Ok(room) = aim.target.gate().try_enter(&request.request()) else { continue };
            trip.takes(room);
            return self.choose(place, Some(pass), trip);
        }
        None
    }

    fn choose(&mut self, place: Place, pass: Option<Pass>, trip: Trip) -> Option<Choice> {
        self.attempts_left -= 1;
        self.last = Some(place);
        let stage = self.stages.get_mut(place.0)?;
        let of = (&stage.model, stage.why);
        let aim = stage.aims.get_mut(place.1)?;
        aim.tries += 1;
        Some(aim.choice(of, pass, trip))
    }
}

impl Obstacles {
    fn shut(&mut self, shut: Shut) {
        if self.shut.as_ref().is_none_or(|known| shut.refused.left_ms < known.refused.left_ms) {
            self.shut = Some(shut);
        }
    }

    fn full(&mut self, full: Full) {
        if self.full.as_ref().is_none_or(|known| full.wait_ms < known.wait_ms) {
            self.full = Some(full);
        }
    }

    /// How long until the first of them may be over, if that is known. Milliseconds.
    pub fn left_ms(&self) -> Option<u64> {
        let shut = self.shut.as_ref().map(|shut| shut.refused.left_ms);
        let down = self.down.map(|down| down.left_ms);
        let full = self.full.as_ref().map(|full| full.wait_ms);
        [shut, down, full].into_iter().flatten().min()
    }
}
