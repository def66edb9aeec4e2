//! The life of a key's rest: how it begins, grows, is tried and ends, on one holder and on several.

use proptest::prelude::*;
use sluicegate_protocol::pool::{
    Cell, CellKey, Cells, Change, Clear, Down, Failure, KEPT_MS, LONGEST_MS, Standing, State, Waits,
};

const DAY: u64 = 86_400_000;

fn failure(state: State, told_ms: Option<u64>) -> Failure {
    Failure { state, told_ms, reason: "the upstream's words".into(), by: "node".into() }
}

/// A holder with a clock of its own.
#[derive(Default)]
struct Holder {
    cells: Cells,
    now_ms: u64,
}

impl Holder {
    fn fail(&mut self, key: &CellKey, state: State, told_ms: Option<u64>) -> Option<Cell> {
        let failure = failure(state, told_ms);
        let failed = self.cells.failed(key, &failure, &Waits::default(), self.now_ms);
        failed.map(|failed| failed.cell)
    }

    fn standing(&self, credential: &str, model: &str) -> Standing {
        self.cells.standing(credential, model, self.now_ms)
    }

    /// How long the key is kept out.
    fn left(&self, credential: &str, model: &str) -> Option<(State, u64)> {
        match self.standing(credential, model) {
            Standing::Down(Down { state, left_ms, .. }) => Some((state, left_ms)),
            Standing::Up | Standing::Trial => None,
        }
    }
}

#[test]
fn c5_a_limited_key_rests_as_long_as_it_is_told_and_no_other_with_it() {
    let mut holder = Holder::default();
    let cell = holder.fail(&CellKey::new("k", "m1"), State::Resting, Some(30_000)).unwrap();
    assert_eq!((cell.left_ms, cell.strikes, cell.generation), (30_000, 1, 1));
    assert_eq!(holder.left("k", "m1"), Some((State::Resting, 30_000)));
    assert_eq!(holder.standing("k", "m2"), Standing::Up, "the cell is key and model");
    assert_eq!(holder.standing("k2", "m1"), Standing::Up);
    holder.now_ms = 29_999;
    assert_eq!(holder.left("k", "m1"), Some((State::Resting, 1)));
    holder.now_ms = 30_000;
    assert_eq!(holder.standing("k", "m1"), Standing::Up, "a rest just ends");
}

#[test]
fn c5_the_later_end_wins() {
    let mut holder = Holder::default();
    let key = CellKey::new("k", "");
    holder.fail(&key, State::Resting, Some(30_000));
    holder.now_ms = 10;
    assert_eq!(holder.fail(&key, State::Resting, Some(1_000)), None, "it was known");
    assert_eq!(holder.left("k", "m"), Some((State::Resting, 29_990)));
    let cell = holder.fail(&key, State::Resting, Some(40_000)).unwrap();
    assert_eq!((cell.left_ms, cell.strikes, cell.generation), (40_000, 1, 1), "still one strike");
}

#[test]
fn c5_waits_double_while_nothing_goes_well_and_begin_anew_when_it_does() {
    let mut holder = Holder::default();
    let key = CellKey::new("k", "m");
    for expected in [1_000, 2_000, 4_000] {
        let cell = holder.fail(&key, State::Resting, None).unwrap();
        assert_eq!(cell.left_ms, expected);
        holder.now_ms += expected;
    }
    let permit = holder.cells.enter("k", "m", holder.now_ms).unwrap();
    assert!(!permit.trial);
    let clears = holder.cells.succeeded(&permit, holder.now_ms);
    assert_eq!(clears, [Clear { key: key.clone(), generation: 3 }]);
    assert_eq!(holder.cells.succeeded(&permit, holder.now_ms), [], "there is nothing more to say");
    let cell = holder.fail(&key, State::Resting, None).unwrap();
    assert_eq!((cell.left_ms, cell.strikes, cell.generation), (1_000, 1, 4));
}

