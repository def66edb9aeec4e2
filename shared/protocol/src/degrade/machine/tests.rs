use std::time::Duration;

use proptest::prelude::*;
use sluicegate_model::resource::degradation::{Action, Step, ToolPattern};

use super::*;

fn step(level: u32, enter: &str, leave: &str, held_ms: u64) -> Step {
    let action = match Level::of(level).unwrap() {
        Level::Normal | Level::SomeTools => {
            Action::StripTools(ToolPattern::parse("shell").into_iter().collect())
        }
        Level::AllTools => Action::StripAllTools,
        Level::Maintenance => Action::Reply("later".into()),
    };
    let conditions = (!enter.is_empty()).then(|| Conditions {
        enter: Expression::parse(enter).unwrap(),
        leave: (!leave.is_empty()).then(|| Expression::parse(leave).unwrap()),
        held_for: Duration::from_millis(held_ms),
    });
    Step { action, conditions }
}

fn degradation(steps: Vec<Step>) -> Degradation {
    Degradation {
        name: "d".into(),
        models: Vec::new(),
        tenants: Vec::new(),
        steps,
        sources: Vec::new(),
        tool_timeout_window: Duration::from_secs(60),
        manual: None,
    }
}

fn spec() -> Degradation {
    degradation(vec![
        step(1, "max(mem) > 0.85", "max(mem) < 0.7", 1_000),
        step(2, "tool_timeouts >= 2", "", 0),
        step(3, "max(mem) > 0.95 && breaker_open > 0", "max(mem) < 0.8", 0),
    ])
}

/// Memory, timeouts and breaker.
type Known = (Option<f64>, Option<f64>, Option<f64>);

fn observe(machine: &mut Machine, now_ms: u64, known: Known) -> Option<(u32, u32)> {
    let read = |reading: &Reading| match reading {
        Reading::Metric { .. } => known.0,
        Reading::ToolTimeouts => known.1,
        Reading::BreakerOpen => known.2,
    };
    let transition = machine.observe(now_ms, &read)?;
    Some((transition.from.number(), transition.to.number()))
}

#[test]
fn b4_memory_begins_a_level_after_a_while_and_ends_it_lower() {
    let mut machine = Machine::new(&spec());
    let memory = |value: f64| (Some(value), Some(0.0), Some(0.0));
    assert_eq!(observe(&mut machine, 0, memory(0.9)), None);
    assert_eq!(observe(&mut machine, 999, memory(0.9)), None);
    assert_eq!(observe(&mut machine, 1_000, memory(0.9)), Some((0, 1)));
    let values = vec![("max(mem)".to_owned(), 0.9)];
    let condition = "max(mem) > 0.85".to_owned();
    let standing = machine.standing(1_000).clone();
    assert_eq!(standing.reason, Reason::Readings { condition, values });
    assert_eq!((standing.level, standing.since_ms), (Level::SomeTools, 1_000));
    // Between both thresholds nothing changes; below the lower one only after a while.
    assert_eq!(observe(&mut machine, 5_000, memory(0.75)), None);
    assert_eq!(observe(&mut machine, 6_000, memory(0.6)), None);
    assert_eq!(observe(&mut machine, 6_500, memory(0.75)), None, "a break begins it anew");
    assert_eq!(observe(&mut machine, 7_000, memory(0.6)), None);
    assert_eq!(observe(&mut machine, 7_900, memory(0.6)), None);
    assert_eq!(observe(&mut machine, 8_000, memory(0.6)), Some((1, 0)));
}

#[test]
fn b4_the_highest_level_that_has_begun_holds() {
    let mut machine = Machine::new(&spec());
    assert_eq!(observe(&mut machine, 0, (Some(0.5), Some(2.0), Some(0.0))), Some((0, 2)));
    assert_eq!(observe(&mut machine, 1, (Some(0.99), Some(2.0), Some(0.2))), Some((2, 3)));
    assert_eq!(observe(&mut machine, 2, (Some(0.9), Some(0.0), Some(0.0))), None, "2 ended below");
    assert_eq!(observe(&mut machine, 1_500, (Some(0.9), Some(0.0), Some(0.0))), None);
    assert_eq!(observe(&mut machine, 1_501, (Some(0.75), Some(0.0), Some(0.0))), Some((3, 1)));
}

#[test]
fn b4_what_is_not_known_neither_begins_nor_ends() {
    let mut machine = Machine::new(&spec());
    assert_eq!(observe(&mut machine, 0, (None, None, Some(1.0))), None);
    assert_eq!(observe(&mut machine, 1, (None, Some(3.0), None)), Some((0, 2)));
    assert_eq!(observe(&mut machine, 2, (None, None, None)), None);
    assert_eq!(observe(&mut machine, u64::MAX, (None, None, None)), None);
    assert_eq!(observe(&mut machine, 3, (Some(f64::NAN), Some(f64::NAN), None)), None);
    assert_eq!(observe(&mut machine, 4, (None, Some(0.0), None)), Some((2, 0)));
}

