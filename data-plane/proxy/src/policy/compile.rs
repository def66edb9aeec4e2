//! From received resources to a policy. Runs off the hot path.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use prost::Message;
use sluicegate_dialect::{AuthScheme, Dialect, Endpoint, registry};
use sluicegate_model::{
    Kind, Resource, ResourceRef, ResourceSet,
    resource::{self, Forced, NamePattern, SecretSource},
    secret::Secret,
};
use sluicegate_proto::{policy::v1 as pb, resource::v1 as resource_pb};
use sluicegate_protocol::{
    breaker::{CheckRules, Forces},
    policy::{Body, Change, Key, Point, SCHEMA},
    pool::Waits,
};

use super::{
    Caller, Credential, HealthCheck, Location, Model, Policy, Provider, Target, limits::Limits,
};
use crate::{group::Groups, target::Targets, upstream::Clients};

/// Keeps what was parsed, so that a change costs what it changes.
#[derive(Debug)]
pub struct Compiler {
    lasting: Lasting,
    parsed: BTreeMap<Key, Parsed>,
}

/// What outlives policies: a change must not forget what is open, counted or known.
#[derive(Debug)]
struct Lasting {
    clients: Clients,
    groups: Groups,
    targets: Arc<Targets>,
}

#[derive(Debug, Clone)]
struct Parsed {
    /// Version that is served; it trails the received one while that is rejected.
    version: u64,
    /// The received one is rejected.
    is_stale: bool,
    resource: Resource,
}

/// A change set that compiled.
#[derive(Debug)]
pub struct Compiled {
    pub policy: Arc<Policy>,
    /// Resources that keep their previous version.
    pub rejected: Vec<pb::Rejected>,
    parsed: BTreeMap<Key, Parsed>,
}

impl Compiler {
    pub fn new(clients: Clients, targets: Arc<Targets>) -> Self {
        let lasting = Lasting { clients, groups: Groups::default(), targets };
        Self { lasting, parsed: BTreeMap::new() }
    }

    /// Compiles the state after `change`. Nothing is taken over before [`Compiler::adopt`].
    ///
    /// # Errors
    /// Why the change set must be refused as a whole: its resources do not fit together.
    pub fn compile(&self, change: &Change) -> Result<Compiled, String> {
        let full = change.from.is_none();
        let mut parsed = if full { BTreeMap::new() } else { self.parsed.clone() };
        for key in &change.removes {
            parsed.remove(key);
        }
        let mut rejected = Vec::new();
        for (key, body) in &change.upserts {
            match parse(key, body) {
                Ok(resource) => {
                    let version = body.version;
                    parsed.insert(key.clone(), Parsed { version, is_stale: false, resource });
                }
                Err(reason) => {
                    let previous = self.parsed.get(key);
                    rejected.push(pb::Rejected {
                        r#ref: Some(key.to_proto()),
                        version: body.version,
                        serving_version: previous.map_or(0, |previous| previous.version),
                        reason,
                    });
                    if let Some(previous) = previous {
                        let stale = Parsed { is_stale: true, ..previous.clone() };
                        parsed.insert(key.clone(), stale);
                    }
                }
            }
        }
        let set = ResourceSet::new(parsed.values().map(|parsed| parsed.resource.clone()))
            .map_err(|violations| violations.to_string())?;
        let stale = parsed.values().filter(|parsed| parsed.is_stale);
        let stale = stale.map(|parsed| parsed.resource.reference()).collect();
        let versions =
            parsed.values().map(|parsed| (parsed.resource.reference(), parsed.version)).collect();
        let policy = build(&set, &versions, &stale, &change.to, &self.lasting, &mut rejected)?;
        Ok(Compiled { policy: Arc::new(policy), rejected, parsed })
    }

    /// The next change set starts from this one.
    pub fn adopt(&mut self, compiled: &mut Compiled) {
        self.parsed = std::mem::take(&mut compiled.parsed);
        self.lasting.groups.keep(|model| compiled.policy.is_exact(model));
        self.lasting.targets.tidy();
    }
}

