//! `limit set`, `limit unset`, `limit overrides`: other amounts for single subjects.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use sluicegate_model::Kind;
use sluicegate_proto::{
    admin::v1::ListRequest,
    resource::v1::{LimitScope, Override, Resource, resource::Spec},
};
use sluicegate_telemetry::clock::{self, format_unix_ms};

use super::subject::{self, Named, named};
use crate::{
    change::{Put, Telling, WaitArgs},
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Table, duration_ms, print},
    verbs::{
        delete::{self, HowArgs},
        resources,
    },
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate limit set key-rpm --for key=alice --rate 2/second --during 10m --reason 'runs wild'
  sluicegate limit set budget --for tenant=acme --amount 200 --until 2026-12-31T23:59:59Z
  sluicegate limit set tpm --for tenant=acme --for model=gpt-4o --rate 500000/minute --wait 1.0

A subject has one override of a limit: another one takes its place. Of several that cover a subject
the one that names most parts holds. It ends by itself when its time is over.")]
pub(crate) struct SetArgs {
    /// The limit
    limit: String,
    /// For whom: a part of the limit's scope, such as key=alice or tenant=acme; may be repeated
    #[arg(long = "for", value_name = "PART=NAME", required = true, value_parser = named)]
    subject: Vec<Named>,
    /// In place of the limit's rates with the same windows, such as 3/second;100/minute
    #[arg(long, value_name = "RATE", required_unless_present_any = ["amount", "burst"],
          conflicts_with = "amount")]
    rate: Option<String>,
    /// In place of the limit's amount
    #[arg(long, value_name = "N")]
    amount: Option<f64>,
    /// In place of the limit's burst
    #[arg(long, value_name = "N", conflicts_with = "amount")]
    burst: Option<f64>,
    /// When it ends: RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<u64>,
    /// How long it holds, such as 90s, 10m, 12h, 30d
    #[arg(long, value_name = "SPAN", value_parser = span_ms, conflicts_with = "until")]
    during: Option<u64>,
    /// Why, for those who find it later
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Name of the override; default: made of the limit and the subject
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate limit unset key-rpm --for key=alice")]
pub(crate) struct UnsetArgs {
    /// The limit
    limit: String,
    /// For whom, exactly as it was set
    #[arg(long = "for", value_name = "PART=NAME", required = true, value_parser = named)]
    subject: Vec<Named>,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate limit overrides
  sluicegate limit overrides key-rpm -o json")]
pub(crate) struct ListArgs {
    /// Only those of this limit
    limit: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

/// Makes an override, or replaces the one that the subject has.
///
/// # Errors
/// When it does not fit the limit, or the control plane cannot be asked.
pub(super) async fn set(args: SetArgs) -> Result<(), Failure> {
    let subject = subject::subject(&args.subject)?;
    let now_ms = clock::unix_ms();
    let end = args.until.or_else(|| args.during.map(|span| now_ms.saturating_add(span)));
    if end.is_some_and(|end| end <= now_ms) {
        return Err(Failure::usage("--until is over already".to_owned()));
    }
    let mut client = Client::connect(&args.client).await?;
    let name = match args.name {
        Some(name) => name,
        None => of(&mut client, &args.limit, &subject)
            .await?
            .unwrap_or_else(|| subject::name(&args.limit, &subject)),
    };
    let spec = Override {
        name,
        limit: args.limit,
        subject: Some(subject),
        rate: args.rate.unwrap_or_default(),
        burst: args.burst,
        amount: args.amount,
        expires_at: end.map(format_unix_ms).unwrap_or_default(),
        reason: args.reason,
    };
    let put = Put {
        spec: Spec::Override(spec),
        of: None,
        comment: args.how.comment.unwrap_or_default(),
        dry_run: args.how.dry_run,
    };
    let reply = put.send(&mut client, args.wait).await?;
    let (output, wait) = (args.client.output, args.wait);
    Telling { output, dry_run: args.how.dry_run, wait, named: Some(1) }.tell(&reply)
}

/// Deletes the override that a subject has.
///
/// # Errors
/// When it has none, or the control plane cannot be asked.
pub(super) async fn unset(args: UnsetArgs) -> Result<(), Failure> {
    let subject = subject::subject(&args.subject)?;
    let mut client = Client::connect(&args.client).await?;
    let Some(name) = of(&mut client, &args.limit, &subject).await? else {
        return Err(Failure::not_so(format!(
            "limit '{}' has no override for {}; see 'sluicegate limit overrides'",
            args.limit,
            resources::scope(&subject)
        )));
    };
    delete::delete(Kind::Override, &[name], None, args.how, args.wait, &args.client).await
}

/// Lists overrides.
///
/// # Errors
/// When the control plane cannot be asked.
pub(super) async fn list(args: ListArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let mut found = all(&mut client).await?;
    if let Some(limit) = &args.limit {
        found.retain(|spec| spec.limit == *limit);
    }
    let now_ms = clock::unix_ms();
    let left = |spec: &Override| {
        let end: Timestamp = spec.expires_at.parse().ok()?;
        Some(u64::try_from(end.as_millisecond()).unwrap_or(0).saturating_sub(now_ms))
    };
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let columns = ["limit", "subject", "allows", "ends_in", "name", "reason"];
            let mut table = Table::new(&columns, output.quiet);
            for spec in &found {
                table.row([
                    spec.limit.clone(),
                    spec.subject.as_ref().map(resources::scope).unwrap_or_default(),
                    resources::allows(&spec.rate, spec.burst, spec.amount, ""),
                    left(spec).map_or_else(|| "never".to_owned(), duration_ms),
                    spec.name.clone(),
                    spec.reason.clone(),
                ]);
            }
            if table.is_empty() {
                output.note("no subject has an amount of its own");
                return Ok(());
            }
            print(&table.render())
        }
        Format::Json | Format::Yaml => {
            let found = found.iter().map(|spec| {
                let wire = Resource { spec: Some(Spec::Override(spec.clone())) };
                let mut value = sluicegate_model::schema::to_json(&wire);
                value["ends_in_ms"] = json!(left(spec));
                value
            });
            output.value(&json!({ "overrides": found.collect::<Vec<_>>() }))
        }
    }
}

