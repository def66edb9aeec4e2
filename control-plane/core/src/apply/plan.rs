//! What a request comes to, given the present state: faults, or the writes to make.

use std::{collections::BTreeMap, sync::Arc};

use prost::Message;
use sluicegate_model::{
    Kind, Resource, ResourceRef, ResourceSet, Violation, Violations,
    path::Path,
    resource::{Forced, api_key::MIN_KEY, credential, reference_of},
    scope::{Part, Selector},
    seal::SealKey,
    secret::{KeyHash, Secret},
};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec, secret_source::Source};

use super::{Change, Desire, Difference, Readings, Request};
use crate::{
    error::{CoreError, Moved},
    secrets::{self, Unsealed},
    state::{State, Stored, reference_in},
};

/// Largest resource, in bytes as stored. A change of one such fits into one transaction of etcd.
const MAX_RESOURCE: usize = 384 * 1024;
/// Longest comment, in characters.
const MAX_COMMENT: usize = 4_096;

/// The writes that make the changes, without those that change nothing.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
}

/// One resource that is written or, without `after`, deleted.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) reference: ResourceRef,
    pub(super) after: Option<pb::Resource>,
}

impl Plan {
    /// Checks the request against `state`.
    ///
    /// # Errors
    /// [`CoreError::Conflict`] with every resource that moved, else [`CoreError::Invalid`] with every
    /// fault: of the resources, or when there is none, of the configuration that they would make.
    pub(super) fn new(
        state: &State,
        request: &Request,
        readings: &Readings,
        seal: &SealKey,
    ) -> Result<Self, CoreError> {
        let mut found = Violations::default();
        if request.comment.chars().count() > MAX_COMMENT {
            let violation = Violation::new(Path::root().field("comment"), "is too long");
            found.0.push(violation.hint(format!("use at most {MAX_COMMENT} characters")));
        }
        let named = named(&request.changes, &mut found);
        let moved: Vec<_> = named
            .iter()
            .filter_map(|(reference, index)| {
                let expected = request.changes.get(*index)?.expect_version?;
                let actual = state.version(reference);
                (expected != actual).then(|| Moved {
                    reference: reference.clone(),
                    expected,
                    actual,
                })
            })
            .collect();
        if !moved.is_empty() {
            return Err(CoreError::Conflict(moved));
        }
        if request.must_exist {
            let deleted = |index: &usize| {
                request.changes.get(*index).is_some_and(|c| matches!(c.desire, Desire::Delete(_)))
            };
            let absent = named
                .iter()
                .find(|(reference, index)| deleted(index) && state.version(reference) == 0);
            if let Some((reference, _)) = absent {
                return Err(state.not_found(reference));
            }
        }
        let mut after = BTreeMap::new();
        for (reference, index) in &named {
            let Some(change) = request.changes.get(*index) else { continue };
            let reading = readings.get(*index).and_then(Option::as_ref);
            let current = state.resources.get(reference).map(Arc::as_ref);
            let outcome = match &change.desire {
                Desire::Put(wire) => prepare(reference, wire, reading, current, seal)?.map(Some),
                Desire::Restore(wire) => parse(wire).map(Some),
                Desire::Delete(_) => Ok(None),
            };
            match outcome {
                Ok(outcome) => drop(after.insert(reference.clone(), outcome)),
                Err(violations) => found.0.extend(violations.of(reference).0),
            }
        }
        for (reference, index) in &named {
            let reading = readings.get(*index).and_then(Option::as_ref);
            let Some(Ok(secret)) = reading else { continue };
            if let Err(violation) = check_key(state, &after, reference, secret) {
                found.0.push(violation.of(reference));
            }
        }
        let broken = state.broken.keys().filter_map(|name| reference_in(name));
        for reference in state.resources.keys().cloned().chain(broken) {
            if request.prune.contains(&reference.kind) && !named.contains_key(&reference) {
                after.insert(reference, None);
            }
        }
        found.or(())?;
        check_set(state, &after)?;
        let writes = after.into_iter().filter_map(|(reference, after)| {
            let current = state.resources.get(&reference).map(|stored| &stored.wire);
            let after = after.map(|(wire, _)| wire);
            let same = match &after {
                Some(wire) => current == Some(wire),
                None => state.version(&reference) == 0,
            };
            (!same).then_some(Write { reference, after })
        });
        Ok(Self { writes: writes.collect() })
    }

    /// Does it change nothing?
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// What it changes, for people.
    pub(super) fn differences(&self, state: &State) -> Vec<Difference> {
        let difference = |write: &Write| {
            let before = state.resources.get(&write.reference).map(|stored| &stored.wire);
            Difference::new(write.reference.clone(), before, write.after.as_ref())
        };
        self.writes.iter().map(difference).collect()
    }
}

