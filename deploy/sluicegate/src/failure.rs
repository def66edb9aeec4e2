//! Why a command did not do what it was asked, and the exit code that says so.

use std::{fmt, process::ExitCode};

use crate::output;

/// What an exit code means; the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Nothing is wrong and nobody reads on: standard output was closed.
    PipeClosed,
    /// The thing asked for is not so: an invalid file, differences, no such resource, a conflict.
    NotSo,
    /// The command line makes no sense.
    Usage,
    /// The control plane cannot be reached, or does not let us in.
    Unreachable,
    /// The control plane refused for another reason.
    Refused,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::PipeClosed => 0,
            Self::NotSo => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Refused => 4,
        }
    }
}

/// What to tell the user, and how to exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// May have several lines; empty when everything was said already.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn not_so(message: impl Into<String>) -> Self {
        Self { exit: Exit::NotSo, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, message: message.into() }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, message: message.into() }
    }

    /// For commands in which 1 is an answer and no failure, such as `diff`: every failure is at
    /// least 2.
    #[must_use]
    pub(crate) fn above_one(mut self) -> Self {
        if self.exit == Exit::NotSo {
            self.exit = Exit::Usage;
        }
        self
    }

    /// Tells the user and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            output::complain(&format!("error: {}", self.message));
        }
        ExitCode::from(self.exit.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A process that could not start or go on: everything that led to it, in one line.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::not_so(format!("{error:#}"))
    }
}