/// The name of the override that a subject has.
async fn of(
    client: &mut Client,
    limit: &str,
    subject: &LimitScope,
) -> Result<Option<String>, Failure> {
    let found = all(client)
        .await?
        .into_iter()
        .find(|spec| spec.limit == limit && spec.subject.as_ref() == Some(subject));
    Ok(found.map(|spec| spec.name))
}

/// Every override.
async fn all(client: &mut Client) -> Result<Vec<Override>, Failure> {
    let kinds = vec![Kind::Override.singular().to_owned()];
    let request = ListRequest { kinds, ..ListRequest::default() };
    let (found, _) = resources::list(client, request).await?;
    let spec = |resource: Resource| match resource.spec {
        Some(Spec::Override(spec)) => Some(spec),
        _ => None,
    };
    Ok(found.into_iter().filter_map(|one| one.resource).filter_map(spec).collect())
}

fn time(text: &str) -> Result<u64, String> {
    let stamp: Result<Timestamp, _> = text.parse();
    stamp
        .ok()
        .and_then(|stamp| u64::try_from(stamp.as_millisecond()).ok())
        .ok_or_else(|| "use RFC 3339, such as 2027-01-31T00:00:00Z".to_owned())
}

/// Milliseconds of `90s`, `10m`, `12h`, `30d` or `8w`.
pub(crate) fn span_ms(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 604_800)];
    let read = || {
        let (unit, seconds) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
        Some(u64::from(number) * seconds * 1_000).filter(|span| *span > 0)
    };
    read().ok_or_else(|| "use a number and a unit, such as 90s, 10m, 12h, 30d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        assert_eq!(span_ms("90s"), Ok(90_000));
        assert_eq!(span_ms("2w"), Ok(1_209_600_000));
        for bad in ["", "m", "0m", "10", "-1m", "1y"] {
            assert!(span_ms(bad).is_err(), "{bad}");
        }
    }
}
