//! Reading resources from the control plane and showing them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use sluicegate_model::{Kind, resource, schema, scope::said};
use sluicegate_proto::{
    admin::v1::{ListRequest, VersionedResource},
    resource::v1::{Limit, LimitScope, SecretSource, resource::Spec, secret_source::Source},
};

use crate::{client::Client, failure::Failure};

/// How many resources are asked for at once.
const PAGE: u32 = 1000;

/// Everything that a request asks for, page after page, and the revision of the last page.
///
/// # Errors
/// When the control plane cannot be asked.
pub(crate) async fn list(
    client: &mut Client,
    mut request: ListRequest,
) -> Result<(Vec<VersionedResource>, u64), Failure> {
    request.page_size = PAGE;
    let mut found = Vec::new();
    loop {
        let asked = request.clone();
        let page = client
            .call(asked, Duration::ZERO, async |admin, request| admin.list(request).await)
            .await?;
        found.extend(page.resources);
        if page.next_page_token.is_empty() {
            return Ok((found, page.at.map_or(0, |at| at.revision)));
        }
        request.page_token = page.next_page_token;
    }
}

/// Kind and name; `None` for a resource of a kind that this build does not know.
pub(crate) fn reference(resource: &VersionedResource) -> Option<(Kind, &str)> {
    let wire = resource.resource.as_ref()?;
    let kind = resource::reference_of(wire).ok()?.kind;
    Some((kind, resource::name_of(wire)))
}

/// The resource alone, in the form of files and without secrets.
pub(crate) fn spec(resource: &VersionedResource) -> Value {
    let wire = resource.resource.as_ref();
    wire.map_or(Value::Null, |wire| schema::to_json(&resource::redacted(wire)))
}

/// The form for programs.
pub(crate) fn value(resource: &VersionedResource) -> Value {
    let reference = reference(resource);
    json!({
        "kind": reference.map(|(kind, _)| kind.singular()),
        "name": reference.map(|(_, name)| name),
        "version": resource.version,
        "spec": spec(resource),
    })
}

/// The form of files.
pub(crate) fn file_form(resources: &[VersionedResource]) -> Value {
    let mut lists = Map::new();
    for kind in Kind::ALL {
        let of_kind = resources
            .iter()
            .filter(|resource| reference(resource).is_some_and(|(known, _)| known == kind));
        let specs: Vec<_> = of_kind.map(spec).collect();
        if !specs.is_empty() {
            lists.insert(kind.plural().to_owned(), specs.into());
        }
    }
    Value::Object(lists)
}

/// Columns of a kind's table.
pub(crate) fn columns(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Provider => &["name", "dialect", "base_url", "keys", "version"],
        Kind::Credential => {
            &["name", "provider", "secret", "weight", "state", "left", "reason", "version"]
        }
        Kind::Model => &["name", "aliases", "targets", "version"],
        Kind::Tenant => &["name", "parent", "version"],
        Kind::ApiKey => &["name", "tenant", "user", "models", "expires", "state", "version"],
        Kind::Limit => &["name", "scope", "dimension", "allows", "flags", "version"],
        Kind::Override => &["name", "limit", "subject", "allows", "expires", "version"],
        Kind::Force => &["name", "sets", "expires", "comment", "version"],
        Kind::Degradation | Kind::Access => &["name", "version"],
    }
}

/// The cells of one resource in its kind's table.
pub(crate) fn cells(resource: &VersionedResource) -> Vec<String> {
    let version = resource.version.to_string();
    let wire = resource.resource.as_ref();
    match wire.and_then(|wire| wire.spec.as_ref()) {
        Some(Spec::Provider(spec)) => vec![
            spec.name.clone(),
            spec.dialect.clone(),
            spec.base_url.clone(),
            if spec.keyless { "keyless" } else { "pool" }.to_owned(),
            version,
        ],
        Some(Spec::Credential(spec)) => vec![
            spec.name.clone(),
            spec.provider.clone(),
            spec.secret.as_ref().map(source).unwrap_or_default(),
            spec.weight.unwrap_or(1).to_string(),
            state(spec.disabled),
            String::new(),
            String::new(),
            version,
        ],
        Some(Spec::Model(spec)) => {
            let targets = spec.targets.iter().map(|target| {
                let name = if target.model.is_empty() { &spec.name } else { &target.model };
                let mut text = format!("{}:{name}", target.provider);
                if let Some(weight) = target.weight.filter(|weight| *weight != 1) {
                    text.push_str(&format!(" x{weight}"));
                }
                if target.priority > 0 {
                    text.push_str(&format!(" prio {}", target.priority));
                }
                text
            });
            let targets: Vec<_> = targets.collect();
            vec![spec.name.clone(), spec.aliases.join(","), targets.join(", "), version]
        }
        Some(Spec::Tenant(spec)) => vec![spec.name.clone(), spec.parent.clone(), version],
        Some(Spec::ApiKey(spec)) => vec![
            spec.name.clone(),
            spec.tenant.clone(),
            spec.user.clone(),
            if spec.models.is_empty() { "all".to_owned() } else { spec.models.join(",") },
            if spec.expires_at.is_empty() { "never".to_owned() } else { spec.expires_at.clone() },
            state(spec.disabled),
            version,
        ],
        Some(Spec::Limit(spec)) => vec![
            spec.name.clone(),
            spec.scope.as_ref().map(scope).unwrap_or_default(),
            spec.dimension.clone(),
            allows(&spec.rate, spec.burst, spec.amount, &spec.window),
            flags(spec),
            version,
        ],
        Some(Spec::Override(spec)) => vec![
            spec.name.clone(),
            spec.limit.clone(),
            spec.subject.as_ref().map(scope).unwrap_or_default(),
            allows(&spec.rate, spec.burst, spec.amount, ""),
            if spec.expires_at.is_empty() { "never".to_owned() } else { spec.expires_at.clone() },
            version,
        ],
        Some(Spec::Force(spec)) => vec![
            spec.name.clone(),
            if spec.target.is_empty() {
                format!("retries {}", spec.retries)
            } else {
                format!("{} {}", spec.target, spec.breaker)
            },
            if spec.expires_at.is_empty() { "never".to_owned() } else { spec.expires_at.clone() },
            spec.comment.clone(),
            version,
        ],
        Some(Spec::Degradation(_) | Spec::Access(_)) | None => {
            let name = wire.map(resource::name_of).unwrap_or_default();
            vec![name.to_owned(), version]
        }
    }
}

