//! What every ledger promises of provider keys.

use sluicegate_protocol::pool::{Cell, CellKey, Cells, Change, Clear, KEPT_MS, LONGEST_MS, State};
use sluicegate_store::{
    StoreError,
    ledger::{Ledger, MAX_CELLS},
};

use super::fixture::*;

pub fn cell(credential: &str, generation: u64, left_ms: u64) -> Cell {
    Cell {
        key: CellKey::new(credential, "m"),
        state: State::Resting,
        left_ms,
        ended_ms: 0,
        strikes: 1,
        generation,
        cleared: false,
        age_ms: 0,
        reason: "slow down: please".into(),
        by: "node-1".into(),
    }
}

fn clear(credential: &str, generation: u64) -> Change {
    Change::Clear(Clear { key: CellKey::new(credential, "m"), generation })
}

async fn change(ledger: &dyn Ledger, changes: &[Change]) -> Vec<Cell> {
    let mut cells = ledger.cells(changes).await.unwrap();
    cells.sort_by(|a, b| a.key.cmp(&b.key));
    cells
}

async fn merge(ledger: &dyn Ledger, cell: Cell) -> Vec<Cell> {
    change(ledger, &[Change::Merge(cell)]).await
}

/// Time that a test on a busy machine may take.
const SLACK_MS: u64 = 60_000;

#[track_caller]
fn about(left_ms: u64, expected: u64) {
    assert!(left_ms <= expected && left_ms + SLACK_MS > expected, "{left_ms}, not {expected}");
}

pub async fn c5_cells_are_merged_and_told<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    assert_eq!(change(l, &[]).await, []);
    let told = Cell { age_ms: 5_000, ..cell("a", 2, HOUR) };
    let known = merge(l, told.clone()).await.remove(0);
    about(known.left_ms, HOUR);
    assert!(known.age_ms >= 5_000 && known.age_ms < 5_000 + SLACK_MS, "{known:?}");
    assert_eq!(known.ended_ms, 0);
    let alike = Cell { left_ms: told.left_ms, age_ms: told.age_ms, ..known };
    assert_eq!(alike, told);
    // Everybody sees it, and each cell is by itself.
    let operator = CellKey { operator: true, ..CellKey::new("a", "m") };
    let all = CellKey::new("a", "");
    for key in [operator.clone(), all.clone()] {
        merge(l, Cell { key, state: State::Refused, ..cell("a", 1, 1_000) }).await;
    }
    let keys: Vec<_> = change(l, &[]).await.into_iter().map(|cell| cell.key).collect();
    assert_eq!(keys, [all, CellKey::new("a", "m"), operator]);
}

pub async fn c5_the_later_end_wins<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    merge(l, cell("a", 1, HOUR)).await;
    let sooner = Cell { state: State::Refused, strikes: 3, ..cell("a", 2, 1_000) };
    let known = merge(l, sooner).await.remove(0);
    about(known.left_ms, HOUR);
    assert_eq!((known.state, known.generation, known.strikes), (State::Resting, 2, 3));
    let later = Cell { state: State::Exhausted, by: "node-2".into(), ..cell("a", 1, 5 * HOUR) };
    let known = merge(l, later).await.remove(0);
    about(known.left_ms, 5 * HOUR);
    assert_eq!((known.state, known.generation, known.strikes), (State::Exhausted, 2, 3));
    assert_eq!(known.by, "node-2");
    let known = merge(l, cell("a", 1, u64::MAX)).await.remove(0);
    about(known.left_ms, LONGEST_MS);
}

pub async fn c5_a_clear_of_an_old_generation_is_ignored<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    assert_eq!(change(l, &[clear("a", 7)]).await, [], "there is nothing to clear");
    merge(l, cell("a", 3, HOUR)).await;
    let known = change(l, &[clear("a", 2)]).await.remove(0);
    about(known.left_ms, HOUR);
    let known = change(l, &[clear("a", 3)]).await.remove(0);
    assert_eq!((known.cleared, known.left_ms, known.strikes, known.generation), (true, 0, 0, 3));
    // What was said before the clear and comes after it changes nothing; what is newer does.
    assert!(merge(l, cell("a", 3, HOUR)).await[0].cleared);
    let known = merge(l, cell("a", 4, HOUR)).await.remove(0);
    assert!(!known.cleared);
    about(known.left_ms, HOUR);
    // In one call they go in turn.
    let both = [clear("a", 4), Change::Merge(cell("a", 5, 1_000))];
    let known = change(l, &both).await.remove(0);
    about(known.left_ms, 1_000);
    assert_eq!(known.generation, 5);
}

pub async fn c5_an_operators_newest_word_holds<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let key = CellKey { operator: true, ..CellKey::new("a", "") };
    let word = |generation, left_ms| Cell { key: key.clone(), ..cell("a", generation, left_ms) };
    merge(l, word(1, HOUR)).await;
    about(merge(l, word(2, 1_000)).await[0].left_ms, 1_000);
    about(merge(l, word(1, HOUR)).await[0].left_ms, 1_000);
}