fn parse(key: &Key, body: &Body) -> Result<Resource, String> {
    if body.schema > SCHEMA {
        return Err(format!("schema {} is newer than this build's {SCHEMA}", body.schema));
    }
    let wire = resource_pb::Resource::decode(body.bytes.clone())
        .map_err(|error| format!("does not decode: {error}"))?;
    if wire.spec.is_none() {
        return Err(format!("kind '{}' is not known to this build", key.kind));
    }
    let resource = Resource::parse(&wire).map_err(|violations| violations.to_string())?;
    let reference = resource.reference();
    if reference.kind.singular() != key.kind || reference.name != key.name {
        return Err(format!("holds {reference}"));
    }
    Ok(resource)
}

fn build(
    set: &ResourceSet,
    versions: &HashMap<ResourceRef, u64>,
    stale: &HashSet<ResourceRef>,
    at: &Point,
    lasting: &Lasting,
    rejected: &mut Vec<pb::Rejected>,
) -> Result<Policy, String> {
    let mut credentials: HashMap<&str, Vec<Arc<Credential>>> = HashMap::new();
    let mut secrets: Vec<&resource::Credential> = Vec::new();
    for (_, resource) in set.iter() {
        if let Resource::Credential(spec) = resource
            && !spec.disabled
        {
            secrets.push(spec);
        }
    }
    let mut providers: HashMap<&str, (&resource::Provider, Arc<Provider>)> = HashMap::new();
    for (_, resource) in set.iter() {
        let Resource::Provider(spec) = resource else { continue };
        for secret in secrets.iter().filter(|secret| secret.provider == spec.name) {
            // A key that cannot be used is left out: it must not hold back everything else.
            match credential(spec, secret, &lasting.clients) {
                Ok(credential) => {
                    credentials.entry(&spec.name).or_default().push(Arc::new(credential));
                }
                Err(reason) => {
                    let reference = ResourceRef::new(Kind::Credential, &secret.name);
                    tracing::warn!(credential = secret.name, reason, "a provider key is left out");
                    rejected.push(pb::Rejected {
                        version: versions.get(&reference).copied().unwrap_or(0),
                        r#ref: Some(resource_pb::ResourceRef {
                            kind: reference.kind.singular().to_owned(),
                            name: reference.name,
                        }),
                        serving_version: 0,
                        reason,
                    });
                }
            }
        }
        let own = credentials.remove(spec.name.as_str()).unwrap_or_default();
        let ready = Arc::new(provider(spec, own, &lasting.clients)?);
        providers.insert(&spec.name, (spec, ready));
    }

    let tenants = tenants(set);
    let forces = Forces::new(set.iter().filter_map(|(_, resource)| match resource {
        Resource::Force(spec) => Some(spec),
        _ => None,
    }));
    let (revision, epoch) = (at.revision, at.epoch.clone());
    let mut policy = Policy { revision, epoch, limits: limits(set), forces, ..Policy::default() };
    for (reference, resource) in set.iter() {
        match resource {
            Resource::ApiKey(spec) => {
                if let Some(hash) = spec.hash {
                    policy.by_key_name.insert(spec.name.clone(), hash);
                    let is_stale = stale.contains(reference);
                    policy.callers.insert(hash, Arc::new(caller(spec, is_stale, &tenants)));
                }
            }
            Resource::Model(spec) => {
                let version = versions.get(reference).copied().unwrap_or(0);
                let model = Arc::new(model(spec, version, &providers, lasting)?);
                policy.holds_streams |= spec.when_unavailable.keep_alive;
                policy.models.insert(spec.name.clone(), model.clone());
                for alias in &spec.aliases {
                    match alias {
                        NamePattern::Exact(name) => {
                            policy.models.insert(name.clone(), model.clone());
                        }
                        NamePattern::Prefix(prefix) => {
                            policy.prefixes.push((prefix.clone(), model.clone()));
                        }
                    }
                }
            }
            Resource::Provider(_)
            | Resource::Credential(_)
            | Resource::Tenant(_)
            | Resource::Limit(_)
            | Resource::Override(_) => {}
            Resource::Degradation(spec) => {
                let ends = spec.manual.as_ref().map(|manual| manual.expires_unix_ms);
                policy.degraded_by_hand_until = policy.degraded_by_hand_until.max(ends);
                policy.degradations.push(spec.clone());
            }
            Resource::Force(spec) => match spec.what {
                Forced::NoRetries => {
                    let until = spec.expires_unix_ms.unwrap_or(u64::MAX);
                    let known = policy.retries_off_until.unwrap_or(0);
                    policy.retries_off_until = Some(until.max(known));
                }
                // They are looked at together.
                Forced::Breaker { .. } => {}
            },
        }
    }
    policy.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    Ok(policy)
}

