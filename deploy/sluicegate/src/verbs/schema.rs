//! `schema`: the JSON Schema of configuration files.

use crate::{failure::Failure, output::print};

/// Runs the verb.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run() -> Result<(), Failure> {
    print(&format!("{:#}\n", sluicegate_model::schema::json_schema()))
}
