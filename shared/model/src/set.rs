//! All resources together: names that exist, no cycles, no name that means two things.

mod routed;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sluicegate_proto::resource::v1 as pb;

use crate::{
    name::{Kind, ResourceRef, near_miss},
    path::Path,
    resource::{Forced, Limit, Model, NamePattern, Override, Resource},
    scope::{Part, Selector},
    violation::{Violation, Violations},
};

/// A whole configuration: every resource valid, every reference to something that is there.
#[derive(Debug, Clone, Default)]
pub struct ResourceSet {
    resources: BTreeMap<ResourceRef, Resource>,
}

impl ResourceSet {
    /// Checks the resources against each other.
    ///
    /// # Errors
    /// Every dangling reference, cycle and name conflict.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Result<Self, Violations> {
        let resources: BTreeMap<_, _> =
            resources.into_iter().map(|resource| (resource.reference(), resource)).collect();
        let set = Self { resources };
        Violations(set.check()).or(set)
    }

    /// Every resource, by kind and then by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceRef, &Resource)> {
        self.resources.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn has(&self, kind: Kind, name: &str) -> bool {
        self.resources.contains_key(&ResourceRef::new(kind, name))
    }

    fn dangling(&self, field: Path, kind: Kind, name: &str) -> Option<Violation> {
        if self.has(kind, name) {
            return None;
        }
        let known = self.resources.range(ResourceRef::new(kind, "")..);
        let names: Vec<_> = known
            .take_while(|(known, _)| known.kind == kind)
            .map(|(known, _)| known.name.as_str())
            .collect();
        let violation = Violation::new(field, format!("{kind} '{name}' does not exist"));
        Some(match near_miss(name, names.iter().copied()) {
            Some(near) => violation.hint(format!("did you mean '{near}'?")),
            None => violation
                .hint(format!("declare it, or name one that is declared ({})", listed(&names))),
        })
    }

    fn check(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for (reference, resource) in &self.resources {
            let root = Path::root();
            let dangling: Vec<_> = match resource {
                Resource::Credential(spec) => self
                    .dangling(root.field("provider"), Kind::Provider, &spec.provider)
                    .into_iter()
                    .collect(),
                Resource::Model(spec) => self.check_model(spec),
                Resource::Tenant(spec) => spec
                    .parent
                    .iter()
                    .filter_map(|parent| self.dangling(root.field("parent"), Kind::Tenant, parent))
                    .chain(self.tenant_cycle(&spec.name))
                    .collect(),
                Resource::ApiKey(spec) => spec
                    .tenant
                    .iter()
                    .filter_map(|tenant| self.dangling(root.field("tenant"), Kind::Tenant, tenant))
                    .collect(),
                Resource::Override(spec) => self.check_override(spec),
                Resource::Force(spec) => match &spec.what {
                    Forced::Breaker { provider, .. } => self
                        .dangling(root.field("target"), Kind::Provider, provider)
                        .into_iter()
                        .collect(),
                    Forced::NoRetries => Vec::new(),
                },
                Resource::Limit(spec) => self.check_scope(spec),
                Resource::Degradation(spec) => self.check_degradation(spec),
                Resource::Provider(_) => Vec::new(),
            };
            found.extend(dangling.into_iter().map(|violation| violation.of(reference)));
        }
        found.extend(self.ambiguous_model_names());
        found.extend(self.shared_key_hashes());
        found
    }

    /// What a limit is for must be there, or nobody would ever be held by it.
    fn check_scope(&self, limit: &Limit) -> Vec<Violation> {
        let root = Path::root().field("scope");
        let kinds = [
            (Part::Tenant, Kind::Tenant),
            (Part::Key, Kind::ApiKey),
            (Part::Model, Kind::Model),
            (Part::Provider, Kind::Provider),
            (Part::Credential, Kind::Credential),
        ];
        kinds
            .into_iter()
            .filter_map(|(part, kind)| match limit.scope.get(part)? {
                Selector::One(name) => self.dangling(root.field(part.name()), kind, name),
                Selector::Each => None,
            })
            .collect()
    }

    fn check_override(&self, spec: &Override) -> Vec<Violation> {
        let Some(Resource::Limit(limit)) =
            self.resources.get(&ResourceRef::new(Kind::Limit, &spec.limit))
        else {
            let path = Path::root().field("limit");
            return self.dangling(path, Kind::Limit, &spec.limit).into_iter().collect();
        };
        let mut found = spec.fit(limit).err().map_or_else(Vec::new, |violations| violations.0);
        let twin = self.resources.values().find_map(|resource| match resource {
            Resource::Override(other) => (other.limit == spec.limit
                && other.subject == spec.subject
                && other.name < spec.name)
                .then_some(other),
            _ => None,
        });
        if let Some(twin) = twin {
            found.push(
                Violation::new(
                    Path::root().field("subject"),
                    format!("override '{}' is for the same subject", twin.name),
                )
                .hint("keep one of them"),
            );
        }
        found
    }

    fn check_model(&self, model: &Model) -> Vec<Violation> {
        let targets = model.targets.iter().enumerate().filter_map(|(index, target)| {
            let path = Path::root().field("targets").index(index).field("provider");
            self.dangling(path, Kind::Provider, &target.provider)
        });
        let named = model.fallback.named().into_iter();
        let fallbacks = named.filter_map(|(path, name)| {
            if name == model.name || self.falls_back(name, &model.name) {
                let what = format!("'{name}' comes back to this model");
                return Some(Violation::new(path, what).hint("break the cycle"));
            }
            self.dangling(path, Kind::Model, name)
        });
        targets.chain(fallbacks).chain(self.check_routing(model)).collect()
    }

    /// Does a model have `to` among its fallbacks, or those of its fallbacks, and so on?
    fn falls_back(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut left = vec![from];
        while let Some(name) = left.pop() {
            let reference = ResourceRef::new(Kind::Model, name);
            let Some(Resource::Model(model)) = self.resources.get(&reference) else { continue };
            for (_, next) in model.fallback.named() {
                if next == to {
                    return true;
                }
                if seen.insert(next) {
                    left.push(next);
                }
            }
        }
        false
    }

    fn tenant_cycle(&self, name: &str) -> Option<Violation> {
        let mut seen = BTreeSet::from([name]);
        let mut current = name;
        while let Some(Resource::Tenant(tenant)) =
            self.resources.get(&ResourceRef::new(Kind::Tenant, current))
        {
            current = tenant.parent.as_deref()?;
            if current == name {
                let violation =
                    Violation::new(Path::root().field("parent"), "the tenant is above itself");
                return Some(violation.hint("break the cycle"));
            }
            // A cycle further up is reported at its own members.
            if !seen.insert(current) {
                return None;
            }
        }
        None
    }

    /// Exact names and aliases must be unique; so must prefixes, as written.
    fn ambiguous_model_names(&self) -> Vec<Violation> {
        let mut owners: HashMap<NamePattern, &str> = HashMap::new();
        let mut found = Vec::new();
        let models = || {
            self.resources.iter().filter_map(|(reference, resource)| match resource {
                Resource::Model(model) => Some((reference, model)),
                _ => None,
            })
        };
        for (_, model) in models() {
            owners.insert(NamePattern::Exact(model.name.clone()), &model.name);
        }
        for (reference, model) in models() {
            for (index, alias) in model.aliases.iter().enumerate() {
                let owner = owners.entry(alias.clone()).or_insert(&model.name);
                if *owner != model.name {
                    let path = Path::root().field("aliases").index(index);
                    found.push(
                        Violation::new(path, format!("already belongs to model '{owner}'"))
                            .hint("give each name to one model")
                            .of(reference),
                    );
                }
            }
        }
        found
    }

    fn shared_key_hashes(&self) -> Vec<Violation> {
        let mut owners = HashMap::new();
        let mut found = Vec::new();
        for (reference, resource) in &self.resources {
            let Resource::ApiKey(key) = resource else { continue };
            let Some(hash) = key.hash else { continue };
            if let Some(owner) = owners.insert(hash, &key.name) {
                found.push(
                    Violation::new(
                        Path::root().field("hash"),
                        format!("is the same key as '{owner}'"),
                    )
                    .hint("give every caller a key of its own")
                    .of(reference),
                );
            }
        }
        found
    }
}

/// Checks references among resources on the wire that each parse by themselves.
pub(crate) fn check_references(resources: &[pb::Resource]) -> Vec<Violation> {
    let parsed = resources.iter().filter_map(|resource| Resource::parse(resource).ok());
    match ResourceSet::new(parsed) {
        Ok(_) => Vec::new(),
        Err(violations) => violations.0,
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "none is".to_owned(),
        names if names.len() > 8 => {
            format!(
                "{} and {} more",
                names.iter().take(8).copied().collect::<Vec<_>>().join(", "),
                names.len() - 8
            )
        }
        names => names.join(", "),
    }
}