/// A provider, ready to be called with these keys.
///
/// # Errors
/// When this build cannot call it.
pub(crate) fn provider(
    spec: &resource::Provider,
    credentials: Vec<Arc<Credential>>,
    clients: &Clients,
) -> Result<Provider, String> {
    let dialect = dialect(spec)?;
    let mut places = [const { None }; Endpoint::ALL.len()];
    for (place, endpoint) in places.iter_mut().zip(Endpoint::ALL) {
        *place = dialect
            .place(endpoint)
            .map(|place| Location::of(place, &spec.base_url))
            .transpose()
            .map_err(|error| format!("provider/{}: base_url: {error}", spec.name))?;
    }
    let mut headers = spec.headers.clone();
    if let Some(value) =
        spec.base_url.endpoint("/").ok().and_then(|uri| clients.proxy_authorization(&uri))
    {
        headers.push((http::header::PROXY_AUTHORIZATION, value));
    }
    Ok(Provider {
        name: spec.name.clone(),
        dialect,
        base_url: spec.base_url.clone(),
        places,
        timeouts: spec.timeouts,
        headers,
        keyless: spec.keyless,
        waits: waits(&spec.key_pool),
        last_resort: spec.key_pool.last_resort,
        credentials,
        client: clients.get(spec.http_version, spec.timeouts.connect, spec.max_idle_connections),
        profile: spec.profile.clone(),
        fetch_images: spec.fetch_images,
        health: spec.health.as_ref().map(|health| health_check(spec, health)).transpose()?,
    })
}

fn health_check(
    spec: &resource::Provider,
    health: &resource::HealthProbe,
) -> Result<HealthCheck, String> {
    let uri = health.path.as_ref().map(|path| spec.base_url.at_host(path)).transpose();
    Ok(HealthCheck {
        rules: CheckRules::of(health),
        timeout: health.timeout,
        uri: uri.map_err(|error| format!("provider/{}: health: {error}", spec.name))?,
    })
}

fn dialect(spec: &resource::Provider) -> Result<&'static dyn Dialect, String> {
    registry::find(&spec.dialect, &spec.variant).ok_or_else(|| {
        let resource::Provider { name, dialect, variant, .. } = spec;
        format!("provider/{name}: this build does not speak '{dialect}', variant '{variant}'")
    })
}

fn waits(spec: &resource::KeyPool) -> Waits {
    let ms = |wait: Option<Duration>| {
        wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    };
    Waits::new(ms(spec.resting), ms(spec.exhausted), ms(spec.refused), ms(spec.suspended))
}

/// A key of a provider, ready to be used.
///
/// # Errors
/// When the key has not the form that the provider's format wants.
pub(crate) fn credential(
    provider: &resource::Provider,
    spec: &resource::Credential,
    clients: &Clients,
) -> Result<Credential, String> {
    let SecretSource::Value(secret) = &spec.secret else {
        return Err(format!("credential/{}: the control plane sent no secret", spec.name));
    };
    let region = provider.region.as_deref().or_else(|| provider.base_url.region());
    let scheme = AuthScheme { key: secret, region };
    let proof = dialect(provider)?.auth(&scheme);
    let proof = proof.map_err(|error| format!("credential/{}: {error}", spec.name))?;
    let signer = clients.signer(proof, provider);
    Ok(Credential {
        name: spec.name.clone(),
        signer,
        private: parts(secret),
        weight: spec.weight,
        account: spec.account.clone(),
    })
}

