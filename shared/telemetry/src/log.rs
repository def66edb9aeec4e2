//! Setting up process logs: on standard error, for people or as JSON lines.

use std::{io::IsTerminal, str::FromStr};

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One readable line each.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("unknown log format '{other}'; use text or json")),
        }
    }
}

/// Installs the global subscriber. `filter` is a comma-separated list of `target=level` directives;
/// it falls back to `info` when it does not parse. Calling it twice keeps the first.
pub fn init(format: LogFormat, filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    let outcome = match format {
        LogFormat::Text => registry
            .with(
                fmt::layer()
                    .with_writer(std::io::stderr)
                    .with_ansi(std::io::stderr().is_terminal())
                    .with_target(false),
            )
            .try_init(),
        LogFormat::Json => registry
            .with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr))
            .try_init(),
    };
    if outcome.is_err() {
        tracing::debug!("a log subscriber is installed already");
    }
}
