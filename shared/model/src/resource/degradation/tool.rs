//! Names of tools with `*` for any characters.

/// A tool's name, or a pattern of such.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ToolPattern(String);

/// Longest name, in bytes.
const MAX_LENGTH: usize = 128;

impl ToolPattern {
    /// Reads the written form; `None` when it is empty, too long, or has characters that do not show.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let shows = |c: char| !c.is_whitespace() && !c.is_control();
        let fits = (1..=MAX_LENGTH).contains(&text.len()) && text.chars().all(shows);
        fits.then(|| Self(text.to_owned()))
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Does it match this name?
    pub fn matches(&self, name: &str) -> bool {
        let mut pieces = self.0.split('*');
        let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let pieces: Vec<_> = pieces.collect();
        let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
        for piece in middle {
            // The first place leaves most for the pieces that follow.
            match rest.split_once(piece) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        ToolPattern::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn b4_patterns_of_tools() {
        for (pattern, good, bad) in [
            ("shell", vec!["shell"], vec!["shel", "shells", "", "Shell"]),
            ("shell*", vec!["shell", "shell_exec"], vec!["a_shell"]),
            ("*_delete", vec!["file_delete", "_delete"], vec!["delete", "file_delete_"]),
            ("db_*_drop*", vec!["db_x_drop", "db__drop_all"], vec!["db_drop", "db_x"]),
            ("*", vec!["", "x"], vec![]),
            ("a*a", vec!["aa", "aba"], vec!["a"]),
            ("*ab*ab*", vec!["abab", "xabyabz"], vec!["ab", "aab"]),
        ] {
            good.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
            bad.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
        }
        for bad in ["", "a b", "a\n", &"x".repeat(129)] {
            assert_eq!(ToolPattern::parse(bad), None);
        }
    }

    /// The definition, slow and plain.
    fn slow(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), None) => slow(rest, name),
            (Some((b'*', rest)), Some((_, after))) => slow(rest, name) || slow(pattern, after),
            (Some((one, rest)), Some((other, after))) => one == other && slow(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn b4_patterns_match_by_their_definition(pattern in "[ab*]{1,8}", name in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &name), slow(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
