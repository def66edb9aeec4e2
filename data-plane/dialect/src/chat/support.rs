//! What a format can do with the members that have no place of their own in it: one declared table
//! for each.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::request::Chat;
use crate::dialect::Unfit;

/// What becomes of one member of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Treat {
    /// Left out, and named to the caller: the answer means the same without it.
    Drop,
    /// Refused: the answer would mean something else. The reason, for the caller.
    Refuse(&'static str),
    /// Left out where it has this value, as it is spelt; else refused.
    RefuseUnless(&'static str, &'static str),
}

/// What a format does with members that it has no words for. A member that no row names is dropped.
#[derive(Debug)]
pub struct Support(pub &'static [(&'static str, Treat)]);

impl Support {
    /// Deals with every member that is left of `chat`, and returns the names of those left out.
    ///
    /// # Errors
    /// A member that must not be left out.
    pub fn settle(&self, chat: &Chat<'_>) -> Result<Vec<Cow<'static, str>>, Unfit> {
        let mut dropped = Vec::new();
        for (name, value) in &chat.others {
            let treat = self.0.iter().find(|(known, _)| known == name).map(|(_, treat)| *treat);
            match treat.unwrap_or(Treat::Drop) {
                Treat::Refuse(why) if says(value) => {
                    return Err(Unfit::unsupported(name.clone().into_owned(), why));
                }
                Treat::RefuseUnless(harmless, why) if value.get() != harmless => {
                    return Err(Unfit::unsupported(name.clone().into_owned(), why));
                }
                Treat::Drop => dropped.push(Cow::Owned(name.clone().into_owned())),
                Treat::Refuse(_) | Treat::RefuseUnless(..) => {}
            }
        }
        Ok(dropped)
    }
}

/// Does a value ask for anything?
fn says(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "false" | "[]" | "\"\"" | "0")
}

/// A number within bounds.
pub fn clamped(number: f64, least: f64, most: f64) -> f64 {
    number.clamp(least, most)
}