/// The changes by what they are about.
fn named(changes: &[Change], found: &mut Violations) -> BTreeMap<ResourceRef, usize> {
    let mut named = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let path = Path::root().field("changes").index(index);
        let reference = match &change.desire {
            Desire::Put(wire) | Desire::Restore(wire) => match reference_of(wire) {
                Ok(reference) => reference,
                Err(violation) => {
                    let path = path.field("put").join(&violation.path);
                    found.0.push(Violation { path, ..violation });
                    continue;
                }
            },
            Desire::Delete(reference) => reference.clone(),
        };
        if let Some(first) = named.insert(reference.clone(), index) {
            let violation = Violation::new(Path::root(), "is named twice in one request");
            let hint = format!("leave out one of changes[{first}] and changes[{index}]");
            found.0.push(violation.hint(hint).of(&reference));
        }
    }
    named
}

/// Does a provider key fit the provider that it is for, as that will be?
fn check_key(
    state: &State,
    after: &BTreeMap<ResourceRef, Option<Prepared>>,
    reference: &ResourceRef,
    secret: &Secret,
) -> Result<(), Violation> {
    let Some(Some((_, Resource::Credential(key)))) = after.get(reference) else { return Ok(()) };
    let provider = ResourceRef::new(Kind::Provider, &key.provider);
    let found = match after.get(&provider) {
        Some(after) => after.as_ref().map(|(_, resource)| resource),
        None => state.resources.get(&provider).map(|stored| &stored.parsed),
    };
    match found {
        Some(Resource::Provider(provider)) => credential::check_form(provider, secret),
        _ => Ok(()),
    }
}

type Prepared = (pb::Resource, Resource);

/// The stored form of a resource as people write it.
fn prepare(
    reference: &ResourceRef,
    wire: &pb::Resource,
    reading: Option<&Result<Secret, Violation>>,
    current: Option<&Stored>,
    seal: &SealKey,
) -> Result<Result<Prepared, Violations>, CoreError> {
    let mut wire = wire.clone();
    if let Some(Spec::ApiKey(spec)) = &mut wire.spec
        && spec.hash.is_empty()
        && spec.secret.is_none()
        && let Some(Spec::ApiKey(current)) = current.and_then(|stored| stored.wire.spec.as_ref())
    {
        spec.hash.clone_from(&current.hash);
    }
    let mut found = match Resource::parse(&wire) {
        Ok(_) => Violations::default(),
        Err(violations) => violations,
    };
    // The source itself may be at fault already, in words of its own.
    let secret_at_fault =
        found.0.iter().any(|violation| violation.path.to_string().starts_with("secret"));
    let reading = match reading {
        _ if secret_at_fault => return Ok(Err(found)),
        Some(Err(violation)) => {
            found.0.push(violation.clone().of(reference));
            return Ok(Err(found));
        }
        Some(Ok(reading)) => Some(reading),
        None => None,
    };
    match &mut wire.spec {
        Some(Spec::Credential(spec)) => {
            let current = match current.and_then(|stored| stored.wire.spec.as_ref()) {
                Some(Spec::Credential(current)) => current.secret.as_ref(),
                _ => None,
            };
            if let Some(secret) = &mut spec.secret {
                match secrets::seal(seal, &spec.name, secret, reading, current) {
                    Ok(()) => {}
                    Err(Unsealed::Invalid(violation)) => found.0.push(violation.of(reference)),
                    Err(Unsealed::Failed(error)) => return Err(error),
                }
            }
        }
        Some(Spec::ApiKey(spec)) => {
            if let Err(violation) = hash_key(spec, reading) {
                found.0.push(violation.of(reference));
            }
        }
        _ => {}
    }
    if wire.encoded_len() > MAX_RESOURCE {
        let violation = Violation::new(Path::root(), format!("has {} bytes", wire.encoded_len()));
        found.0.push(violation.hint(format!("at most {MAX_RESOURCE} are kept")).of(reference));
    }
    if !found.0.is_empty() {
        return Ok(Err(found));
    }
    Ok(parse(&wire))
}

/// Leaves of a caller key only its hash.
fn hash_key(spec: &mut pb::ApiKey, reading: Option<&Secret>) -> Result<(), Violation> {
    let Some(secret) = spec.secret.take() else { return Ok(()) };
    let Some(reading) = reading else {
        let held = matches!(secret.source, Some(Source::Held(_)));
        let path = Path::root().field("secret");
        let path = if held { path.field("held") } else { path };
        return Err(Violation::new(path, "is not kept of a caller's key, only its hash is")
            .hint("leave secret out to keep the key"));
    };
    if reading.expose().len() < MIN_KEY {
        let message = format!("holds a key of fewer than {MIN_KEY} characters");
        return Err(Violation::new(Path::root().field("secret"), message)
            .hint("make one with 'sluicegate key create'"));
    }
    let hash = KeyHash::of(reading.expose()).to_string();
    if !spec.hash.is_empty() && spec.hash != hash {
        return Err(Violation::new(Path::root().field("hash"), "is not the hash of secret")
            .hint("leave hash out when secret is given"));
    }
    spec.hash = hash;
    Ok(())
}

