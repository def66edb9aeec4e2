//! Tool calls in chunks as some servers write them, and what OpenAI's clients can read.
//!
//! Faults that were met: no `index`; an `id` that is empty, which clients take for a new call;
//! `arguments` that are null, or an object; a `function` that is null; no `type` on the first
//! fragment. What is in order stays as it is.

use super::variant::Variant;
use crate::{
    json::{JsonError, Kind, Scanner, Str},
    splice::Splices,
};

/// What must be known of the fragments before.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// What the server calls the text of thoughts, where that is not `reasoning_content`.
    reasoning: Option<&'static str>,
    /// One bit for each choice that was given a role.
    roles: u128,
    /// Calls that were begun in each choice, by the choice's index.
    begun: Vec<(usize, usize)>,
}

impl Repair {
    pub(super) fn new(variant: &Variant) -> Self {
        Self { reasoning: variant.reasoning, ..Self::default() }
    }

    /// Must a choice's delta be given a role? The first that says something, where none had one: OpenAI's
    /// own helpers fail without.
    pub(super) fn lacks_role(&mut self, choice: usize, has_role: bool, says: bool) -> bool {
        let bit = u32::try_from(choice).ok().and_then(|choice| 1_u128.checked_shl(choice));
        let Some(bit) = bit else { return false };
        let lacks = says && !has_role && self.roles & bit == 0;
        if has_role || lacks {
            self.roles |= bit;
        }
        lacks
    }

    /// Is it the server's own word for `reasoning_content`?
    pub(super) fn is_reasoning(&self, name: Str<'_>) -> bool {
        self.reasoning.is_some_and(|word| name.is(word))
    }

    /// Reads the list of tool calls that the scanner is at, and notes what must be changed.
    pub(super) fn tool_calls(
        &mut self,
        scanner: &mut Scanner<'_>,
        choice: usize,
        splices: &mut Splices,
    ) -> Result<(), JsonError> {
        scanner.array(|scanner, _| {
            if scanner.kind()? != Kind::Object {
                return scanner.skip().map(drop);
            }
            self.tool_call(scanner, choice, splices)
        })?;
        Ok(())
    }

    fn tool_call(
        &mut self,
        scanner: &mut Scanner<'_>,
        choice: usize,
        splices: &mut Splices,
    ) -> Result<(), JsonError> {
        scanner.kind()?;
        let start = scanner.at();
        let (mut has_index, mut has_type, mut begins, mut has_members) =
            (false, false, false, false);
        let mut empty_id = None;
        let mut before = start + 1;
        scanner.object(|scanner, name| {
            let name_span = scanner.span_of(name);
            let kind = scanner.kind()?;
            if name.is("function") && kind == Kind::Object {
                function(scanner, splices)?;
            } else {
                let span = scanner.skip()?;
                match kind {
                    Kind::Null if name.is("function") => {
                        splices.replace(span.clone(), r#"{"arguments":""}"#);
                    }
                    Kind::Number if name.is("index") => has_index = true,
                    Kind::String if name.is("type") => has_type = true,
                    Kind::String | Kind::Null if name.is("id") => {
                        if kind == Kind::String && span.len() > 2 {
                            begins = true;
                        } else {
                            empty_id = Some((name_span.start, span.end, before, has_members));
                        }
                    }
                    _ => {}
                }
            }
            has_members = true;
            before = scanner.at();
            Ok(())
        })?;
        if let Some((from, to, before, has_before)) = empty_id {
            if has_before {
                splices.replace(before..to, "");
            } else {
                // It is the first: the comma behind it goes along.
                let text = scanner.slice(to..scanner.at());
                let comma = text.iter().position(|byte| *byte == b',').map_or(0, |at| at + 1);
                splices.replace(from..to + comma, "");
            }
        }
        let index = self.index(choice, begins);
        if !has_index {
            let kind = if begins && !has_type { r#""type":"function","# } else { "" };
            splices.replace(start + 1..start + 1, format!("\"index\":{index},{kind}"));
        } else if begins && !has_type {
            splices.replace(start + 1..start + 1, r#""type":"function","#);
        }
        Ok(())
    }

    /// Index of the call that a fragment belongs to: with an id it is a new one, else the last.
    fn index(&mut self, choice: usize, begins: bool) -> usize {
        let place = self.begun.iter().position(|(known, _)| *known == choice);
        let place = place.unwrap_or_else(|| {
            self.begun.push((choice, 0));
            self.begun.len() - 1
        });
        let Some((_, begun)) = self.begun.get_mut(place) else { return 0 };
        *begun += usize::from(begins);
        begun.saturating_sub(1)
    }
}

fn function(scanner: &mut Scanner<'_>, splices: &mut Splices) -> Result<(), JsonError> {
    scanner.object(|scanner, name| {
        let kind = scanner.kind()?;
        let span = scanner.skip()?;
        if name.is("arguments") {
            match kind {
                Kind::Null => splices.replace(span, "\"\""),
                Kind::Object => {
                    let text = String::from_utf8_lossy(scanner.slice(span.clone()));
                    splices.replace(span, serde_json::to_string(&text).unwrap_or_default());
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn repaired(repair: &mut Repair, calls: &str) -> String {
        let mut splices = Splices::default();
        let mut scanner = Scanner::lenient(calls.as_bytes());
        repair.tool_calls(&mut scanner, 0, &mut splices).unwrap();
        let bytes = splices.apply(&Bytes::copy_from_slice(calls.as_bytes()));
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn c1_tool_fragments_are_readable_by_every_client() {
        check(
            &[r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#],
            None,
        );
        check(&[r#"[{"index":0,"function":{"arguments":"{"}}]"#], None);
        check(
            &[
                r#"[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g"}}]"#,
            ],
            Some(
                r#"[{"index":0,"type":"function","id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"type":"function","id":"b","function":{"name":"g"}}]"#,
            ),
        );
        check(
            &[
                r#"[{"id":"a","type":"function","function":{"name":"f"}}]"#,
                r#"[{"function":{"arguments":"x"}}]"#,
            ],
            Some(r#"[{"index":0,"function":{"arguments":"x"}}]"#),
        );
        check(
            &[r#"[{"index":0,"id":"","type":"function","function":{"arguments":"x"}}]"#],
            Some(r#"[{"index":0,"type":"function","function":{"arguments":"x"}}]"#),
        );
        check(
            &[r#"[{"id": "" , "index":0,"function":null}]"#],
            Some(r#"[{ "index":0,"function":{"arguments":""}}]"#),
        );
        check(
            &[
                r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":{"x": 1}}}]"#,
            ],
            Some(
                r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}}]"#,
            ),
        );
        check(
            &[r#"[{"index":0,"function":{"name":"f","arguments":null}}]"#],
            Some(r#"[{"index":0,"function":{"name":"f","arguments":""}}]"#),
        );

        #[track_caller]
        fn check(fragments: &[&str], last: Option<&str>) {
            let mut repair = Repair::default();
            let mut seen = String::new();
            for fragment in fragments {
                seen = repaired(&mut repair, fragment);
            }
            assert_eq!(seen, last.unwrap_or(fragments.last().unwrap()));
        }
    }
}
