//! What data planes are told of levels.
//!
//! What an operator has set they know from their policy, with its own end, and are not told here: so it
//! holds as long as it is meant to, whether a control plane is there or not.

use sluicegate_model::resource::degradation::Level;
use sluicegate_protocol::degrade::{Directive, Reason};

use super::board::{Levels, Published};

/// How long a data plane is to believe a level that is not repeated: long enough for another
/// replica to take over and read the metrics anew. Milliseconds.
pub const TTL_MS: u64 = 20_000;

/// What a data plane is told that has just come: every level that is known. Where nothing has happened
/// since this replica took over, nothing is: what another one said before may still hold.
pub fn first(levels: &Levels) -> impl Iterator<Item = Directive> {
    levels.iter().filter(|(_, one)| is_known(one)).map(directive)
}

/// What data planes are told again and again, so that they go on to believe it.
pub fn again(levels: &Levels) -> impl Iterator<Item = Directive> {
    first(levels).filter(|directive| directive.level != Level::Normal)
}

/// What data planes are told that know the levels as they were `before`.
pub fn changed<'a>(before: &'a Levels, now: &'a Levels) -> impl Iterator<Item = Directive> {
    let is_new = |(name, one): &(&String, &Published)| {
        let told = before.get(*name).filter(|told| is_known(told));
        is_known(one) && told.is_none_or(|told| told.level != one.level)
    };
    let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
    let ended = |(name, _): (&String, &Published)| Directive {
        name: name.clone(),
        level: Level::Normal,
        ttl_ms: TTL_MS,
    };
    now.iter().filter(is_new).map(directive).chain(gone.map(ended))
}

fn is_known(one: &Published) -> bool {
    match one.reason {
        Reason::Initial | Reason::ByHand { .. } => false,
        Reason::Readings { .. } | Reason::HandEnded | Reason::Redefined => true,
    }
}

fn directive((name, published): (&String, &Published)) -> Directive {
    Directive { name: name.clone(), level: published.level, ttl_ms: TTL_MS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(all: &[(&str, Level, Reason)]) -> Levels {
        let published = |(name, level, reason): &(&str, Level, Reason)| {
            let reason = reason.clone();
            let one = Published { level: *level, reason, since_unix_ms: 0, unknown: Vec::new() };
            ((*name).to_owned(), one)
        };
        all.iter().map(published).collect()
    }

    fn told(directives: impl Iterator<Item = Directive>) -> Vec<(String, u32)> {
        directives.map(|one| (one.name, one.level.number())).collect()
    }

    #[test]
    fn b4_what_data_planes_are_told_first_and_then() {
        let read = || Reason::Readings { condition: "c".into(), values: Vec::new() };
        let by_hand = || Reason::ByHand { comment: String::new() };
        let before = levels(&[
            ("begun", Level::SomeTools, read()),
            ("ended", Level::Normal, read()),
            ("hand", Level::Maintenance, by_hand()),
            ("new", Level::Normal, Reason::Initial),
            ("gone", Level::AllTools, read()),
        ]);
        let pair = |name: &str, level| (name.to_owned(), level);
        let first = told(self::first(&before));
        assert_eq!(first, [pair("begun", 1), pair("ended", 0), pair("gone", 2)]);
        assert_eq!(told(again(&before)), [pair("begun", 1), pair("gone", 2)]);
        let now = levels(&[
            ("begun", Level::AllTools, read()),
            ("ended", Level::Normal, Reason::Redefined),
            ("hand", Level::Normal, Reason::HandEnded),
            ("new", Level::AllTools, by_hand()),
            ("other", Level::Normal, Reason::Initial),
        ]);
        let changed = told(self::changed(&before, &now));
        assert_eq!(changed, [pair("begun", 2), pair("hand", 0), pair("gone", 0)]);
        assert_eq!(told(self::changed(&now, &now)), []);
    }
}