fn parse(wire: &pb::Resource) -> Result<Prepared, Violations> {
    Resource::parse(wire).map(|parsed| (wire.clone(), parsed))
}

/// Checks the whole configuration as it would become.
fn check_set(
    state: &State,
    after: &BTreeMap<ResourceRef, Option<Prepared>>,
) -> Result<(), Violations> {
    let kept = state.resources.iter().filter(|(reference, _)| !after.contains_key(reference));
    let kept = kept.map(|(_, stored)| &stored.parsed);
    let put = after.values().flatten().map(|(_, parsed)| parsed);
    let merged: Vec<_> = kept.chain(put).collect();
    let mut found = still_used(&merged, after);
    if let Err(violations) = ResourceSet::new(merged.iter().map(|resource| (*resource).clone())) {
        // Those of deleted resources are told already, from the other side.
        let told = |violation: &Violation| {
            found.iter().any(|(user, path, _)| {
                violation.subject.as_ref() == Some(user) && violation.path == *path
            })
        };
        let rest: Vec<_> = violations.0.into_iter().filter(|violation| !told(violation)).collect();
        let used = found.drain(..).map(|(_, _, violation)| violation);
        return Err(Violations(used.chain(rest).collect()));
    }
    Ok(())
}

/// Deleted resources that others refer to: who, where, and the fault to tell.
fn still_used(
    merged: &[&Resource],
    after: &BTreeMap<ResourceRef, Option<Prepared>>,
) -> Vec<(ResourceRef, Path, Violation)> {
    let mut found = Vec::new();
    for resource in merged {
        let user = resource.reference();
        for (path, used) in references(resource) {
            if let Some(None) = after.get(&used) {
                let message = format!("is still used by {user} ({path})");
                let hint = format!("change or delete {user} first, or in the same request");
                let violation = Violation::new(Path::root(), message).hint(hint).of(&used);
                found.push((user.clone(), path, violation));
            }
        }
    }
    found
}

/// What a resource refers to, and where.
fn references(resource: &Resource) -> Vec<(Path, ResourceRef)> {
    let field = |name: &str| Path::root().field(name);
    match resource {
        Resource::Provider(_) => Vec::new(),
        Resource::Credential(spec) => {
            vec![(field("provider"), ResourceRef::new(Kind::Provider, &spec.provider))]
        }
        Resource::Model(spec) => {
            let target = |(index, target): (usize, &sluicegate_model::resource::Target)| {
                let path = field("targets").index(index).field("provider");
                (path, ResourceRef::new(Kind::Provider, &target.provider))
            };
            let fallback = |(path, name): (Path, &str)| (path, ResourceRef::new(Kind::Model, name));
            let fallbacks = spec.fallback.named().into_iter().map(fallback);
            let routed = spec.routing.iter().flat_map(|routing| routing.references());
            spec.targets.iter().enumerate().map(target).chain(fallbacks).chain(routed).collect()
        }
        Resource::Tenant(spec) => {
            let parent = spec.parent.iter();
            parent.map(|name| (field("parent"), ResourceRef::new(Kind::Tenant, name))).collect()
        }
        Resource::ApiKey(spec) => {
            let tenant = spec.tenant.iter();
            tenant.map(|name| (field("tenant"), ResourceRef::new(Kind::Tenant, name))).collect()
        }
        Resource::Limit(spec) => {
            let named = |(part, selector): (Part, &Selector)| {
                let Selector::One(name) = selector else { return None };
                let path = field("scope").field(part.name());
                Some((path, ResourceRef::new(kind_of(part)?, name)))
            };
            spec.scope.parts().filter_map(named).collect()
        }
        Resource::Override(spec) => {
            vec![(field("limit"), ResourceRef::new(Kind::Limit, &spec.limit))]
        }
        Resource::Force(spec) => match &spec.what {
            Forced::Breaker { provider, .. } => {
                vec![(field("target"), ResourceRef::new(Kind::Provider, provider))]
            }
            Forced::NoRetries => Vec::new(),
        },
        Resource::Degradation(spec) => spec.references(),
    }
}

/// The kind whose resources a part of a scope names; `None` where it names none.
fn kind_of(part: Part) -> Option<Kind> {
    match part {
        Part::Tenant => Some(Kind::Tenant),
        Part::Key => Some(Kind::ApiKey),
        Part::Model => Some(Kind::Model),
        Part::Provider => Some(Kind::Provider),
        Part::Credential => Some(Kind::Credential),
        Part::User | Part::Address | Part::App => None,
    }
}
