//! `init`: a file to start with.

use std::{io::ErrorKind, path::PathBuf};

use clap::Args;
use sluicegate_model::secret::{Secret, new_caller_key};

use crate::{
    failure::Failure,
    output::{complain, print},
    private::{self, Existing},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate init
  sluicegate init /etc/sluicegate/sluicegate.yaml

The file holds a fresh caller key, so only its owner can read it.")]
pub(crate) struct InitArgs {
    /// File to write
    #[arg(default_value = "sluicegate.yaml")]
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// Do not say what to do next
    #[arg(short, long)]
    quiet: bool,
}

/// The file. `KEY` is replaced.
const TEMPLATE: &str = r#"# Sluicegate configuration. 'sluicegate validate -f FILE' checks it, 'sluicegate schema' is for editors.
providers:
  - name: demo                        # 'sluicegate demo-upstream' answers here, without a key
    dialect: openai-chat
    base_url: http://127.0.0.1:9000/v1
    keyless: true
  # - name: openai
  #   dialect: openai-chat
  #   base_url: https://api.openai.com/v1
  #   keys:
  #     - { name: main, secret: { env: OPENAI_API_KEY } }

models:
  - name: demo                        # the name that callers use
    targets:
      - { provider: demo }            # the lowest priority number first, then by weight
      # - { provider: openai, model: gpt-4o-mini, priority: 1 }

tenants:
  - { name: default }

api_keys:                             # callers send "Authorization: Bearer KEY"
  - { name: first, tenant: default, secret: { value: KEY } }

# limits:                             # who may use how much; '*' counts each apart
  # - { name: key-rpm, scope: { key: "*" }, dimension: requests, rate: 10/second;300/minute }
  # - { name: tenant-tpm, scope: { tenant: "*" }, dimension: tokens, rate: 100000/minute }
  # - { name: budget, scope: { tenant: default }, dimension: cost, amount: 50, window: month }
"#;

fn text(key: &Secret) -> String {
    TEMPLATE.replace("value: KEY", &format!("value: {}", key.expose()))
}

/// Runs the verb.
///
/// # Errors
/// When the file exists already and may not be overwritten, or cannot be written.
pub(crate) fn run(args: &InitArgs) -> Result<(), Failure> {
    let key = new_caller_key()
        .map_err(|error| Failure::not_so(format!("no randomness for a key: {error}")))?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let name = args.file.display();
    let written = private::write(&args.file, &text(&key), existing);
    written.map_err(|error| {
        Failure::not_so(if error.kind() == ErrorKind::AlreadyExists {
            format!("{name} exists; give another name, or --force to overwrite it")
        } else {
            format!("cannot write {name}: {error}")
        })
    })?;
    if args.quiet {
        return Ok(());
    }
    print(&format!("wrote {name}\n"))?;
    complain(&format!(
        "next:\n  sluicegate demo-upstream &\n  sluicegate run --config {name}\n  \
         curl http://127.0.0.1:8080/v1/chat/completions -H 'Authorization: Bearer KEY' \\\n    \
         -H 'Content-Type: application/json' \\\n    \
         -d '{{\"model\": \"demo\", \"messages\": [{{\"role\": \"user\", \"content\": \"hello\"}}]}}'\n\
         KEY is the caller key in {name}"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluicegate_model::document::{Document, References};

    use super::*;

    #[test]
    fn the_file_is_valid_with_and_without_its_comments() {
        let text = text(&new_caller_key().unwrap());
        assert_eq!(count(&text), 4);
        let everything = text.replace("  # - ", "  - ").replace("  #   ", "    ");
        let everything = everything.replace("      # - {", "      - {");
        let everything = everything.replace("# limits:", "limits:");
        assert_eq!(count(&everything), 9, "{everything}");

        #[track_caller]
        fn count(text: &str) -> usize {
            let document = Document::parse("f", text, References::Closed);
            document.unwrap_or_else(|faults| panic!("{faults}")).resources.len()
        }
    }
}
