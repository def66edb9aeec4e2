//! `key`: the keys of callers.

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sluicegate_model::Kind;
use sluicegate_proto::{admin::v1::CreateApiKeyRequest, resource::v1::ApiKey};
use sluicegate_telemetry::clock;

use super::delete::{self, HowArgs};
use crate::{
    change::{WaitArgs, revision},
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, print},
};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Make a key and print it, once
    Create(CreateArgs),
    /// Revoke keys: they stop working as soon as data planes know
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  KEY=$(sluicegate key create search --tenant acme --models gpt-4o,gpt-4o-mini)
  sluicegate key create trial --expires 30d
  sluicegate key create ci --expires 2027-01-31T00:00:00Z --wait 1.0

Only the key goes to standard output. It is not stored: whoever loses it makes another.")]
pub(crate) struct CreateArgs {
    /// Name of the key, for logs and for revoking it
    name: String,
    /// Tenant it belongs to
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Who uses it, for records
    #[arg(long, value_name = "TEXT")]
    user: Option<String>,
    /// Public models it may use; without any, all. A * at the end matches any ending
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    models: Vec<String>,
    /// When it stops working: RFC 3339, or from now on such as 12h, 30d, 8w
    #[arg(long, value_name = "TIME", value_parser = expires)]
    expires: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate key revoke search
  sluicegate key revoke trial-1 trial-2 --wait 1.0")]
pub(crate) struct RevokeArgs {
    /// Names of the keys
    #[arg(required = true)]
    name: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When the control plane refuses or cannot be asked.
pub(crate) async fn run(verb: KeyVerb) -> Result<(), Failure> {
    match verb {
        KeyVerb::Create(args) => create(args).await,
        KeyVerb::Revoke(args) => {
            delete::delete(Kind::ApiKey, &args.name, None, args.how, args.wait, &args.client).await
        }
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let api_key = ApiKey {
        name: args.name.clone(),
        tenant: args.tenant.unwrap_or_default(),
        user: args.user.unwrap_or_default(),
        models: args.models,
        expires_at: args.expires.unwrap_or_default(),
        ..ApiKey::default()
    };
    let request = CreateApiKeyRequest { api_key: Some(api_key), wait: args.wait.to_proto() };
    let mut client = Client::connect(&args.client).await?;
    let reply = client
        .call(request, args.wait.extra(), async |admin, request| {
            admin.create_api_key(request).await
        })
        .await?;
    let output = args.client.output;
    let applied = reply.applied.unwrap_or_default();
    match output.format {
        Format::Table => {
            print(&format!("{}\n", reply.key))?;
            output.note(&format!(
                "made api_key/{} at revision {}; the key above is not shown again",
                args.name,
                revision(&applied)
            ));
        }
        Format::Json | Format::Yaml => output.value(
            &json!({ "name": args.name, "key": reply.key, "revision": revision(&applied) }),
        )?,
    }
    args.wait.check(&applied)
}

/// A time in RFC 3339, from the same or from a span that begins now.
fn expires(text: &str) -> Result<String, String> {
    expires_at(text, clock::unix_ms())
}

fn expires_at(text: &str, now_unix_ms: u64) -> Result<String, String> {
    let form = || "use RFC 3339, such as 2027-01-31T00:00:00Z, or a span such as 12h, 30d, 8w";
    let now = i64::try_from(now_unix_ms)
        .ok()
        .and_then(|now| Timestamp::from_millisecond(now).ok())
        .ok_or("the host's clock is off")?;
    let at = match span_hours(text) {
        Some(hours) => now
            .checked_add(SignedDuration::from_hours(hours))
            .map_err(|_| "too far away".to_owned())?,
        None => text.parse::<Timestamp>().map_err(|_| form().to_owned())?,
    };
    if at <= now {
        return Err("it is over already".to_owned());
    }
    Ok(format!("{at:.0}"))
}

/// Hours of `12h`, `30d` or `8w`.
fn span_hours(text: &str) -> Option<i64> {
    let (unit, hours) =
        [("h", 1), ("d", 24), ("w", 168)].into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
    Some(i64::from(number) * hours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry() {
        check("30d", Ok("2026-10-21T14:13:20Z"));
        check("12h", Ok("2026-09-22T02:13:20Z"));
        check("1w", Ok("2026-09-28T14:13:20Z"));
        check("2027-01-31T00:00:00Z", Ok("2027-01-31T00:00:00Z"));
        check("2027-01-31T02:00:00+02:00", Ok("2027-01-31T00:00:00Z"));
        check("2020-01-01T00:00:00Z", Err("over already"));
        check("0d", Err("over already"));
        check("-1d", Err("RFC 3339"));
        check("4000000000w", Err("too far"));
        check("soon", Err("RFC 3339"));
        check("30", Err("RFC 3339"));

        #[track_caller]
        fn check(text: &str, expected: Result<&str, &str>) {
            match (expires_at(text, 1_790_000_000_000), expected) {
                (Ok(at), Ok(expected)) => assert_eq!(at, expected),
                (Err(said), Err(part)) => assert!(said.contains(part), "{said}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }
}
