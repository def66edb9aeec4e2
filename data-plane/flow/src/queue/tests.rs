use proptest::prelude::*;

use super::*;

fn newcomer<T>(tenant: &str, weight: u32, class: Class, cost: u64, payload: T) -> Newcomer<T> {
    Newcomer {
        tenant: tenant.into(),
        weight,
        class,
        cost,
        room: cost,
        large: false,
        deadline_ms: u64::MAX,
        service_ms: 0,
        payload,
    }
}

fn wide() -> Bounds {
    Bounds { length: 100_000, tenant_percent: 100, wait_ms: 1_000_000 }
}

fn serve<T>(queue: &mut Queue<T>, lanes: Lanes, now_ms: u64) -> Option<Item<T>> {
    let (ticket, _) = queue.head(lanes)?;
    queue.serve(ticket, now_ms)
}

#[test]
fn b3_tenants_share_by_weight_and_cost() {
    check([(1, 100), (1, 100)], [0.5, 0.5]);
    check([(3, 100), (1, 100)], [0.75, 0.25]);
    check([(1, 1_000), (1, 10)], [0.5, 0.5]);
    check([(2, 10_000), (1, 10)], [0.667, 0.333]);

    #[track_caller]
    fn check(tenants: [(u32, u64); 2], expected: [f64; 2]) {
        let mut queue = Queue::new(wide());
        let mut served = [0_u64; 2];
        // Each always has some waiting, the first came long before.
        let add = |queue: &mut Queue<usize>, at: usize| {
            let (weight, cost) = tenants[at];
            let name = format!("t{at}");
            queue.push(newcomer(&name, weight, Class::Default, cost, at), 0).unwrap();
        };
        (0..50).for_each(|_| add(&mut queue, 0));
        (0..50).for_each(|_| add(&mut queue, 1));
        while served.iter().sum::<u64>() < 10_000_000 {
            let item = serve(&mut queue, Lanes::All, 0).unwrap();
            served[item.payload] += item.cost;
            add(&mut queue, item.payload);
        }
        for at in 0..2 {
            let share = served[at] as f64 / served.iter().sum::<u64>() as f64;
            assert!((share - expected[at]).abs() < 0.01, "{share} of {expected:?}");
        }
    }
}

#[test]
fn a_tenant_that_was_quiet_saves_nothing_up() {
    let mut queue = Queue::new(wide());
    for n in 0..100 {
        queue.push(newcomer("busy", 1, Class::Default, 100, n), 0).unwrap();
    }
    // One that comes once, and is remembered for it.
    queue.push(newcomer("quiet", 1, Class::Default, 100, 0), 0).unwrap();
    (0..51).for_each(|_| drop(serve(&mut queue, Lanes::All, 0).unwrap()));
    assert_eq!(queue.tenants.get("quiet"), None);
    for n in 0..100 {
        queue.push(newcomer("quiet", 1, Class::Default, 100, n), 0).unwrap();
    }
    let next: Vec<_> = (0..20).map(|_| serve(&mut queue, Lanes::All, 0).unwrap().tenant).collect();
    let quiet = next.iter().filter(|tenant| &***tenant == "quiet").count();
    assert!((10..=11).contains(&quiet), "{next:?}");
}

#[test]
fn c10_classes_are_strict_but_for_a_tenth() {
    let mut queue = Queue::new(wide());
    let mut served = [0_u64; 4];
    let add = |queue: &mut Queue<()>, class: Class| {
        queue.push(newcomer("t", 1, class, 100, ()), 0).unwrap();
    };
    for class in Class::ALL {
        (0..10).for_each(|_| add(&mut queue, class));
    }
    for _ in 0..10_000 {
        let item = serve(&mut queue, Lanes::All, 0).unwrap();
        served[item.class as usize] += 1;
        add(&mut queue, item.class);
    }
    println!("of 10000 by class: {served:?}");
    check(served[0], 9_000);
    check(served[1], 900);
    check(served[2], 90);
    check(served[3], 10);

    #[track_caller]
    fn check(count: u64, expected: u64) {
        assert!(count.abs_diff(expected) <= expected / 10 + 2, "{count}, not {expected}");
    }
}

#[test]
fn c10_a_less_urgent_one_that_is_large_is_owed_before_it_goes() {
    let mut queue = Queue::new(wide());
    queue.push(newcomer("t", 1, Class::Batch, 10_000, ()), 0).unwrap();
    let mut before = 0;
    loop {
        queue.push(newcomer("t", 1, Class::Critical, 100, ()), 0).unwrap();
        let item = serve(&mut queue, Lanes::All, 0).unwrap();
        if item.class == Class::Batch {
            break;
        }
        before += item.cost;
    }
    assert!((90_000..92_000).contains(&before), "{before}");
}

