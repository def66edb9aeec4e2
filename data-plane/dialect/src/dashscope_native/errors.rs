//! What DashScope's errors mean. Its compatible mode lets the same codes shine through, so that both
//! have one table.

use crate::{
    errors::{Errors, Resets},
    openai_chat::variant::qwen,
};

pub(super) static ERRORS: Errors = Errors { rows: qwen::ROWS, resets: Resets::None };

#[cfg(test)]
mod tests;