pub async fn c5_ended_cells_keep_their_strikes_for_an_hour<F: LedgerFixture>() {
    let mut f = F::start().await;
    let now = f.ledger().now_ms().await.unwrap();
    let ended = |ago| format!("4:0:{}:{}:6:9:why\nnode", now - ago, now - ago);
    f.plant("u\u{1f}recent\u{1f}m", &ended(KEPT_MS - SLACK_MS)).await;
    f.plant("u\u{1f}old\u{1f}m", &ended(KEPT_MS + 1)).await;
    let known = change(f.ledger(), &[]).await;
    let [recent] = known.as_slice() else { panic!("{known:?}") };
    assert_eq!((&*recent.key.credential, recent.left_ms, recent.strikes), ("recent", 0, 6));
    about(recent.ended_ms, KEPT_MS);
    // Told again it is no younger, wherever it goes.
    let copied = Cell { key: CellKey::new("copied", "m"), ..recent.clone() };
    let known = merge(f.ledger(), copied).await;
    about(known[0].ended_ms, KEPT_MS);
    // What went is gone for good.
    merge(f.ledger(), cell("other", 1, 1_000)).await;
    f.reopen().await;
    assert_eq!(change(f.ledger(), &[]).await.len(), 3);
}

pub async fn c5_cells_are_bounded<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let numbered = |n: usize| cell(&format!("k{n:06}"), 1, HOUR + n as u64 * 1_000);
    let operator = CellKey { operator: true, ..CellKey::new("k", "") };
    merge(l, Cell { key: operator.clone(), ..cell("k", 1, 1) }).await;
    let all: Vec<_> = (1..=MAX_CELLS + 9).map(|n| Change::Merge(numbered(n))).collect();
    let mut known = Vec::new();
    for some in all.chunks(5_000) {
        known = change(l, some).await;
    }
    assert_eq!(known.len(), MAX_CELLS);
    assert_eq!(known[0].key, operator, "what an operator said stays");
    // Those that end first are gone: one for each that is too many.
    assert_eq!(known[1].key.credential, "k000011");
    assert_eq!(known.last().unwrap().key.credential, format!("k{:06}", MAX_CELLS + 9));
}

pub async fn c5_garbage_is_left_out<F: LedgerFixture>() {
    let mut f = F::start().await;
    merge(f.ledger(), cell("a", 1, HOUR)).await;
    for (field, value) in [
        ("u\u{1f}b\u{1f}m", "rubbish"),
        ("rubbish", "0:0:9999999999999:1:1:1:why\nnode"),
        ("u\u{1f}c\u{1f}m", "9:0:9999999999999:1:1:1:why\nnode"),
    ] {
        f.plant(field, value).await;
    }
    for _ in 0..2 {
        let known = change(f.ledger(), &[]).await;
        assert_eq!(known.len(), 1, "{known:?}");
        assert_eq!(known[0].key.credential, "a");
    }
    assert_eq!(merge(f.ledger(), cell("b", 1, HOUR)).await.len(), 2, "it is written over");
    let nameless = Change::Merge(cell("", 1, 1));
    let error = f.ledger().cells(&[nameless]).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
}

pub async fn c5_cells_outlive_the_process<F: LedgerFixture>() {
    let mut f = F::start().await;
    let before = merge(f.ledger(), cell("a", 4, HOUR)).await.remove(0);
    f.reopen().await;
    let after = change(f.ledger(), &[]).await.remove(0);
    about(after.left_ms, HOUR);
    assert!(after.left_ms <= before.left_ms && after.age_ms >= before.age_ms);
    assert_eq!(Cell { left_ms: 0, age_ms: 0, ..after }, Cell { left_ms: 0, age_ms: 0, ..before });
}

/// Does what the table of both planes does, whatever is said in whatever order.
pub async fn c5_cells_agree_with_the_table<F: LedgerFixture>() {
    const UNIT: u64 = HOUR;
    let f = F::start().await;
    let l = f.ledger();
    let mut table = Cells::default();
    let mut random = fastrand::Rng::with_seed(7);
    // No two cells end at one time: what decides then is when they began, which nobody told.
    let mut lefts: Vec<u64> = (1..=600).collect();
    random.shuffle(&mut lefts);
    for _ in 0..120 {
        let mut any = |_| any_change(&mut random, UNIT * lefts.pop().unwrap());
        let changes: Vec<_> = (0..4).map(&mut any).collect();
        for change in &changes {
            table.change(change, UNIT);
        }
        let known = change(l, &changes).await;
        let mut expected = table.told(UNIT);
        expected.sort_by(|a, b| a.key.cmp(&b.key));
        // The ledger's time goes on meanwhile: by less than a half of what tells two times apart.
        let round = |ms: u64| (ms + UNIT / 2) / UNIT;
        let rounded = |cells: Vec<Cell>| -> Vec<Cell> {
            let round =
                |cell: Cell| Cell { left_ms: round(cell.left_ms), ended_ms: 0, age_ms: 0, ..cell };
            cells.into_iter().map(round).collect()
        };
        assert_eq!(rounded(known), rounded(expected), "after {changes:?}");
    }

    fn any_change(random: &mut fastrand::Rng, left_ms: u64) -> Change {
        let key = CellKey {
            credential: format!("k{}", random.u8(0..3)),
            model: String::new(),
            operator: random.u8(0..4) == 0,
        };
        let generation = random.u64(1..5);
        if random.bool() {
            return Change::Clear(Clear { key, generation });
        }
        Change::Merge(Cell {
            key,
            state: State::ALL[random.usize(0..5)],
            left_ms,
            ended_ms: 0,
            strikes: random.u32(1..4),
            generation,
            cleared: false,
            age_ms: 0,
            reason: "why".into(),
            by: format!("node-{}", random.u8(0..3)),
        })
    }
}