#[test]
fn c10_length_is_bounded_for_all_and_for_each_tenant() {
    let bounds = Bounds { length: 10, tenant_percent: 50, ..wide() };
    let mut queue = Queue::new(bounds);
    for n in 0..5 {
        queue.push(newcomer("a", 1, Class::Default, 1, n), 0).unwrap();
    }
    let refused = queue.push(newcomer("a", 1, Class::Default, 1, 5), 0);
    assert!(matches!(refused, Err(PushError::Tenant(5))));
    // A more urgent one takes the place of one of its own tenant.
    let pushed = queue.push(newcomer("a", 1, Class::Critical, 1, 5), 0).unwrap();
    assert_eq!(pushed.displaced.unwrap().payload, 4);
    for n in 0..5 {
        queue.push(newcomer("b", 1, Class::Batch, 1, n), 0).unwrap();
    }
    assert!(matches!(queue.push(newcomer("c", 1, Class::Batch, 1, 9), 0), Err(PushError::Full(9))));
    // A more urgent one takes the place of the newest of the least urgent.
    let pushed = queue.push(newcomer("c", 1, Class::Default, 1, 9), 0).unwrap();
    let displaced = pushed.displaced.unwrap();
    assert_eq!((&*displaced.tenant, displaced.payload), ("b", 4));
    assert_eq!(queue.len(), 10);
    let mut none = Queue::new(Bounds { length: 0, ..bounds });
    assert!(matches!(
        none.push(newcomer("a", 1, Class::Critical, 1, 0), 0),
        Err(PushError::Full(0))
    ));
}

#[test]
fn b2_nobody_waits_longer_than_it_may_or_for_what_comes_too_late() {
    let mut queue = Queue::new(Bounds { wait_ms: 2_000, ..wide() });
    let mut push = |payload, deadline_ms, service_ms, now_ms| {
        let newcomer = newcomer("t", 1, Class::Default, 1, payload);
        queue.push(Newcomer { deadline_ms, service_ms, ..newcomer }, now_ms).unwrap().until_ms
    };
    assert_eq!(push("long", 60_000, 500, 100), 2_100);
    assert_eq!(push("short", 1_500, 500, 100), 1_000);
    assert_eq!(push("late", 50, 500, 100), 0);
    let mut expired = |now_ms| queue.expired(now_ms).map(|item| item.payload);
    assert_eq!(expired(100), Some("late"));
    assert_eq!(expired(999), None);
    assert_eq!(expired(2_100), Some("short"));
    assert_eq!(expired(2_100), Some("long"));
    assert_eq!((expired(9_999), queue.next_expiry_ms()), (None, None));
}

#[test]
fn c10_the_newest_go_first_while_it_is_late() {
    let mut queue = Queue::new(wide());
    let serve_at = |queue: &mut Queue<u64>, now_ms| {
        queue.push(newcomer("t", 1, Class::Default, 1, now_ms), now_ms).unwrap();
        serve(queue, Lanes::All, now_ms).unwrap().payload
    };
    for n in 0..10 {
        queue.push(newcomer("t", 1, Class::Default, 1, n), n).unwrap();
    }
    assert_eq!(serve_at(&mut queue, 400), 0, "in the order of coming");
    assert_eq!(serve_at(&mut queue, 600), 1, "late, but not for long");
    assert_eq!(serve_at(&mut queue, 1_500), 2);
    assert_eq!(serve_at(&mut queue, 1_700), 1_700, "late for a second");
    assert!(queue.newest_first(Class::Default) && !queue.newest_first(Class::Batch));
    // Once the old ones are gone it is as before.
    while queue.oldest_ms(1_900) > 500 {
        let (_, oldest) = *queue.until.first().unwrap();
        queue.cancel(oldest, 1_900).unwrap();
    }
    queue.push(newcomer("t", 1, Class::Default, 1, 1_901), 1_901).unwrap();
    assert!(!queue.newest_first(Class::Default));
}

#[test]
fn b3_small_ones_can_be_asked_for_alone() {
    let mut queue = Queue::new(wide());
    let large = Newcomer { large: true, ..newcomer("a", 1, Class::Default, 1_000_000, "large") };
    queue.push(large, 0).unwrap();
    assert!(queue.has(Lanes::All) && !queue.has(Lanes::Small));
    queue.push(newcomer("a", 1, Class::Default, 10, "own"), 0).unwrap();
    queue.push(newcomer("b", 1, Class::Default, 10, "other"), 0).unwrap();
    assert_eq!(queue.head(Lanes::All).unwrap().1.payload, "large");
    let mut small = || serve(&mut queue, Lanes::Small, 0).map(|item| item.payload);
    assert_eq!((small(), small(), small()), (Some("own"), Some("other"), None));
    assert_eq!(serve(&mut queue, Lanes::All, 0).unwrap().payload, "large");
}

