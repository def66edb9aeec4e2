//! Reading one chunk, or one whole answer, without building it.

use std::ops::Range;

use sluicegate_model::Usage;

use super::{parts, repair::Repair};
use crate::{
    errors::is_truthy,
    json::{JsonError, Kind, Scanner, Str, whole_number},
    splice::Splices,
};

/// What a chunk or an answer holds that matters here.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// How many elements `choices` has, if there is one.
    pub(crate) choices: Option<usize>,
    /// How many elements `data` has, if there is one.
    pub(crate) data: Option<usize>,
    /// Choices that carry content, and choices that finish, one bit each.
    pub(crate) content: u128,
    pub(crate) finished: u128,
    /// Every choice that is named.
    pub(crate) named: u128,
    /// Every finish reason: where its value stands, quotes included, and its text.
    pub(crate) finish: Vec<(Range<usize>, String)>,
    pub(crate) usage: Option<Usage>,
    /// Raw value of a truthy `error` member, or of a `base_resp`, which may be one.
    pub(crate) error: Option<Range<usize>>,
    /// Characters of text, reasoning and arguments.
    pub(crate) chars: u64,
    /// What must be changed for clients to read it.
    pub(crate) splices: Splices,
}

/// Reads `text`; lenient about types, strict about JSON.
pub(crate) fn read(text: &[u8], repair: &mut Repair) -> Result<Facts, JsonError> {
    let mut facts = Facts::default();
    let mut scanner = Scanner::lenient(text);
    if scanner.kind()? != Kind::Object {
        scanner.skip()?;
        scanner.end()?;
        return Ok(facts);
    }
    scanner.object(|scanner, name| {
        let kind = scanner.kind()?;
        match kind {
            Kind::Array if name.is("choices") => {
                let mut count = 0;
                scanner.array(|scanner, position| {
                    count = position + 1;
                    choice(scanner, position, repair, &mut facts)
                })?;
                facts.choices = Some(count);
                Ok(())
            }
            Kind::Array if name.is("data") => {
                let mut count = 0;
                scanner.array(|scanner, position| {
                    count = position + 1;
                    scanner.skip().map(drop)
                })?;
                facts.data = Some(count);
                Ok(())
            }
            Kind::Object if name.is("usage") => {
                facts.usage = usage(scanner)?.or(facts.usage);
                Ok(())
            }
            _ => {
                let span = scanner.skip()?;
                let error = name.is("error") && is_truthy(scanner.slice(span.clone()));
                if error || name.is("base_resp") {
                    facts.error = Some(span);
                }
                Ok(())
            }
        }
    })?;
    scanner.end()?;
    Ok(facts)
}

fn choice(
    scanner: &mut Scanner<'_>,
    position: usize,
    repair: &mut Repair,
    facts: &mut Facts,
) -> Result<(), JsonError> {
    if scanner.kind()? != Kind::Object {
        return scanner.skip().map(drop);
    }
    let mut index = position;
    let mut has_content = false;
    let mut finishes = false;
    scanner.object(|scanner, name| {
        match scanner.kind()? {
            Kind::Number if name.is("index") => {
                let span = scanner.skip()?;
                let number = whole_number(scanner.slice(span));
                index = number.and_then(|number| usize::try_from(number).ok()).unwrap_or(position);
            }
            Kind::Object if name.is("delta") => {
                has_content |= content(scanner, repair, Some(index), facts)?;
            }
            Kind::Object if name.is("message") => {
                has_content |= content(scanner, repair, None, facts)?;
            }
            Kind::String if name.is("text") => {
                let text = scanner.string()?;
                has_content |= !text.is_empty();
                facts.chars += chars(text);
            }
            Kind::String if name.is("finish_reason") || name.is("finishReason") => {
                let text = scanner.string()?;
                // Some servers spell "none yet" as text.
                if !text.is_empty() && !text.is("null") {
                    finishes = true;
                    facts.finish.push((scanner.span_of(text), text.decode().into_owned()));
                }
            }
            Kind::Object if name.is("usage") => facts.usage = usage(scanner)?.or(facts.usage),
            _ => {
                scanner.skip()?;
            }
        }
        Ok(())
    })?;
    let bit = 1_u128.checked_shl(u32::try_from(index).unwrap_or(u32::MAX)).unwrap_or(0);
    facts.named |= bit;
    if has_content {
        facts.content |= bit;
    }
    if finishes {
        facts.finished |= bit;
    }
    Ok(())
}

