//! `usage`: what was used.

mod decimal;

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use serde_json::{Map, Value, json};
use sluicegate_proto::admin::v1::{QueryUsageRequest, UsageTotal};
use sluicegate_telemetry::clock;

use self::decimal::decimal;
use crate::{
    client::{Client, ServerOptions},
    failure::Failure,
    output::{Table, complain, print, to_yaml},
};

/// Columns of numbers.
const COUNTS: [&str; 8] =
    ["requests", "estimated", "input", "output", "cached", "reasoning", "units", "cost_dollars"];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate usage                                    today, all of it
  sluicegate usage --last 7d --by tenant,model
  sluicegate usage --from 2026-11-01 --to 2026-11-30 --by month,tenant -o csv > november.csv
  sluicegate usage --last 30d --by day --key search -o json | jq '.totals[].cost_dollars'

Days are those of UTC. Tokens are the upstream's own count where it gave one; the column 'estimated'
says for how many requests they were counted here. Cached tokens are part of the input, reasoning
tokens part of the output. Cost is exact.")]
pub(crate) struct UsageArgs {
    /// First day, as 2026-11-30; default: today
    #[arg(long, value_name = "DAY", value_parser = day)]
    from: Option<Date>,
    /// Last day, included; default: today
    #[arg(long, value_name = "DAY", value_parser = day)]
    to: Option<Date>,
    /// So many days up to today, such as 7d or 4w
    #[arg(long, value_name = "SPAN", value_parser = span_days, conflicts_with_all = ["from", "to"])]
    last: Option<u32>,
    /// A row for each: day, month, tenant, key, model, provider, credential
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',')]
    by: Vec<By>,
    /// Only usage of this tenant, without those below it
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only usage with this caller's key
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Only usage of this public model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Only usage of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Only usage of this provider key
    #[arg(long, value_name = "NAME")]
    credential: Option<String>,
    /// Form of the result
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORM",
        value_enum,
        default_value = "table",
        help_heading = "Control plane and output"
    )]
    format: Form,
    /// Print the data alone: no headings
    #[arg(short, long, help_heading = "Control plane and output")]
    quiet: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// How the result looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Table,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
    /// For programs
    Yaml,
}

/// What rows are told apart by, in the order of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum By {
    Day,
    Month,
    Tenant,
    Key,
    Model,
    Provider,
    Credential,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Tenant => "tenant",
            Self::Key => "key",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Credential => "credential",
        }
    }

    fn of(self, total: &UsageTotal) -> &str {
        match self {
            Self::Day | Self::Month => &total.period,
            Self::Tenant => &total.tenant,
            Self::Key => &total.key,
            Self::Model => &total.model,
            Self::Provider => &total.provider,
            Self::Credential => &total.credential,
        }
    }
}

/// Runs the verb.
///
/// # Errors
/// When the control plane cannot be asked.
pub(crate) async fn run(args: UsageArgs) -> Result<(), Failure> {
    let mut by = args.by.clone();
    by.sort_unstable();
    by.dedup();
    if by.contains(&By::Day) {
        // A day says its month.
        by.retain(|one| *one != By::Month);
    }
    let from = match args.last {
        Some(days) => Some(first_of(days)?),
        None => args.from,
    };
    let text = |date: Option<Date>| date.map(|date| date.to_string()).unwrap_or_default();
    let request = QueryUsageRequest {
        from: text(from),
        to: text(args.to),
        group_by: by.iter().map(|one| one.name().to_owned()).collect(),
        tenant: args.tenant.unwrap_or_default(),
        key: args.key.unwrap_or_default(),
        model: args.model.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
        credential: args.credential.unwrap_or_default(),
    };
    let mut client = Client::connect_to(&args.server).await?;
    let reply = client
        .call(request, Duration::ZERO, async |admin, request| admin.query_usage(request).await)
        .await?;
    let totals = &reply.totals;
    match args.format {
        Form::Table => {
            if totals.is_empty() {
                if !args.quiet {
                    complain("nothing was used");
                }
                return Ok(());
            }
            let mut table = Table::new(&columns(&by), args.quiet);
            totals.iter().for_each(|total| table.row(cells(&by, total)));
            print(&table.render())
        }
        Form::Csv => {
            let heading = if args.quiet { String::new() } else { csv(columns(&by)) };
            let rows = totals.iter().map(|total| csv(cells(&by, total)));
            print(&std::iter::once(heading).chain(rows).collect::<String>())
        }
        Form::Json | Form::Yaml => {
            let totals: Vec<_> = totals.iter().map(|total| value(&by, total)).collect();
            let value = json!({ "totals": totals });
            let yaml = args.format == Form::Yaml;
            print(&if yaml { to_yaml(&value) } else { format!("{value:#}\n") })
        }
    }
}

