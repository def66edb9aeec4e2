//! `key-pool rest`, `key-pool enable`, `key-pool disable`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use sluicegate_model::Kind;
use sluicegate_proto::{
    admin::v1::{
        ApplyReply, Enable, Rest, SetPoolStateReply, SetPoolStateRequest,
        set_pool_state_request::State,
    },
    resource::v1::{Credential, resource::Spec},
};

use super::status::value;
use crate::{
    change::{Put, Telling, WaitArgs, revision},
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Output, duration_ms, print},
    verbs::{get, limit::span_ms},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate key-pool rest openai/prod --for 10m --comment 'billing is being sorted out'
  sluicegate key-pool rest openai/prod --for 1h --model gpt-4o

Another rest of the same key and model takes the place of this one, also if it is shorter. It is no
part of the configuration, and ends by itself.")]
pub(crate) struct RestArgs {
    /// Name of the credential
    credential: String,
    /// How long, such as 90s, 10m, 12h; at most 31d
    #[arg(long = "for", value_name = "SPAN", value_parser = span_ms)]
    span: u64,
    /// Only with this model, by its name at the provider
    #[arg(long, value_name = "NAME", default_value = "")]
    model: String,
    /// Why, for those who look later
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate key-pool enable openai/prod

Forgets every rest and refusal of the key, whoever said it. A key that still fails goes out of use
again with the next request.")]
pub(crate) struct EnableArgs {
    /// Name of the credential
    credential: String,
    /// Shown in the history, if the key was disabled
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate key-pool disable openai/prod --comment 'leaked' --wait 1.0

Sets 'disabled: true' on the credential: it is in the history, and holds until it is undone, or until
a watched file that declares the key is saved or read anew: change the file, too.")]
pub(crate) struct DisableArgs {
    /// Name of the credential
    credential: String,
    /// Shown in the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// Lets a key rest.
///
/// # Errors
/// When there is no such credential, or the control plane cannot be asked.
pub(super) async fn rest(args: RestArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let RestArgs { credential, span, model, comment, .. } = args;
    let with = if model.is_empty() { String::new() } else { format!(" with model {model}") };
    let state = State::Rest(Rest { for_ms: span, model, comment });
    let reply = set(&mut client, &credential, state).await?;
    let output = args.client.output;
    match output.format {
        Format::Table => {
            print(&format!("{credential} rests{with} for {}\n", duration_ms(span)))?;
            durable(output, &reply);
            Ok(())
        }
        Format::Json | Format::Yaml => output.value(&shown(&reply, None)),
    }
}

/// Takes a key back into use.
///
/// # Errors
/// When there is no such credential, or the control plane refuses or cannot be asked.
pub(super) async fn enable(args: EnableArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    // First into the configuration: what is forgotten before that helps nobody.
    let applied = switch(&mut client, &args.credential, false, args.comment, args.wait).await?;
    let state = State::Enable(Enable {});
    let mut reply = set(&mut client, &args.credential, state).await?;
    if let (Some(status), Some(_)) = (&mut reply.status, &applied)
        && status.state == "disabled"
    {
        // This replica has not read the change yet.
        "up".clone_into(&mut status.state);
    }
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let mut text = format!("{} is in use", args.credential);
            if let Some(applied) = &applied {
                text.push_str(&format!(" since revision {}", revision(applied)));
            }
            if reply.cleared > 0 {
                text.push_str("; what was known of it is forgotten");
            }
            print(&format!("{text}\n"))?;
            durable(output, &reply);
        }
        Format::Json | Format::Yaml => output.value(&shown(&reply, applied.as_ref()))?,
    }
    applied.map_or(Ok(()), |applied| args.wait.check(&applied))
}

/// Takes a key out of use until it is enabled.
///
/// # Errors
/// When there is no such credential, or the control plane refuses or cannot be asked.
pub(super) async fn disable(args: DisableArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let output = args.client.output;
    match switch(&mut client, &args.credential, true, args.comment, args.wait).await? {
        Some(reply) => {
            Telling { output, dry_run: false, wait: args.wait, named: Some(1) }.tell(&reply)
        }
        None => {
            output.note(&format!("{} is disabled already", args.credential));
            Ok(())
        }
    }
}

async fn set(
    client: &mut Client,
    credential: &str,
    state: State,
) -> Result<SetPoolStateReply, Failure> {
    let request = SetPoolStateRequest { credential: credential.to_owned(), state: Some(state) };
    client
        .call(request, Duration::ZERO, async |admin, request| admin.set_pool_state(request).await)
        .await
}

/// Makes the credential disabled or not; `None`: it is so.
async fn switch(
    client: &mut Client,
    name: &str,
    disabled: bool,
    comment: String,
    wait: WaitArgs,
) -> Result<Option<ApplyReply>, Failure> {
    let (found, _) = get::one(client, Kind::Credential, name).await?;
    let Some(Spec::Credential(spec)) = found.resource.and_then(|resource| resource.spec) else {
        return Err(Failure::refused(format!("the control plane sent no credential/{name}")));
    };
    if spec.disabled == disabled {
        return Ok(None);
    }
    let spec = Spec::Credential(Credential { disabled, ..spec });
    let put = Put { spec, of: Some(found.version), comment, dry_run: false };
    put.send(client, wait).await.map(Some)
}

fn durable(output: Output, reply: &SetPoolStateReply) {
    if !reply.durable {
        output.note("the ledger is away: it holds, and is written down once the ledger is back");
    }
}

fn shown(reply: &SetPoolStateReply, applied: Option<&ApplyReply>) -> serde_json::Value {
    json!({
        "status": reply.status.as_ref().map(value),
        "cleared": reply.cleared,
        "durable": reply.durable,
        "revision": applied.map(revision),
    })
}