#[test]
fn c5_a_refused_key_is_tried_by_one_request_at_a_time() {
    for state in [State::Exhausted, State::Refused, State::Suspended, State::ModelMissing] {
        let mut holder = Holder::default();
        let key = CellKey::new("k", "");
        let first = holder.fail(&key, state, None).unwrap().left_ms;
        assert!(holder.cells.enter("k", "m", holder.now_ms).is_err());
        holder.now_ms += first;
        assert_eq!(holder.standing("k", "m"), Standing::Trial);
        let permit = holder.cells.enter("k", "m", holder.now_ms).unwrap();
        assert!(permit.trial);
        assert!(holder.cells.enter("k", "m", holder.now_ms).is_err(), "{state:?}: one at a time");
        // Nothing was learned: the next may try.
        holder.cells.released(&permit);
        let permit = holder.cells.enter("k", "m", holder.now_ms).unwrap();
        // It fails again: the wait doubles.
        holder.cells.released(&permit);
        let cell = holder.fail(&key, state, None).unwrap();
        assert_eq!((cell.left_ms, cell.strikes), (2 * first, 2), "{state:?}");
        holder.now_ms += 2 * first;
        let permit = holder.cells.enter("k", "m", holder.now_ms).unwrap();
        assert_eq!(holder.cells.succeeded(&permit, holder.now_ms).len(), 1);
        assert_eq!(holder.standing("k", "m"), Standing::Up);
    }
}

#[test]
fn c5_a_trial_that_nobody_ends_is_over_by_itself() {
    let mut holder = Holder::default();
    holder.fail(&CellKey::new("k", ""), State::Refused, Some(10));
    holder.now_ms = 10;
    drop(holder.cells.enter("k", "m", holder.now_ms).unwrap());
    let Standing::Down(Down { left_ms, only_limited, .. }) = holder.standing("k", "m") else {
        panic!("{:?}", holder.standing("k", "m"));
    };
    assert!(!only_limited);
    holder.now_ms += left_ms;
    assert_eq!(holder.standing("k", "m"), Standing::Trial);
}

#[test]
fn c5_an_old_success_clears_nothing_newer() {
    let mut holder = Holder::default();
    let key = CellKey::new("k", "");
    let old = holder.cells.enter("k", "m", holder.now_ms).unwrap();
    holder.fail(&key, State::Exhausted, None);
    assert_eq!(holder.cells.succeeded(&old, holder.now_ms), []);
    assert_eq!(holder.left("k", "m"), Some((State::Exhausted, 300_000)));
    // Elsewhere, too: the clear of one generation does not reach the next.
    holder.now_ms += 300_000;
    let permit = holder.cells.enter("k", "m", holder.now_ms).unwrap();
    let mut other = Holder { cells: holder.cells.clone(), now_ms: holder.now_ms + 5 };
    other.fail(&key, State::Exhausted, None);
    for clear in holder.cells.succeeded(&permit, holder.now_ms) {
        assert_eq!(clear.generation, 1);
        assert!(!other.cells.clear(&clear, other.now_ms));
    }
    assert!(other.left("k", "m").is_some());
}

#[test]
fn c5_what_was_cleared_does_not_come_back_with_a_repeated_message() {
    let mut holder = Holder::default();
    let key = CellKey::new("k", "m");
    let cell = holder.fail(&key, State::Resting, Some(60_000)).unwrap();
    let clear = Clear { key: key.clone(), generation: cell.generation };
    let mut ledger = Cells::default();
    assert!(ledger.merge(&cell, 1_000));
    assert!(ledger.clear(&clear, 1_001));
    assert!(!ledger.merge(&cell, 1_002), "sent twice");
    assert_eq!(ledger.standing("k", "m", 1_002), Standing::Up);
    // The mark reaches whoever has not heard of it.
    let mark = ledger.told(1_003).remove(0);
    assert!(mark.cleared && mark.left_ms == 0);
    assert!(holder.cells.merge(&mark, holder.now_ms));
    assert_eq!(holder.standing("k", "m"), Standing::Up);
}

