//! `validate`: checking files without a control plane.

use std::path::PathBuf;

use clap::Args;
use sluicegate_model::document::References;

use crate::{
    failure::Failure,
    files::Files,
    output::{count, print},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate validate -f sluicegate.yaml
  sluicegate validate -f providers.yaml -f models.yaml     checked as one configuration
  sluicegate get -o yaml | sluicegate validate -f -

Every fault is printed with file, line and column. Exit code 1 when there is one.")]
pub(crate) struct ValidateArgs {
    /// File to check; - is standard input. Several are checked as one configuration
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    file: Vec<PathBuf>,
    /// The files are a part: what they refer to may be elsewhere
    #[arg(long)]
    partial: bool,
    /// Say nothing when everything is valid
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the verb.
///
/// # Errors
/// Every fault.
pub(crate) fn run(args: &ValidateArgs) -> Result<(), Failure> {
    let references = if args.partial { References::Open } else { References::Closed };
    let files = Files::load(&args.file, references)?;
    if args.quiet {
        return Ok(());
    }
    let lines: Vec<_> = files
        .sizes()
        .map(|(name, size)| format!("{name}: {}, valid\n", count(size, "resource")))
        .collect();
    print(&lines.concat())
}
