//! `history`: past changes.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_proto::admin::v1::{HistoryEntry, HistoryRequest};
use sluicegate_telemetry::clock::format_unix_ms;

use crate::{
    change::{Counts, to_json},
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Table, print},
};

/// Largest page that the control plane gives.
const PAGE: usize = 500;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate history --limit 5
  sluicegate history -o json | jq '.entries[0].differences'     what exactly changed last")]
pub(crate) struct HistoryArgs {
    /// How many changes to list
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    limit: usize,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When the control plane cannot be asked.
pub(crate) async fn run(args: HistoryArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let mut entries = Vec::new();
    let mut page_token = String::new();
    loop {
        let wanted = (args.limit - entries.len()).min(PAGE);
        let page_size = u32::try_from(wanted).unwrap_or(u32::MAX);
        let request = HistoryRequest { page_size, page_token };
        let page = client
            .call(request, Duration::ZERO, async |admin, request| admin.history(request).await)
            .await?;
        entries.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() || entries.len() >= args.limit {
            break;
        }
    }
    entries.truncate(args.limit);

    let output = args.client.output;
    match output.format {
        Format::Table => {
            let columns = ["revision", "time", "author", "changes", "comment"];
            let mut table = Table::new(&columns, output.quiet);
            for entry in &entries {
                table.row(row(entry));
            }
            if table.is_empty() {
                output.note("no change was made yet");
                return Ok(());
            }
            print(&table.render())
        }
        Format::Json | Format::Yaml => {
            let entries: Vec<_> = entries.iter().map(value).collect();
            output.value(&json!({ "entries": entries }))
        }
    }
}

fn row(entry: &HistoryEntry) -> [String; 5] {
    let counts = Counts::of(&entry.differences);
    [
        entry.revision.to_string(),
        format_unix_ms(entry.time_unix_ms),
        entry.author.clone(),
        format!("+{} ~{} -{}", counts.created, counts.updated, counts.deleted),
        entry.comment.clone(),
    ]
}

fn value(entry: &HistoryEntry) -> Value {
    json!({
        "revision": entry.revision,
        "time": format_unix_ms(entry.time_unix_ms),
        "author": entry.author,
        "comment": entry.comment,
        "differences": entry.differences.iter().map(to_json).collect::<Vec<_>>(),
    })
}
