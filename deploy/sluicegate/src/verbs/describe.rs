//! `describe`: one resource and what hangs on it.

use clap::Args;
use serde_json::{Value, json};
use sluicegate_model::{
    Kind, ResourceRef,
    resource::NamePattern,
    scope::{Part, said},
};
use sluicegate_proto::{
    admin::v1::{ListRequest, VersionedResource},
    resource::v1::{LimitScope, resource::Spec},
};

use super::{get, resources};
use crate::{
    cli::KindParser,
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, clean, print, to_yaml},
};

/// How many neighbours people are shown; programs get all.
const SHOWN: usize = 25;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate describe model gpt-4o
  sluicegate describe provider openai -o json | jq '.used_by[].name'")]
pub(crate) struct DescribeArgs {
    /// Kind of the resource
    #[arg(value_parser = KindParser, hide_possible_values = true)]
    pub(crate) kind: Kind,
    /// Its name
    name: String,
    #[command(flatten)]
    client: ClientOptions,
}

/// A resource at the other end of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Neighbour {
    reference: ResourceRef,
    /// The fields that make the reference.
    fields: Vec<String>,
}

/// Runs the verb.
///
/// # Errors
/// When the resource is not there, or the control plane cannot be asked.
pub(crate) async fn run(args: DescribeArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let (resource, revision) = get::one(&mut client, args.kind, &args.name).await?;
    let kinds = neighbour_kinds(args.kind);
    let others = if kinds.is_empty() {
        Vec::new()
    } else {
        let kinds = kinds.iter().map(|kind| kind.singular().to_owned()).collect();
        resources::list(&mut client, ListRequest { kinds, ..ListRequest::default() }).await?.0
    };
    let uses = neighbours(&others, |other| fields(&resource, other));
    let used_by = neighbours(&others, |other| fields(other, &resource));
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let reference = ResourceRef::new(args.kind, args.name);
            let mut text = clean(&reference.to_string());
            text.push_str(&format!(
                "\n  last changed at revision {}, read at revision {revision}\n\n",
                resource.version
            ));
            text.extend(
                to_yaml(&resources::spec(&resource)).lines().map(|line| format!("  {line}\n")),
            );
            text.push_str(&section("uses", &uses));
            text.push_str(&section("used by", &used_by));
            print(&text)
        }
        Format::Json | Format::Yaml => {
            let mut value = resources::value(&resource);
            value["uses"] = uses.iter().map(neighbour_value).collect();
            value["used_by"] = used_by.iter().map(neighbour_value).collect();
            output.value(&value)
        }
    }
}

/// Kinds that a scope may name, and what changes a limit or is changed.
const NAMED_AND_OVERRIDES: [Kind; 6] =
    [Kind::Provider, Kind::Credential, Kind::Model, Kind::Tenant, Kind::ApiKey, Kind::Override];
const NAMED_AND_LIMITS: [Kind; 6] =
    [Kind::Provider, Kind::Credential, Kind::Model, Kind::Tenant, Kind::ApiKey, Kind::Limit];

/// Kinds that refer to a kind or that it refers to.
fn neighbour_kinds(kind: Kind) -> &'static [Kind] {
    match kind {
        Kind::Provider => {
            &[Kind::Credential, Kind::Model, Kind::Limit, Kind::Override, Kind::Force]
        }
        Kind::Credential => &[Kind::Provider, Kind::Limit, Kind::Override],
        Kind::Model => &[Kind::Provider, Kind::ApiKey, Kind::Limit, Kind::Override],
        Kind::Tenant => &[Kind::Tenant, Kind::ApiKey, Kind::Limit, Kind::Override],
        Kind::ApiKey => &[Kind::Tenant, Kind::Model, Kind::Limit, Kind::Override],
        Kind::Limit => &NAMED_AND_OVERRIDES,
        Kind::Override => &NAMED_AND_LIMITS,
        Kind::Force => &[Kind::Provider],
        Kind::Degradation | Kind::Access => &[],
    }
}

fn neighbours(
    others: &[VersionedResource],
    fields: impl Fn(&VersionedResource) -> Vec<String>,
) -> Vec<Neighbour> {
    others
        .iter()
        .filter_map(|other| {
            let (kind, name) = resources::reference(other)?;
            let fields = fields(other);
            let reference = ResourceRef::new(kind, name);
            (!fields.is_empty()).then_some(Neighbour { reference, fields })
        })
        .collect()
}