/// Does a delta or message say anything? Roles, nulls and empty values do not. What clients could
/// not read is repaired; of a delta, `fragment` is its choice, and its tool calls are fragments.
fn content(
    scanner: &mut Scanner<'_>,
    repair: &mut Repair,
    fragment: Option<usize>,
    facts: &mut Facts,
) -> Result<bool, JsonError> {
    let mut says = false;
    let mut alias = None;
    let mut has_role = false;
    let start = scanner.at();
    scanner.object(|scanner, name| {
        match scanner.kind()? {
            Kind::String => {
                let text = scanner.string()?;
                has_role |= name.is("role");
                if !name.is("role") && !text.is_empty() {
                    says = true;
                    facts.chars += chars(text);
                }
                if repair.is_reasoning(name) {
                    alias = Some(scanner.span_of(name));
                }
            }
            Kind::Array if name.is("content") => {
                let member = scanner.span_of(name);
                let span = scanner.skip()?;
                says |= span.len() > 2;
                facts.chars += span.len() as u64;
                if let Some(plain) = parts::plain(scanner.slice(span.clone())) {
                    facts.splices.replace(member.start..span.end, plain);
                }
            }
            Kind::Array if name.is("tool_calls") => {
                let start = scanner.at();
                match fragment {
                    Some(choice) => {
                        repair.tool_calls(scanner, choice, &mut facts.splices)?;
                    }
                    None => {
                        scanner.skip()?;
                    }
                }
                let length = scanner.at() - start;
                says |= length > 2;
                facts.chars += length as u64 / 2;
            }
            Kind::Array => {
                scanner.array(|scanner, _| {
                    says = true;
                    scanner.skip().map(drop)
                })?;
            }
            Kind::Object => {
                let span = scanner.skip()?;
                says |= span.len() > 2;
            }
            Kind::Number | Kind::True | Kind::False | Kind::Null => {
                scanner.skip()?;
            }
        }
        Ok(())
    })?;
    if let Some(choice) = fragment
        && repair.lacks_role(choice, has_role, says)
    {
        let role = r#""role":"assistant","#;
        facts.splices.replace(start + 1..start + 1, role);
    }
    if let Some(name) = alias {
        facts.splices.replace(name, "\"reasoning_content\"");
    }
    Ok(says)
}

fn chars(text: Str<'_>) -> u64 {
    text.decode().chars().count() as u64
}

/// Reads a usage object; `None` when it holds no count at all.
fn usage(scanner: &mut Scanner<'_>) -> Result<Option<Usage>, JsonError> {
    let mut usage = Usage::default();
    let mut any = false;
    scanner.object(|scanner, name| {
        match scanner.kind()? {
            Kind::Number => {
                let span = scanner.skip()?;
                let Some(count) = whole_number(scanner.slice(span)) else { return Ok(()) };
                if name.is("prompt_tokens") || name.is("input_tokens") {
                    usage.input = count;
                    any = true;
                } else if name.is("completion_tokens") || name.is("output_tokens") {
                    usage.output = count;
                    any = true;
                } else if name.is("cached_tokens") || name.is("prompt_cache_hit_tokens") {
                    usage.cached = count.max(usage.cached);
                }
            }
            Kind::Object if name.is("prompt_tokens_details") || name.is("input_tokens_details") => {
                usage.cached = detail(scanner, "cached_tokens")?.max(usage.cached);
            }
            Kind::Object
                if name.is("completion_tokens_details") || name.is("output_tokens_details") =>
            {
                usage.reasoning = detail(scanner, "reasoning_tokens")?;
            }
            _ => {
                scanner.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(any.then_some(usage))
}

fn detail(scanner: &mut Scanner<'_>, wanted: &str) -> Result<u64, JsonError> {
    let mut found = 0;
    scanner.object(|scanner, name| {
        let span = scanner.skip()?;
        if name.is(wanted) {
            found = whole_number(scanner.slice(span)).unwrap_or(0);
        }
        Ok(())
    })?;
    Ok(found)
}
