//! `completions`: scripts that complete command lines.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{cli::Cli, failure::Failure, output::print};

#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = "\
Examples:
  source <(sluicegate completions bash)
  sluicegate completions zsh > ~/.zfunc/_sluicegate
  sluicegate completions fish > ~/.config/fish/completions/sluicegate.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the verb.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(args: CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sluicegate", &mut script);
    print(&String::from_utf8_lossy(&script))
}
