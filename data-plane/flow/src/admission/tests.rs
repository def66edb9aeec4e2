use std::num::NonZeroU64;

use super::*;

fn fixed(requests: u64, tokens: u64) -> capacity::Settings {
    capacity::Settings {
        max_requests: NonZeroU64::new(requests),
        max_tokens: NonZeroU64::new(tokens),
        small_percent: 25,
        adaptive: None,
    }
}

fn wide() -> Bounds {
    Bounds { length: 1_000, tenant_percent: 100, wait_ms: 2_000 }
}

/// A target's door, and the names of those who were told something.
struct Door {
    admission: Admission<&'static str>,
    tenant: Arc<str>,
}

impl Door {
    fn new(requests: u64, tokens: u64) -> Self {
        let admission = Admission::new(fixed(requests, tokens), wide());
        Self { admission, tenant: "t".into() }
    }

    fn enter(&mut self, cost: u64, now_ms: u64) -> Result<Slot, Refused> {
        let request = Request { tenant: &self.tenant, weight: 1, class: Class::Default, cost };
        self.admission.enter(&request, now_ms)
    }

    fn wait(&mut self, name: &'static str, cost: u64, now_ms: u64) -> Result<Ticket, Refused> {
        let request = Request { tenant: &self.tenant, weight: 1, class: Class::Default, cost };
        self.admission.wait(&request, now_ms + 60_000, name, now_ms).map(|waiting| waiting.ticket)
    }

    fn gone(&mut self, now_ms: u64) -> Vec<(&'static str, Slot)> {
        let next = std::iter::from_fn(|| self.admission.next(now_ms));
        next.map(|next| match next {
            Next::Go(name, slot) => (name, slot),
            Next::Refused(name, refused) => panic!("{name}: {refused}"),
        })
        .collect()
    }
}

#[test]
fn b3_small_ones_pass_a_large_one_that_waits_in_their_share_only() {
    let mut door = Door::new(0, 1_000);
    let mut small: Vec<_> = (0..10).map(|_| door.enter(100, 0).unwrap()).collect();
    assert!(door.enter(1_000_000, 0).is_err());
    door.wait("large", 1_000_000, 0).unwrap();
    for name in ["a", "b", "c"] {
        assert!(door.enter(100, 0).is_err());
        door.wait(name, 100, 0).unwrap();
    }
    // Seven leave: the three that are left fill more than the share of the small.
    for _ in 0..7 {
        door.admission.leave(small.pop().unwrap(), 10, 10);
        assert!(door.gone(10).is_empty());
    }
    // One more, and the large one goes, as what is left is within the share of the small.
    door.admission.leave(small.pop().unwrap(), 20, 20);
    let mut inside = door.gone(20);
    assert_eq!(inside.len(), 1);
    assert_eq!(inside[0].0, "large");
    // As small ones end, small ones come.
    door.admission.leave(small.pop().unwrap(), 30, 30);
    inside.extend(door.gone(30));
    assert_eq!(inside.last().unwrap().0, "a");
    // And when the large one ends, all of them.
    door.admission.leave(inside.swap_remove(0).1, 40, 40);
    assert_eq!(door.gone(40).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn b3_a_small_newcomer_is_not_held_up_by_large_ones_that_wait() {
    let mut door = Door::new(0, 1_000);
    let _large = door.enter(1_000_000, 0).unwrap();
    door.wait("large", 1_000_000, 0).unwrap();
    let small: Vec<_> = (0..9).map_while(|_| door.enter(100, 0).ok()).collect();
    assert_eq!(small.len(), 2, "a quarter of a thousand");
}

#[test]
fn b2_a_line_that_is_much_too_long_is_not_joined() {
    let mut door = Door::new(10, 0);
    // Ten at once of a second each: ten a second.
    let slots: Vec<_> = (0..10).map(|_| door.enter(1, 0).unwrap()).collect();
    slots.into_iter().for_each(|slot| door.admission.leave(slot, 1_000, 1_000));
    let _slots: Vec<_> = (0..10).map(|_| door.enter(1, 1_000).unwrap()).collect();
    let refused = door.enter(1, 1_000).unwrap_err();
    assert_eq!(refused, Refused::Full { wait_ms: 1_000 }, "they came in together");
    let joined = (0..100).take_while(|_| door.wait("x", 1, 1_000).is_ok()).count();
    assert_eq!(joined, 40, "twice what two seconds are for");
    assert_eq!(door.wait("x", 1, 1_000), Err(Refused::Late { wait_ms: 4_100 }));
}

#[test]
fn b2_who_became_too_late_is_told_when_its_turn_comes() {
    let mut door = Door::new(1, 0);
    let slot = door.enter(1, 0).unwrap();
    let request = Request { tenant: &door.tenant, weight: 1, class: Class::Default, cost: 1 };
    door.admission.wait(&request, 1_000, "late", 0).unwrap();
    // First events have become slower than its deadline allows.
    (0..100).for_each(|n| door.admission.first_event(900, 10, n));
    door.admission.leave(slot, 200, 200);
    let told = door.admission.next(200);
    assert!(matches!(told, Some(Next::Refused("late", Refused::Late { .. }))), "{told:?}");
    assert!(door.enter(1, 200).is_ok());
}

#[test]
fn c10_a_more_urgent_one_takes_the_place_of_another() {
    let mut door = Door::new(1, 0);
    door.admission.set(fixed(1, 0), Bounds { length: 1, ..wide() });
    let _slot = door.enter(1, 0).unwrap();
    door.wait("default", 1, 0).unwrap();
    assert!(matches!(door.wait("more", 1, 0), Err(Refused::Crowded { .. })));
    let request = Request { tenant: &door.tenant, weight: 1, class: Class::Critical, cost: 1 };
    let waiting = door.admission.wait(&request, 60_000, "critical", 0).unwrap();
    assert!(matches!(waiting.displaced, Some(("default", Refused::Crowded { .. }))));
}
