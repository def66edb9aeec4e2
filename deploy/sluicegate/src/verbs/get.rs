//! `get`: listing resources.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_model::{Kind, ResourceRef};
use sluicegate_proto::admin::v1::{CredentialStatus, GetRequest, ListRequest, VersionedResource};

use super::{
    key_pool::{self, Statuses},
    resources,
};
use crate::{
    cli::KindParser,
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Output, Table, clean, duration_ms, print, to_yaml},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate get models
  sluicegate get api_keys --tenant acme
  sluicegate get model gpt-4o -o json | jq .version
  sluicegate get -o yaml > backup.yaml        everything, in the form of files

YAML is the form of files, ready for 'apply'; JSON adds versions. Secrets are never shown: a value
that the control plane holds appears as its fingerprint, and applied back it stays what it is.")]
pub(crate) struct GetArgs {
    /// Kind to list; without it everything: provider, credential, model, tenant, api_key, limit,
    /// override, degradation, access
    #[arg(value_parser = KindParser, hide_possible_values = true)]
    kind: Option<Kind>,
    /// One resource
    name: Option<String>,
    /// Only names that start so
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    prefix: Option<String>,
    /// Only resources of this tenant
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    tenant: Option<String>,
    /// Only resources of this provider
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    provider: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

/// Runs the verb.
///
/// # Errors
/// When the resource is not there, or the control plane cannot be asked.
pub(crate) async fn run(args: GetArgs) -> Result<(), Failure> {
    let output = args.client.output;
    let mut client = Client::connect(&args.client).await?;
    if let (Some(kind), Some(name)) = (args.kind, &args.name) {
        let (resource, _) = one(&mut client, kind, name).await?;
        let resource = [resource];
        let statuses = statuses(&mut client, &resource, output).await;
        let [only] = &resource;
        return match output.format {
            Format::Table => tables(&resource, &statuses, output),
            Format::Json => output.value(&value(only, &statuses)),
            Format::Yaml => output.value(&resources::file_form(&resource)),
        };
    }
    let request = ListRequest {
        kinds: args.kind.iter().map(|kind| kind.singular().to_owned()).collect(),
        name_prefix: args.prefix.unwrap_or_default(),
        tenant: args.tenant.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
        ..ListRequest::default()
    };
    let (found, revision) = resources::list(&mut client, request).await?;
    let statuses = statuses(&mut client, &found, output).await;
    match output.format {
        Format::Table => {
            if found.is_empty() {
                output.note(&format!("nothing found at revision {revision}"));
            }
            tables(&found, &statuses, output)
        }
        Format::Json => {
            let found: Vec<_> = found.iter().map(|one| value(one, &statuses)).collect();
            output.value(&json!({ "revision": revision, "resources": found }))
        }
        Format::Yaml => {
            let heading =
                if output.quiet { String::new() } else { format!("# revision {revision}\n") };
            print(&format!("{heading}{}", to_yaml(&resources::file_form(&found))))
        }
    }
}

/// One resource and the revision at which it was read.
///
/// # Errors
/// When it is not there.
pub(super) async fn one(
    client: &mut Client,
    kind: Kind,
    name: &str,
) -> Result<(VersionedResource, u64), Failure> {
    let reference = ResourceRef::new(kind, name);
    let request = GetRequest { r#ref: Some(reference.to_proto()) };
    let reply = client
        .call(request, Duration::ZERO, async |admin, request| admin.get(request).await)
        .await?;
    let resource = reply
        .resource
        .ok_or_else(|| Failure::refused(format!("the control plane sent no {reference}")))?;
    Ok((resource, reply.at.map_or(0, |at| at.revision)))
}

/// How the keys among these stand. A control plane that cannot tell is no reason to show nothing.
async fn statuses(client: &mut Client, found: &[VersionedResource], output: Output) -> Statuses {
    let is_key = |one: &VersionedResource| {
        resources::reference(one).is_some_and(|(kind, _)| kind == Kind::Credential)
    };
    if output.format == Format::Yaml || !found.iter().any(is_key) {
        return Statuses::new();
    }
    key_pool::statuses(client).await.unwrap_or_else(|failure| {
        output.note(&format!("how keys stand is not known: {failure}"));
        Statuses::new()
    })
}

/// The form for programs; a key with how it stands.
fn value(resource: &VersionedResource, statuses: &Statuses) -> Value {
    let mut value = resources::value(resource);
    if let Some((Kind::Credential, name)) = resources::reference(resource)
        && let Some(status) = statuses.get(name)
        && let Some(members) = value.as_object_mut()
    {
        members.insert("status".to_owned(), key_pool::value(status));
    }
    value
}

/// The cells of one resource; of a key with how it stands, as far as that is known.
fn cells(resource: &VersionedResource, status: Option<&CredentialStatus>) -> Vec<String> {
    let mut cells = resources::cells(resource);
    if let (Some(status), [.., state, left, reason, _]) = (status, cells.as_mut_slice()) {
        state.clone_from(&status.state);
        if status.left_ms > 0 {
            *left = duration_ms(status.left_ms);
        }
        let model = if status.model.is_empty() { "" } else { &format!("{}: ", status.model) };
        *reason = clean(&format!("{model}{}", status.reason));
    }
    cells
}

/// A table for each kind, with headings between them when there are several.
fn tables(found: &[VersionedResource], statuses: &Statuses, output: Output) -> Result<(), Failure> {
    let mut parts = Vec::new();
    for kind in Kind::ALL {
        let mut table = Table::new(resources::columns(kind), output.quiet);
        for resource in found {
            if let Some((known, name)) = resources::reference(resource)
                && known == kind
            {
                let status = statuses.get(name).filter(|_| kind == Kind::Credential);
                table.row(cells(resource, status));
            }
        }
        if !table.is_empty() {
            parts.push((kind, table.render()));
        }
    }
    let several = parts.len() > 1 && !output.quiet;
    let texts: Vec<_> = parts
        .into_iter()
        .map(|(kind, table)| if several { format!("[{}]\n{table}", kind.plural()) } else { table })
        .collect();
    print(&texts.join(if several { "\n" } else { "" }))
}
