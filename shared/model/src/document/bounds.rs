//! Bounds of a file's shape, checked on the parser's events before anything is built from them: how
//! deep it nests, and how much its aliases repeat.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, Span};

use super::positions::BadYaml;

/// Most levels of lists and mappings, aliases followed. A configuration has fewer than ten.
const MAX_DEPTH: usize = 64;
/// Most that all aliases together may stand for, in bytes of memory, roughly.
const MAX_REPEATED: usize = 8 << 20;
/// What a value takes in memory beside its text, roughly.
const VALUE: usize = 64;

/// How deep a value nests and how much it takes; a scalar has no depth.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    depth: usize,
    bytes: usize,
}

/// A list or mapping whose end has not come.
struct Open {
    anchor: usize,
    mapping: bool,
    children: usize,
    size: Size,
}

/// Refuses what cannot be built safely. What is not valid YAML passes: whoever builds the tree gets
/// no further than this and tells it better.
///
/// # Errors
/// Where it nests too deeply, repeats too much, or has a list or mapping for a field name.
pub(super) fn check(text: &str) -> Result<(), BadYaml> {
    let mut parser = Parser::new_from_str(text);
    let mut shape = Shape::default();
    while let Some(Ok((event, span))) = parser.next_event() {
        shape.take(&event, span)?;
    }
    Ok(())
}

#[derive(Default)]
struct Shape {
    open: Vec<Open>,
    anchors: HashMap<usize, Size>,
    repeated: usize,
}

impl Shape {
    fn take(&mut self, event: &Event<'_>, span: Span) -> Result<(), BadYaml> {
        match event {
            Event::SequenceStart(anchor, _) => self.begin(*anchor, false, span),
            Event::MappingStart(anchor, _) => self.begin(*anchor, true, span),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { anchor, size, .. }) = self.open.pop() {
                    let size = Size { depth: size.depth + 1, bytes: size.bytes + VALUE };
                    self.remember(anchor, size);
                    self.add(size);
                }
                Ok(())
            }
            Event::Scalar(text, _, anchor, _) => {
                let size = Size { depth: 0, bytes: text.len() + VALUE };
                self.remember(*anchor, size);
                self.add(size);
                Ok(())
            }
            Event::Alias(anchor) => self.repeat(*anchor, span),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, anchor: usize, mapping: bool, span: Span) -> Result<(), BadYaml> {
        self.check_name(1, span)?;
        self.check_depth(1, span)?;
        self.open.push(Open { anchor, mapping, children: 0, size: Size::default() });
        Ok(())
    }

    /// An alias is a copy of what its anchor names.
    fn repeat(&mut self, anchor: usize, span: Span) -> Result<(), BadYaml> {
        let size = self.anchors.get(&anchor).copied().unwrap_or_default();
        self.check_name(size.depth, span)?;
        self.check_depth(size.depth, span)?;
        self.repeated = self.repeated.saturating_add(size.bytes);
        if self.repeated > MAX_REPEATED {
            let message = format!("aliases repeat more than {} MiB", MAX_REPEATED >> 20);
            return Err(bad(span, message, "write less, or use fewer aliases"));
        }
        self.add(size);
        Ok(())
    }

    fn check_name(&self, depth: usize, span: Span) -> Result<(), BadYaml> {
        let name = self.open.last().is_some_and(|open| open.mapping && open.children % 2 == 0);
        if name && depth > 0 {
            return Err(bad(span, "a field name must be text".to_owned(), "quote it"));
        }
        Ok(())
    }

    fn check_depth(&self, depth: usize, span: Span) -> Result<(), BadYaml> {
        if self.open.len() + depth > MAX_DEPTH {
            let message = format!("nests more than {MAX_DEPTH} levels deep");
            return Err(bad(span, message, "no field needs so many; check the indentation"));
        }
        Ok(())
    }

    fn remember(&mut self, anchor: usize, size: Size) {
        // Anchors count from 1.
        if anchor > 0 {
            self.anchors.insert(anchor, size);
        }
    }

    fn add(&mut self, size: Size) {
        if let Some(parent) = self.open.last_mut() {
            parent.children += 1;
            parent.size.depth = parent.size.depth.max(size.depth);
            parent.size.bytes = parent.size.bytes.saturating_add(size.bytes);
        }
    }
}

fn bad(span: Span, message: String, hint: &'static str) -> BadYaml {
    BadYaml { line: span.start.line(), column: span.start.col() + 1, message, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_bounded_in_every_style() {
        check_depth("[".repeat(64) + &"]".repeat(64), None);
        check_depth("[".repeat(65) + &"]".repeat(65), Some((1, 65)));
        check_depth("- ".repeat(100_000), Some((1, 129)));
        check_depth("{a: ".repeat(65), Some((1, 257)));
        let block = |levels: usize| {
            (0..levels).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>()
        };
        check_depth(block(64), None);
        check_depth(block(65), Some((65, 65)));
        check_depth(block(2_500), Some((65, 65)));

        #[track_caller]
        fn check_depth(text: String, expected: Option<(usize, usize)>) {
            let found = check(&text).err();
            assert_eq!(found.as_ref().map(|bad| (bad.line, bad.column)), expected);
            let told = found.is_none_or(|bad| bad.message == "nests more than 64 levels deep");
            assert!(told);
        }
    }

    #[test]
    fn aliases_count_with_what_they_stand_for() {
        // Each is as deep as allowed alone, the second holds the first.
        let deep = format!("a: &a {0}{1}\nb: {0}*a{1}\n", "[".repeat(40), "]".repeat(40));
        assert_eq!(at(&deep), Some((2, 44)));
        // Each of nine anchors holds the one before ten times.
        let mut laughs = "a0: &a0 lol\n".to_owned();
        for level in 1..10 {
            let items = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs += &format!("a{level}: &a{level} [{items}]\n");
        }
        assert!(at(&laughs).is_some());
        // Long text instead of many values.
        let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(1000));
        assert_eq!(at(&text), Some((2, 33)));
        // Lists as field names would be copied without being counted.
        assert_eq!(at("a: &a [1]\nb: { ? *a : 1 }\n"), Some((2, 8)));
        assert_eq!(at("? [1]\n: 2\n"), Some((1, 3)));
        assert_eq!(at("a: &a { b: 1 }\nc: *a\nd: [*a, *a]\n"), None);
        assert_eq!(at("a: &a b\n*a : 1\n"), None);

        fn at(text: &str) -> Option<(usize, usize)> {
            check(text).err().map(|bad| (bad.line, bad.column))
        }
    }
}
