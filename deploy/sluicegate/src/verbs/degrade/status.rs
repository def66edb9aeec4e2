//! `degrade status`: how far each degradation has gone, since when, and why.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_proto::admin::v1::{DegradationStatus, DegradeStatusReply, DegradeStatusRequest};
use sluicegate_telemetry::clock::{self, format_unix_ms};

use crate::{
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Table, clean, duration_ms, print},
};

const COLUMNS: [&str; 6] = ["degradation", "level", "for", "why", "unknown", "by_hand"];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate degrade status
  sluicegate degrade status memory -o json

'unknown' are readings that its conditions ask for and nobody tells now: they neither begin nor end
a level.")]
pub(crate) struct StatusArgs {
    /// Only this degradation
    name: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When there is no such degradation, or the control plane cannot be asked.
pub(super) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let request = DegradeStatusRequest { degradation: args.name.unwrap_or_default() };
    let reply: DegradeStatusReply = client
        .call(request, Duration::ZERO, async |admin, request| admin.degrade_status(request).await)
        .await?;
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let mut table = Table::new(&COLUMNS, output.quiet);
            reply.degradations.iter().for_each(|status| table.row(row(status)));
            if table.is_empty() {
                output.note("there are no degradations");
            } else {
                print(&table.render())?;
            }
            if !reply.works_on_them {
                output.note("another replica works on them: ask that one for their levels");
            }
            Ok(())
        }
        Format::Json | Format::Yaml => {
            let degradations: Vec<_> = reply.degradations.iter().map(value).collect();
            let works_on_them = reply.works_on_them;
            output.value(&json!({ "works_on_them": works_on_them, "degradations": degradations }))
        }
    }
}

fn row(status: &DegradationStatus) -> [String; 6] {
    let since = Some(status.since_unix_ms).filter(|since| *since > 0);
    let readings =
        status.readings.iter().map(|reading| format!("{} = {}", reading.name, reading.value));
    let readings = readings.collect::<Vec<_>>().join(", ");
    let why = match status.cause.as_str() {
        "readings" if readings.is_empty() => status.reason.clone(),
        "readings" => format!("{} ({readings})", status.reason),
        "by_hand" if status.reason.is_empty() => "set by hand".to_owned(),
        "by_hand" => format!("set by hand: {}", status.reason),
        "hand_ended" => "what was set by hand is over".to_owned(),
        "redefined" => "it was changed".to_owned(),
        _ => String::new(),
    };
    let by_hand = status.manual.as_ref();
    let by_hand = by_hand.map(|hand| format!("{} for {}", hand.level, duration_ms(hand.left_ms)));
    [
        status.degradation.clone(),
        status.level.map_or_else(|| "?".to_owned(), |level| level.to_string()),
        since.map(|since| duration_ms(clock::unix_ms().saturating_sub(since))).unwrap_or_default(),
        clean(&why),
        clean(&status.unknown.join(", ")),
        by_hand.unwrap_or_default(),
    ]
}

fn value(status: &DegradationStatus) -> Value {
    let since = Some(status.since_unix_ms).filter(|since| *since > 0);
    let readings = status.readings.iter();
    let readings: Vec<_> =
        readings.map(|one| json!({ "name": one.name, "value": one.value })).collect();
    let manual = status.manual.as_ref().map(|manual| {
        json!({ "level": manual.level, "left_ms": manual.left_ms, "comment": manual.comment })
    });
    json!({
        "degradation": status.degradation,
        "level": status.level,
        "cause": status.cause,
        "reason": status.reason,
        "readings": readings,
        "since": since.map(format_unix_ms),
        "unknown": status.unknown,
        "manual": manual,
    })
}
