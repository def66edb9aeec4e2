//! Levels as a data plane is told them, for as long as they are repeated.

use std::collections::HashMap;

use sluicegate_model::resource::degradation::Level;

/// Longest time that a level is believed without being repeated. Milliseconds.
pub const MAX_TTL_MS: u64 = 3_600_000;
/// Most degradations that are kept.
const MAX_HELD: usize = 4_096;

/// One degradation's level as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Name of the degradation.
    pub name: String,
    pub level: Level,
    /// How long it holds unless it is repeated; at most [`MAX_TTL_MS`].
    pub ttl_ms: u64,
}

/// What was told last of each degradation. What is not repeated in time ends.
#[derive(Debug, Clone, Default)]
pub struct Held(HashMap<String, (Level, u64)>);

impl Held {
    /// Takes in what is told; the newest word holds. True if the level is another than before. Of more
    /// degradations than there can be nothing is kept.
    pub fn take(&mut self, directive: Directive, now_ms: u64) -> bool {
        let before = self.level(&directive.name, now_ms);
        if directive.level == Level::Normal {
            self.0.remove(&directive.name);
            return before != Level::Normal;
        }
        if self.0.len() >= MAX_HELD {
            self.0.retain(|_, (_, until_ms)| *until_ms > now_ms);
        }
        if self.0.len() >= MAX_HELD && !self.0.contains_key(&directive.name) {
            return false;
        }
        let until_ms = now_ms.saturating_add(directive.ttl_ms.min(MAX_TTL_MS));
        self.0.insert(directive.name.clone(), (directive.level, until_ms));
        self.level(&directive.name, now_ms) != before
    }

    /// The level that a degradation is believed to have.
    pub fn level(&self, name: &str, now_ms: u64) -> Level {
        match self.0.get(name) {
            Some((level, until_ms)) if *until_ms > now_ms => *level,
            _ => Level::Normal,
        }
    }

    /// When the next level ends that is not repeated; `None`: none is held.
    pub fn next_end_ms(&self) -> Option<u64> {
        self.0.values().map(|(_, until_ms)| *until_ms).min()
    }

    /// Forgets what has ended, and tells the names.
    pub fn lapse(&mut self, now_ms: u64) -> Vec<String> {
        let over = self.0.extract_if(|_, (_, until_ms)| *until_ms <= now_ms);
        over.map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(level: Level, ttl_ms: u64) -> Directive {
        Directive { name: "d".into(), level, ttl_ms }
    }

    #[test]
    fn b4_a_dead_control_plane_lets_go() {
        let mut held = Held::default();
        assert!(held.take(told(Level::AllTools, 1_000), 0));
        assert!(!held.take(told(Level::AllTools, 1_000), 900), "it is repeated");
        assert_eq!(held.level("d", 1_899), Level::AllTools);
        assert_eq!(held.next_end_ms(), Some(1_900));
        assert_eq!(held.level("d", 1_900), Level::Normal);
        assert_eq!(held.lapse(1_899), Vec::<String>::new());
        assert_eq!(held.lapse(1_900), ["d"]);
        assert_eq!((held.lapse(1_900).len(), held.next_end_ms()), (0, None));
    }

    #[test]
    fn b4_the_newest_word_holds_up_and_down() {
        let mut held = Held::default();
        assert!(held.take(told(Level::Maintenance, 1_000), 0));
        assert!(held.take(told(Level::SomeTools, 1_000), 1));
        assert_eq!(held.level("d", 2), Level::SomeTools);
        assert!(held.take(told(Level::Normal, 1_000), 2));
        assert!(!held.take(told(Level::Normal, 1_000), 3));
        assert!(!held.take(told(Level::AllTools, 0), 3), "it ends at once");
        assert_eq!(held.level("other", 3), Level::Normal);
        held.take(told(Level::AllTools, u64::MAX), 5);
        assert_eq!(held.next_end_ms(), Some(5 + MAX_TTL_MS));
    }

    #[test]
    fn b4_what_is_held_is_bounded() {
        let mut held = Held::default();
        for n in 0..MAX_HELD + 10 {
            let directive = Directive { name: n.to_string(), ..told(Level::AllTools, 1_000) };
            assert_eq!(held.take(directive, 0), n < MAX_HELD);
        }
        assert!(held.take(told(Level::AllTools, 1_000), 1_000), "those that ended make room");
        assert_eq!(held.0.len(), 1);
    }
}