/// A key as a whole, and the parts of one that is several.
fn parts(secret: &Secret) -> Vec<Secret> {
    let parts = secret.expose().split(':').filter(|part| *part != secret.expose());
    std::iter::once(secret.clone()).chain(parts.map(Secret::new)).collect()
}

/// Tenants by name.
fn tenants(set: &ResourceSet) -> HashMap<&str, &resource::Tenant> {
    set.iter()
        .filter_map(|(_, resource)| match resource {
            Resource::Tenant(spec) => Some((spec.name.as_str(), spec)),
            _ => None,
        })
        .collect()
}

fn limits(set: &ResourceSet) -> Limits {
    let overrides: Vec<_> = set
        .iter()
        .filter_map(|(_, resource)| match resource {
            Resource::Override(spec) => Some(spec),
            _ => None,
        })
        .collect();
    let limits = set.iter().filter_map(|(_, resource)| match resource {
        Resource::Limit(spec) => Some(spec),
        _ => None,
    });
    Limits::new(limits, &overrides)
}

fn caller(
    spec: &resource::ApiKey,
    is_stale: bool,
    tenants: &HashMap<&str, &resource::Tenant>,
) -> Caller {
    let of = |name: &str| tenants.get(name).copied();
    let own = spec.tenant.as_deref().and_then(of);
    // The set has no cycles.
    let all = std::iter::successors(own, |tenant| tenant.parent.as_deref().and_then(of));
    Caller {
        key: spec.name.clone(),
        tenants: all.map(|tenant| tenant.name.clone()).collect(),
        tenant: spec.tenant.clone(),
        shares_as: spec.tenant.as_ref().unwrap_or(&spec.name).as_str().into(),
        weight: own.map_or(1, |tenant| tenant.weight),
        priority: own.map(|tenant| tenant.priority).unwrap_or_default(),
        user: spec.user.clone(),
        models: spec.models.clone(),
        expires_unix_ms: spec.expires_unix_ms,
        disabled: spec.disabled,
        is_stale,
    }
}

fn model(
    spec: &resource::Model,
    version: u64,
    providers: &HashMap<&str, (&resource::Provider, Arc<Provider>)>,
    lasting: &Lasting,
) -> Result<Model, String> {
    let mut targets = Vec::with_capacity(spec.targets.len());
    for target in spec.targets.iter().filter(|target| target.weight > 0) {
        let (of, provider) = providers.get(target.provider.as_str()).ok_or_else(|| {
            format!("model/{}: provider '{}' is not there", spec.name, target.provider)
        })?;
        targets.push(Target {
            provider: provider.clone(),
            model: target.model.clone(),
            weight: target.weight,
            priority: target.priority,
            state: lasting.targets.of(of, target.model.as_deref().unwrap_or(&spec.name))?,
        });
    }
    targets.sort_by_key(|target| target.priority);
    Ok(Model {
        name: spec.name.clone(),
        targets,
        retry: spec.retry.clone(),
        fallback: spec.fallback.clone(),
        routing: spec.routing.clone(),
        when_unavailable: spec.when_unavailable.clone(),
        group: lasting.groups.of(spec),
        owned_by: spec.owned_by.clone(),
        version,
        units: spec.units,
        prices: spec.prices,
        output_cap: spec.output_cap,
        tokenizer: spec.tokenizer,
    })
}

#[cfg(test)]
mod tests {
    use sluicegate_model::document::{Document, References};
    use sluicegate_protocol::policy::{Digest, Point};

    use super::*;
    use crate::{
        admit::Permit,
        pool::Pool,
        route::{self, Load},
        target::Quiet,
    };