/// The first of so many days up to today.
fn first_of(days: u32) -> Result<Date, Failure> {
    let now = i64::try_from(clock::unix_ms()).ok();
    let now = now.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    now.and_then(|now| {
        let today = now.to_zoned_datetime(TimeZone::UTC).date();
        today.checked_sub(i64::from(days.saturating_sub(1)).days()).ok()
    })
    .ok_or_else(|| Failure::usage("--last reaches back too far".to_owned()))
}

fn columns(by: &[By]) -> Vec<&'static str> {
    by.iter().map(|one| one.name()).chain(COUNTS).collect()
}

fn cells(by: &[By], total: &UsageTotal) -> Vec<String> {
    let names = by.iter().map(|one| one.of(total).to_owned());
    let counts = [
        total.requests.to_string(),
        total.estimated.to_string(),
        total.input_tokens.to_string(),
        total.output_tokens.to_string(),
        total.cached_tokens.to_string(),
        total.reasoning_tokens.to_string(),
        decimal(total.micro_units, 6),
        decimal(total.cost_nano, 9),
    ];
    names.chain(counts).collect()
}

/// The form for programs. Cost and units are texts: they are exact, and numbers of JSON need not be.
fn value(by: &[By], total: &UsageTotal) -> Value {
    let mut value = Map::new();
    for one in by {
        value.insert(one.name().to_owned(), one.of(total).into());
    }
    value.insert("requests".to_owned(), total.requests.into());
    value.insert("estimated".to_owned(), total.estimated.into());
    value.insert("input_tokens".to_owned(), total.input_tokens.into());
    value.insert("output_tokens".to_owned(), total.output_tokens.into());
    value.insert("cached_tokens".to_owned(), total.cached_tokens.into());
    value.insert("reasoning_tokens".to_owned(), total.reasoning_tokens.into());
    value.insert("units".to_owned(), decimal(total.micro_units, 6).into());
    value.insert("cost_dollars".to_owned(), decimal(total.cost_nano, 9).into());
    Value::Object(value)
}

/// A line of CSV as RFC 4180 has it, but with the line end of this system.
fn csv<T: AsRef<str>>(cells: Vec<T>) -> String {
    let quoted = |cell: &T| {
        let cell = cell.as_ref();
        if cell.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    };
    let mut line = cells.iter().map(quoted).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

fn day(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| "write a day as 2026-11-30".to_owned())
}

fn span_days(text: &str) -> Result<u32, String> {
    let read = || {
        let (unit, days) =
            [("d", 1), ("w", 7)].into_iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(days).filter(|days| *days > 0)
    };
    read().ok_or_else(|| "use a number of days or weeks, such as 7d or 4w".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_csv() {
        assert_eq!(csv(vec!["a", "b,c", "d\"e", ""]), "a,\"b,c\",\"d\"\"e\",\n");
    }

    #[test]
    fn spans() {
        assert_eq!(span_days("7d"), Ok(7));
        assert_eq!(span_days("2w"), Ok(14));
        for bad in ["", "d", "0d", "7", "-1d", "7h", "4000000000w"] {
            assert!(span_days(bad).is_err(), "{bad}");
        }
    }
}