#[test]
fn b4_an_operators_level_outranks_until_it_ends() {
    let mut machine = Machine::new(&spec());
    let manual = |level, until_ms| Some(Manual { level, until_ms, comment: "drill".into() });
    let set = machine.set_by_hand(manual(Level::Maintenance, 1_000), 10).unwrap();
    assert_eq!((set.from, set.to), (Level::Normal, Level::Maintenance));
    assert_eq!(set.reason, Reason::ByHand { comment: "drill".into() });
    let many = (Some(0.1), Some(9.0), Some(0.0));
    assert_eq!(observe(&mut machine, 20, many), None, "it begins behind the operator's back");
    assert_eq!(machine.automatic(), Level::AllTools);
    assert_eq!(machine.standing(999).level, Level::Maintenance);
    assert_eq!(observe(&mut machine, 1_000, many), Some((3, 2)));
    assert_eq!(machine.standing(1_000).reason, Reason::HandEnded);
    // Also downwards, and without any observation.
    assert!(machine.set_by_hand(manual(Level::Normal, 2_000), 1_100).is_some());
    assert_eq!(machine.standing(1_999).level, Level::Normal);
    assert_eq!(machine.standing(2_000).level, Level::AllTools);
    assert_eq!(machine.set_by_hand(manual(Level::Maintenance, 5), 3_000), None, "it is over");
    assert!(machine.set_by_hand(manual(Level::AllTools, u64::MAX), 3_000).is_none());
    assert_eq!(machine.standing(3_000).reason, Reason::ByHand { comment: "drill".into() });
    assert!(machine.set_by_hand(None, 3_001).is_none(), "the same level, now by itself");
    assert_eq!(machine.standing(3_001).reason, Reason::HandEnded);
}

#[test]
fn b4_a_change_keeps_levels_whose_conditions_stay() {
    let mut machine = Machine::new(&spec());
    observe(&mut machine, 0, (Some(0.99), Some(2.0), Some(1.0)));
    let mut changed = spec();
    changed.steps.retain(|step| step.action.level() != Level::AllTools);
    assert_eq!(machine.redefine(&changed, 5), None);
    assert_eq!(machine.standing(5).level, Level::Maintenance);
    changed.steps = vec![step(3, "max(mem) > 0.97", "", 0)];
    let transition = machine.redefine(&changed, 6).unwrap();
    assert_eq!((transition.to, transition.reason), (Level::Normal, Reason::Redefined));
}

#[test]
fn b4_levels_by_hand_alone_never_begin() {
    let mut machine = Machine::new(&degradation(vec![step(2, "", "", 0)]));
    assert_eq!(observe(&mut machine, 0, (Some(9.0), Some(9.0), Some(9.0))), None);
}

proptest! {
    /// Between the thresholds nothing ever changes, and no two changes of a level are closer than the
    /// time that its conditions must hold.
    #[test]
    fn b4_hysteresis_never_flaps(
        values in prop::collection::vec((prop::option::of(0.0..1.0_f64), 1..700_u64), 1..200),
    ) {
        let mut machine = Machine::new(&degradation(vec![
            step(1, "max(mem) > 0.85", "max(mem) < 0.7", 1_000),
        ]));
        let (mut now, mut changed) = (0, None);
        for (memory, gap) in values {
            now += gap;
            if let Some((_, to)) = observe(&mut machine, now, (memory, None, None)) {
                let memory = memory.unwrap();
                let beyond = if to == 1 { memory > 0.85 } else { memory < 0.7 };
                prop_assert!(beyond);
                prop_assert!(changed.is_none_or(|before| now - before >= 1_000));
                changed = Some(now);
            }
        }
    }

    /// Whatever clocks say, it does not panic, and says the same of the same time twice.
    #[test]
    fn b4_clocks_may_be_absurd(times in prop::collection::vec(any::<u64>(), 1..40), mem in 0.0..1.0_f64) {
        let mut machine = Machine::new(&spec());
        for now in times {
            let manual = Manual { level: Level::AllTools, until_ms: now / 2, comment: String::new() };
            machine.set_by_hand((now % 3 == 0).then_some(manual), now);
            observe(&mut machine, now, (Some(mem), Some(2.0), None));
            let standing = machine.standing(now).clone();
            prop_assert_eq!(&standing, machine.standing(now));
        }
    }
}