    const FILE: &str = r#"
providers:
  - { name: p, dialect: openai-chat, base_url: "http://127.0.0.1:9/v1", keyless: true }
  - name: q
    dialect: openai-chat
    base_url: http://127.0.0.1:9/v1
    keys: [{ name: k, secret: { value: sk-q } }]
models:
  - { name: m, aliases: [best, "m-*"], targets: [{ provider: p }] }
  - { name: n, targets: [{ provider: q, model: other }] }
api_keys:
  - { name: caller, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000" }
"#;

    fn compiler() -> Compiler {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        Compiler::new(Clients::with_web_roots(), Targets::new(Arc::new(Quiet)))
    }

    fn change(from: Option<u64>, to: u64, upserts: Vec<(Key, Body)>) -> Change {
        let point = |revision| Point { epoch: "e".into(), revision };
        Change {
            from: from.map(point),
            to: point(to),
            upserts,
            removes: Vec::new(),
            digest: Digest::default(),
        }
    }

    fn upserts(file: &str, version: u64) -> Vec<(Key, Body)> {
        let document = Document::parse("f", file, References::Open).unwrap();
        let upsert = |declared: &sluicegate_model::document::Declared| {
            let key = Key::from(declared.reference.to_proto());
            let bytes = declared.resource.encode_to_vec().into();
            (key, Body { version, schema: SCHEMA, bytes })
        };
        document.resources.iter().map(upsert).collect()
    }

    fn sent_upstream(policy: &Policy, asked: &str) -> String {
        let model = policy.model(asked).unwrap().clone();
        let exact = policy.is_exact(asked);
        let upstream_name = if exact { model.name.clone() } else { asked.to_owned() };
        let caller = policy.callers.values().next().unwrap().clone();
        let permit = Permit { caller, model, upstream_name };
        let pool = Pool::new(Arc::default(), "n".into());
        let mut plan =
            route::plan(policy, &permit, Endpoint::Chat, &pool, Load::default()).unwrap();
        match plan.advance() {
            route::Next::Try(choice) => choice.model,
            next => panic!("{next:?}"),
        }
    }

    #[test]
    fn a8_what_is_asked_for_and_what_is_sent() {
        let policy = compiler().compile(&change(None, 1, upserts(FILE, 1))).unwrap().policy;
        assert_eq!(sent_upstream(&policy, "m"), "m");
        assert_eq!(sent_upstream(&policy, "best"), "m");
        assert_eq!(sent_upstream(&policy, "m-large"), "m-large");
        assert_eq!(sent_upstream(&policy, "n"), "other");
        assert!(policy.model("M").is_none() && policy.model("bes").is_none());
    }

    #[test]
    fn d2_what_does_not_decode_keeps_its_version_and_the_rest_is_served() {
        let mut compiler = compiler();
        let mut first = compiler.compile(&change(None, 1, upserts(FILE, 1))).unwrap();
        compiler.adopt(&mut first);
        let broken = Body { version: 2, schema: SCHEMA, bytes: "\u{1}".into() };
        let key = |kind: &str, name: &str| Key { kind: kind.into(), name: name.into() };
        let unknown = Body { version: 2, schema: SCHEMA, bytes: Default::default() };
        let newer = Body { version: 2, schema: SCHEMA + 1, bytes: Default::default() };
        let changes = vec![
            (key("model", "m"), broken),
            (key("quota", "x"), unknown),
            (key("tenant", "t"), newer),
        ];
        let second = compiler.compile(&change(Some(1), 2, changes)).unwrap();
        let told: Vec<_> = second
            .rejected
            .iter()
            .map(|r| (r.r#ref.as_ref().unwrap().name.as_str(), r.serving_version))
            .collect();
        assert_eq!(told, [("m", 1), ("x", 0), ("t", 0)]);
        assert_eq!((second.policy.revision, sent_upstream(&second.policy, "m")), (2, "m".into()));
    }

    #[test]
    fn d2_what_does_not_fit_together_is_refused_whole() {
        let compiler = compiler();
        let dangling = "models:\n  - { name: x, targets: [{ provider: nowhere }] }\n";
        let refused = compiler.compile(&change(None, 1, upserts(dangling, 1))).unwrap_err();
        assert!(refused.contains("provider 'nowhere' does not exist"), "{refused}");
    }
}