#[test]
fn c5_what_an_operator_says_stands_beside_and_is_replaced_by_their_next_word() {
    let mut holder = Holder::default();
    let rest = holder.cells.resting("k", "", 600_000, "maintenance".into());
    assert!(holder.cells.merge(&rest, holder.now_ms));
    let permit = holder.cells.permit("k", "m");
    assert_eq!(holder.cells.succeeded(&permit, holder.now_ms), [], "no success ends it");
    let Standing::Down(down) = holder.standing("k", "m") else { panic!("it rests") };
    assert_eq!((down.left_ms, down.only_limited), (600_000, false));
    // Shorter than before: the newest word holds.
    let shorter = holder.cells.resting("k", "", 1_000, "soon done".into());
    assert!(holder.cells.merge(&shorter, holder.now_ms));
    assert!(!holder.cells.merge(&rest, holder.now_ms), "the older one comes again");
    holder.fail(&CellKey::new("k", ""), State::Refused, Some(5_000));
    assert_eq!(holder.left("k", "m"), Some((State::Refused, 5_000)));
    let clears = holder.cells.enabling("k", true);
    assert_eq!(clears.len(), 2);
    assert!(clears.iter().all(|clear| holder.cells.clear(clear, holder.now_ms)));
    assert_eq!(holder.standing("k", "m"), Standing::Up);
    assert_eq!(holder.cells.enabling("k", true), []);
}

#[test]
fn waits_of_a_month_are_believed_and_no_longer_ones() {
    let mut holder = Holder::default();
    holder.fail(&CellKey::new("k", ""), State::Exhausted, Some(30 * DAY));
    assert_eq!(holder.left("k", "m"), Some((State::Exhausted, 30 * DAY)));
    holder.fail(&CellKey::new("k", ""), State::Exhausted, Some(u64::MAX));
    assert_eq!(holder.left("k", "m"), Some((State::Exhausted, LONGEST_MS)));
}

#[test]
fn another_state_begins_with_its_own_first_wait() {
    let mut holder = Holder::default();
    let key = CellKey::new("k", "");
    for _ in 0..6 {
        let cell = holder.fail(&key, State::Resting, None).unwrap();
        holder.now_ms += cell.left_ms;
    }
    let cell = holder.fail(&key, State::Refused, None).unwrap();
    assert_eq!((cell.left_ms, cell.strikes), (30_000, 1));
}

#[test]
fn what_ended_is_remembered_for_an_hour_and_the_table_is_bounded() {
    let mut holder = Holder::default();
    holder.fail(&CellKey::new("k", ""), State::Resting, Some(1_000));
    assert_eq!(holder.cells.forget(1_000 + KEPT_MS), []);
    assert_eq!(holder.cells.forget(1_001 + KEPT_MS), [CellKey::new("k", "")]);
    assert!(holder.cells.is_empty());
    for n in 1..=10 {
        holder.fail(&CellKey::new(format!("k{n}"), ""), State::Resting, Some(n * 1_000));
    }
    let rest = holder.cells.resting("k0", "", 1, String::new());
    holder.cells.merge(&rest, 0);
    let gone = holder.cells.shrink(8);
    assert_eq!(gone.len(), 3);
    assert!(gone.contains(&CellKey::new("k3", "")), "those that end first: {gone:?}");
    assert_eq!(holder.cells.len(), 8);
    assert!(holder.left("k0", "m").is_some(), "an operator's stays");
}

fn told() -> impl Strategy<Value = Cell> {
    let key = ("[ab]", "[m]?", any::<bool>()).prop_map(|(credential, model, operator)| CellKey {
        credential,
        model,
        operator,
    });
    let state = prop::sample::select(State::ALL.to_vec());
    (key, state, 1..50_u64, 1..3_u32, 1..4_u64, 0..3_u64, "[xy]?").prop_map(
        |(key, state, left_ms, strikes, generation, age_ms, by)| Cell {
            key,
            state,
            left_ms,
            ended_ms: 0,
            strikes,
            generation,
            cleared: false,
            age_ms,
            reason: String::new(),
            by,
        },
    )
}

fn sorted(cells: &Cells, now_ms: u64) -> Vec<Cell> {
    let mut told = cells.told(now_ms);
    told.sort_by(|a, b| a.key.cmp(&b.key));
    told
}