fn state(disabled: bool) -> String {
    if disabled { "disabled" } else { "active" }.to_owned()
}

/// The parts of a scope that say something: `tenant=*,model=m`.
pub(crate) fn scope(scope: &LimitScope) -> String {
    said(scope)
        .map(|(part, value)| format!("{}={value}", part.name()))
        .collect::<Vec<_>>()
        .join(",")
}

/// What a limit or an override lets through.
pub(crate) fn allows(rate: &str, burst: Option<f64>, amount: Option<f64>, window: &str) -> String {
    let mut said = Vec::new();
    if !rate.is_empty() {
        said.push(rate.to_owned());
    }
    if let Some(burst) = burst {
        said.push(format!("burst {burst}"));
    }
    match amount {
        Some(amount) if window.is_empty() => said.push(amount.to_string()),
        Some(amount) => said.push(format!("{amount} a {window}")),
        None => {}
    }
    said.join(", ")
}

fn flags(spec: &Limit) -> String {
    let flags = [(spec.strict, "strict"), (spec.shadow, "shadow")];
    let flags: Vec<_> = flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
    flags.join(",")
}

/// Where a secret comes from, never the secret.
fn source(secret: &SecretSource) -> String {
    match &secret.source {
        Some(Source::Env(name)) => format!("env:{name}"),
        Some(Source::File(path)) => format!("file:{path}"),
        Some(Source::Held(fingerprint)) => format!("held:{fingerprint}"),
        Some(Source::Value(_)) => "held".to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_model::document::{Document, References};

    use super::*;
    use crate::output::to_yaml;

    const FILE: &str = r#"
providers:
  - { name: p, dialect: openai-chat, base_url: "http://127.0.0.1:9000/v1?a=b", headers: { x-team: "no" } }
  - { name: q, dialect: openai-chat, base_url: "http://q", keyless: true, timeouts: { idle_ms: 5 } }
credentials:
  - { name: p/env, provider: p, secret: { env: KEY }, weight: 3 }
  - { name: p/value, provider: p, secret: { value: sk-canary }, disabled: true }
models:
  - name: m
    aliases: ["m-*"]
    targets: [{ provider: p, weight: 0 }, { provider: q, model: "org/m:1", weight: 9, priority: 1 }]
    retry: { max_attempts: 1 }
tenants: [{ name: t }, { name: t/u, parent: t }]
api_keys:
  - name: k
    tenant: t
    models: [m]
    expires_at: "2030-01-01T00:00:00Z"
    metadata: { "a b": "1", c: "x: y # z" }
    hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000"
limits:
  - { name: rpm, scope: { key: "*" }, dimension: requests, rate: 3/second;100/minute, shadow: true }
  - { name: budget, scope: { tenant: t, model: "*" }, dimension: cost, amount: 12.5, window: month, strict: true }
overrides:
  - { name: o, limit: rpm, subject: { key: k }, rate: 9/second, expires_at: "2030-01-01T00:00:00Z" }
"#;

    fn resources() -> Vec<VersionedResource> {
        let document = Document::parse("f", FILE, References::Closed);
        let declared = document.unwrap_or_else(|faults| panic!("{faults}")).resources;
        declared
            .into_iter()
            .map(|one| VersionedResource { resource: Some(one.resource), version: 7 })
            .collect()
    }

    #[test]
    fn the_file_form_reads_back() {
        let before = resources();
        let text = to_yaml(&file_form(&before));
        assert!(!text.contains("canary"), "{text}");
        let after = Document::parse("f", &text, References::Closed);
        let after = after.unwrap_or_else(|faults| panic!("{faults}\n{text}")).resources;
        let after: Vec<_> = after
            .into_iter()
            .map(|one| VersionedResource { resource: Some(one.resource), version: 7 })
            .collect();
        assert_eq!(file_form(&after), file_form(&before));
        assert_eq!(after.len(), before.len());
    }

    #[test]
    fn every_kind_fills_its_columns() {
        for resource in resources() {
            let (kind, name) = reference(&resource).unwrap();
            let cells = cells(&resource);
            assert_eq!(cells.len(), columns(kind).len(), "{kind}");
            assert_eq!(cells[0], name);
            assert!(!cells.concat().contains("canary"));
        }
        let model = resources().into_iter().find(|one| reference(one).unwrap().1 == "m").unwrap();
        assert_eq!(cells(&model), ["m", "m-*", "p:m x0, q:org/m:1 x9 prio 1", "7"]);
        let of = |name: &str| {
            let all = resources();
            cells(all.iter().find(|one| reference(one).unwrap().1 == name).unwrap())
        };
        assert_eq!(
            of("budget"),
            ["budget", "tenant=t,model=*", "cost", "12.5 a month", "strict", "7"]
        );
        assert_eq!(of("rpm")[3..5], ["3/second;100/minute", "shadow"]);
        assert_eq!(of("o"), ["o", "rpm", "key=k", "9/second", "2030-01-01T00:00:00Z", "7"]);
    }
}