/// The fields of `from` that name `to`.
fn fields(from: &VersionedResource, to: &VersionedResource) -> Vec<String> {
    fn spec(resource: &VersionedResource) -> Option<&Spec> {
        resource.resource.as_ref()?.spec.as_ref()
    }
    let one = |matches: bool, field: &str| {
        if matches { vec![field.to_owned()] } else { Vec::new() }
    };
    match (spec(from), spec(to)) {
        (Some(Spec::Credential(from)), Some(Spec::Provider(to))) => {
            one(from.provider == to.name, "provider")
        }
        (Some(Spec::Model(from)), Some(Spec::Provider(to))) => {
            numbered("targets", &from.targets, |target| target.provider == to.name)
        }
        (Some(Spec::Tenant(from)), Some(Spec::Tenant(to))) => one(from.parent == to.name, "parent"),
        (Some(Spec::ApiKey(from)), Some(Spec::Tenant(to))) => one(from.tenant == to.name, "tenant"),
        (Some(Spec::ApiKey(from)), Some(Spec::Model(to))) => {
            numbered("models", &from.models, |pattern| {
                NamePattern::parse(pattern).is_some_and(|pattern| {
                    pattern.matches(&to.name)
                        || to.aliases.iter().any(|alias| pattern.matches(alias))
                })
            })
        }
        (Some(Spec::Override(from)), Some(Spec::Limit(to))) => one(from.limit == to.name, "limit"),
        (Some(Spec::Force(from)), Some(Spec::Provider(to))) => {
            let provider = from.target.split('/').next();
            one(provider == Some(to.name.as_str()), "target")
        }
        (Some(Spec::Limit(from)), Some(to)) => named("scope", from.scope.as_ref(), to),
        (Some(Spec::Override(from)), Some(to)) => named("subject", from.subject.as_ref(), to),
        _ => Vec::new(),
    }
}

/// The part of a scope that names a resource.
fn named(field: &str, scope: Option<&LimitScope>, to: &Spec) -> Vec<String> {
    let (part, name) = match to {
        Spec::Tenant(to) => (Part::Tenant, &to.name),
        Spec::ApiKey(to) => (Part::Key, &to.name),
        Spec::Model(to) => (Part::Model, &to.name),
        Spec::Provider(to) => (Part::Provider, &to.name),
        Spec::Credential(to) => (Part::Credential, &to.name),
        Spec::Limit(_)
        | Spec::Override(_)
        | Spec::Force(_)
        | Spec::Degradation(_)
        | Spec::Access(_) => {
            return Vec::new();
        }
    };
    let parts = scope.into_iter().flat_map(said);
    let matching = parts.filter(|(of, value)| *of == part && value == name);
    matching.map(|(part, _)| format!("{field}.{}", part.name())).collect()
}

fn numbered<T>(field: &str, items: &[T], matches: impl Fn(&T) -> bool) -> Vec<String> {
    let numbered = items.iter().enumerate().filter(|(_, item)| matches(item));
    numbered.map(|(index, _)| format!("{field}[{index}]")).collect()
}

fn section(heading: &str, neighbours: &[Neighbour]) -> String {
    let mut text = format!("\n{heading}\n");
    if neighbours.is_empty() {
        text.push_str("  nothing\n");
    }
    for neighbour in neighbours.iter().take(SHOWN) {
        let line = format!("{} ({})", neighbour.reference, neighbour.fields.join(", "));
        text.push_str(&format!("  {}\n", clean(&line)));
    }
    if neighbours.len() > SHOWN {
        text.push_str(&format!("  and {} more\n", neighbours.len() - SHOWN));
    }
    text
}

fn neighbour_value(neighbour: &Neighbour) -> Value {
    json!({
        "kind": neighbour.reference.kind.singular(),
        "name": neighbour.reference.name,
        "fields": neighbour.fields,
    })
}

#[cfg(test)]
mod tests {
    use sluicegate_model::document::{Document, References};

    use super::*;

    #[test]
    fn fields_that_name_another_resource() {
        let text = "\
providers: [{ name: p, dialect: openai-chat, base_url: http://u }]
credentials: [{ name: c, provider: p, secret: { env: A } }]
models:
  - { name: m, aliases: [best], targets: [{ provider: p }, { provider: p, model: x }] }
tenants: [{ name: t }, { name: u, parent: t }]
api_keys: [{ name: k, tenant: t, models: [other, best], secret: { value: sk-caller } }]
limits: [{ name: l, scope: { tenant: t, key: '*' }, dimension: requests, rate: 1/s }]
overrides: [{ name: o, limit: l, subject: { key: k }, rate: 2/s }]
";
        let document = Document::parse("f", text, References::Closed).unwrap();
        let all: Vec<_> = document
            .resources
            .iter()
            .map(|one| VersionedResource { resource: Some(one.resource.clone()), version: 1 })
            .collect();
        let find = |name: &str| {
            all.iter()
                .find(|one| resources::reference(one).is_some_and(|(_, n)| n == name))
                .unwrap()
        };
        let check = |from: &str, to: &str, expected: &[&str]| {
            assert_eq!(fields(find(from), find(to)), expected, "{from} -> {to}");
        };
        check("c", "p", &["provider"]);
        check("m", "p", &["targets[0]", "targets[1]"]);
        check("u", "t", &["parent"]);
        check("t", "u", &[]);
        check("k", "t", &["tenant"]);
        check("k", "m", &["models[1]"]);
        check("p", "m", &[]);
        check("o", "l", &["limit"]);
        check("o", "k", &["subject.key"]);
        check("l", "t", &["scope.tenant"]);
        check("l", "k", &[]);
    }
}
