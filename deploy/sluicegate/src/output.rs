//! Everything that the commands print.

mod human;
mod table;
mod yaml;

use std::io::{ErrorKind, IsTerminal, Write};

use clap::{Args, ValueEnum};
use serde_json::Value;

pub(crate) use self::{
    human::{clean, count, duration_ms},
    table::Table,
    yaml::to_yaml,
};
use crate::failure::{Exit, Failure};

/// How results look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// The form of configuration files, where there is one
    Yaml,
}

/// How results look, as chosen on the command line.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Form of the result
    #[arg(short = 'o', long = "output", value_name = "FORM", value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// Print the data alone: no headings, hints or summaries
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Output {
    /// Prints a value in one of the forms for programs.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn value(self, value: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Yaml => print(&to_yaml(value)),
            Format::Table | Format::Json => print(&format!("{value:#}\n")),
        }
    }

    /// Prints one value of a sequence without end: a line of JSON, or a YAML document.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn next_value(self, value: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Yaml => print(&format!("---\n{}", to_yaml(value))),
            Format::Table | Format::Json => print(&format!("{value}\n")),
        }
    }

    /// Says something beside the result, on standard error, unless it shall be quiet.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            complain(text);
        }
    }
}

/// Writes to standard output at once.
///
/// # Errors
/// When it cannot be written. A closed pipe is a failure without a message and with exit code 0:
/// whoever read has enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == ErrorKind::BrokenPipe {
            Failure { exit: Exit::PipeClosed, message: String::new() }
        } else {
            Failure::not_so(format!("cannot write to standard output: {error}"))
        }
    })
}

/// Writes a line to standard output, for roles: one whose output nobody reads runs on.
pub(crate) fn line(text: &str) {
    if print(&format!("{text}\n")).is_err() {
        tracing::debug!("standard output is closed");
    }
}

/// Writes a line to standard error. Nobody can be told when that fails.
pub(crate) fn complain(text: &str) {
    if writeln!(std::io::stderr().lock(), "{text}").is_err() {
        tracing::debug!("standard error is closed");
    }
}

/// May standard output carry colours: a terminal, and nobody asked for none?
pub(crate) fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}
