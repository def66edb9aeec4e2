//! Taking tools out of a request, by name or all of them. Every other byte stays, messages that tell
//! of earlier calls included.
//!
//! Where a tool is gone, what speaks of it goes with it: a choice that forces it becomes `auto`, it
//! leaves the list of allowed ones, and with the last tool go `tool_choice` and `parallel_tool_calls`,
//! which upstreams refuse without tools. `functions` and `function_call`, their older form, alike.
//! Names are compared however they are spelt, and a member that is given twice is stripped twice:
//! nothing is left to a reader who takes the other one.

use std::{fmt, ops::Range};

use crate::{
    call::{Call, Endpoint, InvalidCall, Member},
    json::{JsonError, Kind, Scanner},
    splice::Splices,
};

/// Which tools go.
#[derive(Clone, Copy)]
pub enum Which<'a> {
    All,
    /// Those whose names it says yes to. A tool that is built in goes by its type.
    Named(&'a dyn Fn(&str) -> bool),
}

impl fmt::Debug for Which<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "All",
            Self::Named(_) => "Named(..)",
        })
    }
}

/// A request without the tools that were taken out.
#[derive(Debug, Clone)]
pub struct Stripped {
    pub call: Call,
    /// Names of what was taken out, each once, in the order of the request.
    pub removed: Vec<String>,
}

/// A member that lists tools, and what goes once it lists none.
struct Form {
    list: &'static str,
    choice: &'static str,
    others: &'static [&'static str],
}

const FORMS: [Form; 2] = [
    Form { list: "tools", choice: "tool_choice", others: &["parallel_tool_calls"] },
    Form { list: "functions", choice: "function_call", others: &[] },
];

/// Takes tools out of a request. `None`: it has none of them, and stays as it is.
///
/// # Errors
/// None that a call which was parsed before is known to cause.
pub fn strip(call: &Call, which: Which<'_>) -> Result<Option<Stripped>, InvalidCall> {
    if call.endpoint != Endpoint::Chat {
        return Ok(None);
    }
    let mut stripping = Stripping {
        call,
        which,
        splices: Splices::default(),
        out: Vec::new(),
        removed: Vec::new(),
    };
    FORMS.iter().for_each(|form| stripping.form(form));
    let Stripping { mut splices, out, removed, .. } = stripping;
    if removed.is_empty() {
        return Ok(None);
    }
    splices.remove_members(&call.members, |index| out.contains(&index));
    let stripped = Call::parse(call.endpoint, splices.apply(&call.body))?;
    let call = Call { model: call.model.clone(), send_cap: call.send_cap, ..stripped };
    Ok(Some(Stripped { call, removed }))
}

struct Stripping<'a> {
    call: &'a Call,
    which: Which<'a>,
    splices: Splices,
    /// Members that go, by index.
    out: Vec<usize>,
    removed: Vec<String>,
}