proptest! {
    /// However often, in whatever order and over however many holders it goes, all know the same.
    #[test]
    fn c5_everybody_comes_to_know_the_same(
        cells in prop::collection::vec(told(), 1..12),
        swaps in prop::collection::vec(0..12_usize, 0..12),
    ) {
        let mut one = Cells::default();
        for cell in &cells {
            one.merge(cell, 100);
        }
        let mut other = Cells::default();
        let mut order: Vec<_> = cells.iter().chain(&cells).collect();
        for (at, swap) in swaps.iter().enumerate() {
            let (at, swap) = (at % order.len(), swap % order.len());
            order.swap(at, swap);
        }
        for cell in order {
            other.merge(cell, 100);
        }
        prop_assert_eq!(sorted(&one, 100), sorted(&other, 100));
        // And what one tells the other, by another clock, adds nothing.
        let mut third = Cells::default();
        for cell in one.told(100) {
            third.merge(&cell, 9_000);
        }
        prop_assert_eq!(sorted(&third, 9_000), sorted(&one, 100));
        prop_assert!(one.told(100).iter().all(|cell| !other.merge(cell, 100)));
    }

    /// Whatever is said, a key that nobody speaks of is up, and one is down as long as the last end.
    #[test]
    fn c5_a_key_is_down_until_the_last_end(cells in prop::collection::vec(told(), 1..12), at in 0..60_u64) {
        let mut table = Cells::default();
        for cell in &cells {
            table.change(&Change::Merge(cell.clone()), 0);
        }
        prop_assert_eq!(table.standing("c", "m", at), Standing::Up);
        let ends = table.told(0).into_iter().filter(|cell| cell.key.credential == "a");
        let last = ends.map(|cell| cell.left_ms).max().unwrap_or(0);
        match table.standing("a", "m", at) {
            Standing::Down(down) => prop_assert_eq!(at + down.left_ms, last),
            Standing::Up | Standing::Trial => prop_assert!(at >= last),
        }
    }
}

/// Two holders that tell each other everything, over ways of different lengths, come to rest.
#[test]
fn c5_what_is_told_again_is_no_news() {
    let mut holder = Holder::default();
    let mut other = Holder { now_ms: 1_000_000, ..Holder::default() };
    holder.fail(&CellKey::new("a", "m"), State::Resting, Some(30_000));
    holder.fail(&CellKey::new("b", ""), State::Refused, Some(10));
    holder.now_ms = 50;
    let permit = holder.cells.enter("b", "m", 50).unwrap();
    holder.cells.succeeded(&permit, 50);
    let told = holder.cells.told(holder.now_ms);
    assert_eq!(told.iter().filter(|cell| other.cells.learn(cell, other.now_ms)).count(), 2);
    for passed in 1..40 {
        holder.now_ms += 1_000;
        other.now_ms += 1_000;
        let late = other.now_ms + passed % 7 * 100;
        for cell in holder.cells.told(holder.now_ms) {
            assert!(!other.cells.learn(&cell, late), "{cell:?}");
        }
        assert_eq!(other.cells.lacking(&holder.cells.told(holder.now_ms), late), []);
    }
    // What the other has lost is told anew, unless it is over.
    assert_eq!(holder.cells.lacking(&[], holder.now_ms), []);
    holder.fail(&CellKey::new("a", "m"), State::Resting, Some(30_000));
    let lost = other.cells.told(other.now_ms);
    let lacking = holder.cells.lacking(&lost, holder.now_ms);
    assert_eq!(lacking.len(), 1);
    for change in lacking {
        assert!(other.cells.change(&change, other.now_ms));
    }
    assert_eq!(holder.cells.lacking(&other.cells.told(other.now_ms), holder.now_ms), []);
    // So is a success.
    let permit = holder.cells.permit("a", "m");
    assert_eq!(holder.cells.succeeded(&permit, holder.now_ms).len(), 1);
    let lacking = holder.cells.lacking(&other.cells.told(other.now_ms), holder.now_ms);
    assert!(matches!(lacking.as_slice(), [Change::Clear(_)]), "{lacking:?}");
}
