//! `breaker open`, `close`, `auto`, `retries`: an operator's word, which ends by itself.

use clap::Args;
use sluicegate_model::Kind;
use sluicegate_proto::{
    admin::v1::ListRequest,
    resource::v1::{Force, Resource, resource::Spec},
};
use sluicegate_telemetry::clock::{self, format_unix_ms};

use crate::{
    change::{Put, Telling, WaitArgs, name_of},
    client::{Client, ClientOptions},
    failure::Failure,
    verbs::{
        delete::{self, HowArgs},
        limit::span_ms,
        resources,
    },
};

/// Name of the force that switches off retries.
const RETRIES: &str = "retries-off";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate breaker open openai/gpt-4o --for 10m --comment 'their incident 1234'
  sluicegate breaker close 'vllm/*' --for 1h --comment 'load test' --wait 1.0

The target is provider/model with the name that is sent upstream, or provider/* for each of the
provider's models; that which names the model holds. Another force of the same target takes the
place of this one. It is a resource of kind force, is in the history, and ends by itself.")]
pub(crate) struct ForceArgs {
    /// The target, provider/model or provider/*
    target: String,
    /// How long, such as 90s, 10m, 12h
    #[arg(long = "for", value_name = "SPAN", value_parser = span_ms)]
    span: u64,
    /// Why, for those who look later
    #[arg(long, value_name = "TEXT")]
    comment: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate breaker auto openai/gpt-4o

A target that was forced open is tried by one probe first, and gets its traffic back in steps.")]
pub(crate) struct AutoArgs {
    /// The target, as it was given
    target: String,
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
  sluicegate breaker retries off --for 10m --comment 'upstreams drown in retries'")]
pub(crate) struct RetriesArgs {
    /// How long, such as 90s, 10m, 12h
    #[arg(long = "for", value_name = "SPAN", value_parser = span_ms)]
    span: u64,
    /// Why, for those who look later
    #[arg(long, value_name = "TEXT")]
    comment: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
pub(crate) struct OnArgs {
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// Forces a target's breaker.
///
/// # Errors
/// When there is no such provider, or the control plane cannot be asked.
pub(super) async fn force(args: ForceArgs, breaker: &str) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let known = of(&mut client, |spec| spec.target == args.target).await?;
    let spec = Force {
        name: known.into_iter().next().unwrap_or_else(|| name(&args.target)),
        target: args.target,
        breaker: breaker.to_owned(),
        retries: String::new(),
        expires_at: end(args.span),
        comment: args.comment,
    };
    put(&mut client, spec, args.wait, &args.client).await
}

/// Takes the force on a target back.
///
/// # Errors
/// When there is none, or the control plane cannot be asked.
pub(super) async fn auto(args: AutoArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let names = of(&mut client, |spec| spec.target == args.target).await?;
    if names.is_empty() {
        return Err(Failure::not_so(format!(
            "nothing is forced on '{}'; see 'sluicegate get forces'",
            args.target
        )));
    }
    delete::delete(Kind::Force, &names, None, args.how, args.wait, &args.client).await
}

/// Switches off that anything is tried again.
///
/// # Errors
/// When the control plane refuses or cannot be asked.
pub(super) async fn retries_off(args: RetriesArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let known = of(&mut client, |spec| spec.retries == "off").await?;
    let spec = Force {
        name: known.into_iter().next().unwrap_or_else(|| RETRIES.to_owned()),
        retries: "off".to_owned(),
        expires_at: end(args.span),
        comment: args.comment,
        ..Force::default()
    };
    put(&mut client, spec, args.wait, &args.client).await
}

/// Takes that back.
///
/// # Errors
/// When retries are on, or the control plane cannot be asked.
pub(super) async fn retries_on(args: OnArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let names = of(&mut client, |spec| spec.retries == "off").await?;
    if names.is_empty() {
        return Err(Failure::not_so("retries are on".to_owned()));
    }
    delete::delete(Kind::Force, &names, None, args.how, args.wait, &args.client).await
}

async fn put(
    client: &mut Client,
    spec: Force,
    wait: WaitArgs,
    options: &ClientOptions,
) -> Result<(), Failure> {
    let comment = spec.comment.clone();
    let put = Put { spec: Spec::Force(spec), of: None, comment, dry_run: false };
    let reply = put.send(client, wait).await?;
    Telling { output: options.output, dry_run: false, wait, named: Some(1) }.tell(&reply)
}

/// Names of the forces that are so.
async fn of(client: &mut Client, so: impl Fn(&Force) -> bool) -> Result<Vec<String>, Failure> {
    let kinds = vec![Kind::Force.singular().to_owned()];
    let request = ListRequest { kinds, ..ListRequest::default() };
    let (found, _) = resources::list(client, request).await?;
    let spec = |resource: Resource| match resource.spec {
        Some(Spec::Force(spec)) if so(&spec) => Some(spec.name),
        _ => None,
    };
    Ok(found.into_iter().filter_map(|one| one.resource).filter_map(spec).collect())
}

fn end(span_ms: u64) -> String {
    format_unix_ms(clock::unix_ms().saturating_add(span_ms))
}

/// The name of a target's force.
fn name(target: &str) -> String {
    name_of(&format!("breaker/{target}"))
}

#[cfg(test)]
mod tests {
    use sluicegate_model::name::{MAX_NAME, is_name};

    use super::*;

    #[test]
    fn names_are_legal_and_tell_targets_apart() {
        assert_eq!(name("p/m-1.5"), "breaker/p/m-1.5");
        let all = name("p/*");
        assert!(all.starts_with("breaker/p/--") && is_name(&all), "{all}");
        assert_ne!(name("p/m:1"), name("p/m@1"));
        let long = name(&format!("p/{}", "x".repeat(500)));
        assert!(is_name(&long) && long.len() == MAX_NAME, "{long}");
    }
}