impl Stripping<'_> {
    fn form(&mut self, form: &Form) {
        let (mut some_gone, mut some_left) = (false, false);
        for index in self.members(form.list) {
            let (gone, left) = self.list(index);
            some_gone |= gone;
            some_left |= left;
        }
        if !some_gone {
            return;
        }
        let choices = self.members(form.choice);
        if some_left {
            choices.into_iter().for_each(|index| self.choice(index));
        } else {
            self.out.extend(choices);
            for name in form.others {
                let others = self.members(name);
                self.out.extend(others);
            }
        }
    }

    /// Strips one list. Tells whether anything is gone of it, and whether anything is left.
    fn list(&mut self, index: usize) -> (bool, bool) {
        let Some(member) = self.call.members.get(index) else { return (false, false) };
        let tools = tools(&self.call.body, &member.value).unwrap_or_default();
        let gone: Vec<bool> = tools.iter().map(|tool| self.goes(tool)).collect();
        for (tool, _) in tools.iter().zip(&gone).filter(|(_, gone)| **gone) {
            let name = tool.names.first().cloned().unwrap_or_else(|| "unnamed".to_owned());
            if !self.removed.contains(&name) {
                self.removed.push(name);
            }
        }
        let some_gone = gone.contains(&true);
        let some_left = gone.contains(&false);
        if some_left {
            self.splices.remove_members(&members(&tools), |at| gone.get(at) == Some(&true));
        } else if some_gone {
            self.out.push(index);
        }
        (some_gone, some_left)
    }

    /// Mends a choice where some tools are left.
    fn choice(&mut self, index: usize) {
        let Some(member) = self.call.members.get(index) else { return };
        let value = member.value.clone();
        let Ok(choice) = chosen(&self.call.body, &value) else { return };
        if self.goes(&choice.forced) && !choice.forced.names.is_empty() {
            self.splices.replace(value, r#""auto""#);
            return;
        }
        let gone: Vec<bool> = choice.allowed.iter().map(|tool| self.goes(tool)).collect();
        if gone.is_empty() {
            return;
        }
        if gone.iter().all(|gone| *gone) {
            // The others were not allowed before, and are not now.
            self.splices.replace(value, r#""none""#);
        } else {
            self.splices
                .remove_members(&members(&choice.allowed), |at| gone.get(at) == Some(&true));
        }
    }

    fn goes(&self, tool: &Tool) -> bool {
        match self.which {
            Which::All => true,
            Which::Named(named) => tool.names.iter().any(|name| named(name)),
        }
    }

    /// Indices of the members of this name, however it is spelt.
    fn members(&self, name: &str) -> Vec<usize> {
        let is_named = |member: &Member| {
            let spelt = self.call.body.get(member.name.clone()).unwrap_or_default();
            Scanner::new(spelt).string().is_ok_and(|text| text.is(name))
        };
        let members = self.call.members.iter().enumerate();
        members.filter(|(_, member)| is_named(member)).map(|(index, _)| index).collect()
    }
}

/// A tool in a list.
#[derive(Default)]
struct Tool {
    /// Where it stands in the body.
    span: Range<usize>,
    /// Usually one.
    names: Vec<String>,
}

/// Elements of a list as if they were members: with the comma beside each.
fn members(tools: &[Tool]) -> Vec<Member> {
    let member = |tool: &Tool| Member { name: tool.span.clone(), value: tool.span.clone() };
    tools.iter().map(member).collect()
}

/// The tools of a list that stands in a body; of anything else, none.
fn tools(body: &[u8], value: &Range<usize>) -> Result<Vec<Tool>, JsonError> {
    let mut scanner = Scanner::new(body.get(value.clone()).unwrap_or_default());
    if scanner.kind()? != Kind::Array {
        return Ok(Vec::new());
    }
    let mut tools = Vec::new();
    list(&mut scanner, value.start, &mut tools)?;
    Ok(tools)
}

fn list(scanner: &mut Scanner<'_>, base: usize, into: &mut Vec<Tool>) -> Result<(), JsonError> {
    scanner.array(|scanner, _| {
        let mut tool = Tool::default();
        let span = match scanner.kind()? {
            Kind::Object => named(scanner, &mut tool.names)?,
            _ => scanner.skip()?,
        };
        tool.span = base + span.start..base + span.end;
        into.push(tool);
        Ok(())
    })?;
    Ok(())
}

/// Reads the names that an object gives a tool: its own, its function's, or the type of one that is
/// built in.
fn named(scanner: &mut Scanner<'_>, names: &mut Vec<String>) -> Result<Range<usize>, JsonError> {
    scanner.object(|scanner, member| {
        let kind = scanner.kind()?;
        let inner = member.is("function") || member.is("custom");
        if inner && kind == Kind::Object {
            return named(scanner, names).map(drop);
        }
        let is_name = member.is("name");
        if kind == Kind::String && (is_name || member.is("type")) {
            let text = scanner.string()?.decode().into_owned();
            if is_name || !matches!(text.as_str(), "function" | "custom" | "allowed_tools") {
                names.push(text);
            }
            return Ok(());
        }
        scanner.skip().map(drop)
    })
}

/// What a choice speaks of.
#[derive(Default)]
struct Choice {
    forced: Tool,
    allowed: Vec<Tool>,
}

/// Reads a choice; one that is a word speaks of no tool.
fn chosen(body: &[u8], value: &Range<usize>) -> Result<Choice, JsonError> {
    let text = body.get(value.clone()).unwrap_or_default();
    let mut choice = Choice::default();
    let mut scanner = Scanner::new(text);
    if scanner.kind()? != Kind::Object {
        return Ok(choice);
    }
    named(&mut scanner, &mut choice.forced.names)?;
    allowed(&mut Scanner::new(text), value.start, &mut choice.allowed)?;
    Ok(choice)
}

/// Reads the lists of tools that a choice allows, at its top or one level below.
fn allowed(scanner: &mut Scanner<'_>, base: usize, into: &mut Vec<Tool>) -> Result<(), JsonError> {
    scanner.object(|scanner, member| {
        let kind = scanner.kind()?;
        if member.is("tools") && kind == Kind::Array {
            return list(scanner, base, into);
        }
        if member.is("allowed_tools") && kind == Kind::Object {
            return allowed(scanner, base, into);
        }
        scanner.skip().map(drop)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
