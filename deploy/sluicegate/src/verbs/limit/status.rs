//! `limit status`: what was used of limits.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_proto::admin::v1::{LimitMeter, LimitStatusReply, LimitStatusRequest};

use crate::{
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Table, clean, duration_ms, print},
};

const COLUMNS: [&str; 10] = [
    "limit",
    "subject",
    "window",
    "used",
    "reserved",
    "capacity",
    "dimension",
    "reset",
    "holders",
    "override",
];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate limit status
  sluicegate limit status tenant-tpm
  sluicegate limit status -o json | jq '.meters[] | select(.used > 0.9 * .capacity) | .subject'

A row for each subject that was counted lately. 'reserved' is held by running requests, and by data
planes for the next ones. 'reset' is when nothing is used any more, if nobody uses more.")]
pub(crate) struct StatusArgs {
    /// Only this limit
    limit: Option<String>,
    /// How many rows to show
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=5000))]
    most: u32,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When there is no such limit, or the control plane or its ledger cannot be asked.
pub(super) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let request =
        LimitStatusRequest { limit: args.limit.clone().unwrap_or_default(), most: args.most };
    let reply = client
        .call(request, Duration::ZERO, async |admin, request| admin.limit_status(request).await)
        .await?;
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let mut table = Table::new(&COLUMNS, output.quiet);
            reply.meters.iter().for_each(|meter| table.row(row(meter)));
            if table.is_empty() {
                output.note("nothing was counted lately");
            } else {
                print(&table.render())?;
            }
            if reply.health != "ready" {
                output.note(&clean(&format!("the ledger {} is {}", reply.ledger, reply.health)));
            }
        }
        Format::Json | Format::Yaml => output.value(&value(&reply))?,
    }
    if reply.health.starts_with("away") {
        return Err(Failure::not_so(format!(
            "the ledger does not answer, so nothing can be said of limits: {}",
            clean(&reply.health)
        )));
    }
    Ok(())
}

fn row(meter: &LimitMeter) -> [String; 10] {
    [
        meter.limit.clone(),
        meter.subject.clone(),
        meter.window.clone(),
        number(meter.used),
        number(meter.reserved),
        number(meter.capacity),
        meter.dimension.clone(),
        if meter.reset_ms == 0 { String::new() } else { duration_ms(meter.reset_ms) },
        meter.holders.to_string(),
        meter.override_name.clone(),
    ]
}

/// An amount with no more places than the smallest unit of cost has.
fn number(amount: f64) -> String {
    let text = format!("{amount:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn value(reply: &LimitStatusReply) -> Value {
    let meters = reply.meters.iter().map(|meter| {
        json!({
            "limit": meter.limit,
            "dimension": meter.dimension,
            "subject": meter.subject,
            "window": meter.window,
            "used": meter.used,
            "reserved": meter.reserved,
            "capacity": meter.capacity,
            "holders": meter.holders,
            "reset_ms": meter.reset_ms,
            "override": Some(&meter.override_name).filter(|name| !name.is_empty()),
        })
    });
    json!({
        "ledger": reply.ledger,
        "health": reply.health,
        "meters": meters.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (amount, expected) in
            [(0.0, "0"), (1200.0, "1200"), (12.5, "12.5"), (1e-9, "0.000000001"), (10.0, "10")]
        {
            assert_eq!(number(amount), expected);
        }
    }
}