#[test]
fn a7_what_goes_before_is_by_the_tenants_share() {
    let mut queue = Queue::new(wide());
    let before = |queue: &Queue<()>, class, tenant: &str, weight| {
        queue.before(class, &tenant.into(), weight)
    };
    (0..100).for_each(|_| drop(queue.push(newcomer("busy", 1, Class::Default, 10, ()), 0)));
    assert_eq!(before(&queue, Class::Default, "busy", 1), (100.0, 1_000.0));
    assert_eq!(before(&queue, Class::Default, "quiet", 1), (1.0, 10.0), "they take turns");
    assert_eq!(before(&queue, Class::Default, "light", 0), (1.0, 10.0));
    assert_eq!(before(&queue, Class::Default, "heavy", 4), (0.25, 2.5));
    (0..4).for_each(|_| drop(queue.push(newcomer("quiet", 1, Class::Default, 10, ()), 0)));
    assert_eq!(before(&queue, Class::Default, "quiet", 1).0, 9.0);
    assert_eq!(before(&queue, Class::Batch, "quiet", 1).0, 104.0);
    assert_eq!(before(&queue, Class::Critical, "busy", 1), (0.0, 0.0));
}

#[derive(Debug, Clone)]
enum Step {
    Push { tenant: u8, weight: u32, class: usize, cost: u64, large: bool, deadline_ms: u64 },
    Serve(bool),
    Cancel(usize),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let cost = prop_oneof![0..5_000_u64, Just(u64::MAX)];
    let deadline_ms = prop_oneof![0..20_000_u64, Just(u64::MAX)];
    let push = (0..5_u8, 0..4_u32, 0..4_usize, cost, any::<bool>(), deadline_ms);
    let push = push.prop_map(|(tenant, weight, class, cost, large, deadline_ms)| Step::Push {
        tenant,
        weight,
        class,
        cost,
        large,
        deadline_ms,
    });
    let step = prop_oneof![
        5 => push,
        3 => any::<bool>().prop_map(Step::Serve),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => Just(Step::Expire),
    ];
    prop::collection::vec((0..300_u64, step), 0..300)
}

proptest! {
    /// Whatever happens, everyone who came is served, cancelled, displaced or expired exactly once, in
    /// bounds, and nothing is left of it.
    #[test]
    fn c10_nobody_is_lost_and_nothing_stays(steps in steps(), length in 0..40_usize, percent in 0..=100_u8) {
        let bounds = Bounds { length, tenant_percent: percent, wait_ms: 2_000 };
        let mut queue = Queue::new(bounds);
        let mut waiting = std::collections::BTreeMap::new();
        let mut now_ms = 0;
        let mut count = 0_u64;
        for (after_ms, step) in steps {
            now_ms += after_ms;
            match step {
                Step::Push { tenant, weight, class, cost, large, deadline_ms } => {
                    count += 1;
                    let class = Class::ALL[class];
                    let newcomer = newcomer(&format!("{tenant}"), weight, class, cost, count);
                    if let Ok(pushed) = queue.push(Newcomer { large, deadline_ms, ..newcomer }, now_ms) {
                        prop_assert!(pushed.until_ms <= now_ms + 2_000);
                        if let Some(item) = pushed.displaced {
                            prop_assert!(item.class > class);
                            prop_assert!(waiting.remove(&item.payload).is_some());
                        }
                        waiting.insert(count, pushed.ticket);
                    }
                }
                Step::Serve(small) => {
                    let lanes = if small { Lanes::Small } else { Lanes::All };
                    prop_assert_eq!(queue.has(lanes), queue.head(lanes).is_some());
                    if let Some(item) = serve(&mut queue, lanes, now_ms) {
                        prop_assert!(!(small && item.large));
                        prop_assert!(waiting.remove(&item.payload).is_some());
                    }
                }
                Step::Cancel(which) => {
                    if !waiting.is_empty() {
                        let (id, ticket) = waiting.iter().nth(which % waiting.len()).unwrap();
                        let (id, ticket) = (*id, *ticket);
                        waiting.remove(&id);
                        prop_assert_eq!(queue.cancel(ticket, now_ms).unwrap().payload, id);
                        prop_assert!(queue.cancel(ticket, now_ms).is_none());
                    }
                }
                Step::Expire => while let Some(item) = queue.expired(now_ms) {
                    prop_assert!(item.until_ms <= now_ms);
                    prop_assert!(waiting.remove(&item.payload).is_some());
                },
            }
            prop_assert!(queue.len() <= length);
            prop_assert_eq!(queue.len(), waiting.len());
            prop_assert_eq!(queue.lines.iter().map(Line::len).sum::<usize>(), waiting.len());
        }
        while let Some(item) = serve(&mut queue, Lanes::All, now_ms) {
            prop_assert!(waiting.remove(&item.payload).is_some());
        }
        prop_assert!(waiting.is_empty() && queue.is_empty() && queue.tenants.is_empty());
        prop_assert_eq!(queue.before(Class::Batch, &"0".into(), 1), (0.0, 0.0));
        prop_assert!(queue.lines.iter().all(|line| line.room() == 0 && line.weights() == 0));
        prop_assert_eq!(queue.lines.iter().map(Line::remembered).sum::<usize>(), 0);
    }
}
