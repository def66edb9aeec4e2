//! Whom a probe calls: a provider, a key of it, and a model as the provider names it.

use std::sync::Arc;

use sluicegate_model::{
    Kind, Resource, ResourceRef, Violation,
    path::Path,
    resource::{Credential, Provider, model::Target},
    seal::SealKey,
    secret::Secret,
};
use sluicegate_proto::resource::v1::resource::Spec;

use crate::{
    desired::Desired,
    error::CoreError,
    secrets,
    state::{State, Stored},
};

/// What is probed.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    pub provider: Provider,
    /// Name and value of the key; `None`: calls carry none.
    pub key: Option<(String, Secret)>,
    /// As the provider calls it.
    pub model: String,
}

/// Finds out whom to call, and opens the key for it.
#[derive(Debug)]
pub struct Subjects {
    desired: Arc<Desired>,
    seal: SealKey,
}

impl Subjects {
    pub fn new(desired: Arc<Desired>, seal: SealKey) -> Self {
        Self { desired, seal }
    }

    /// The subject of these names. An empty `credential` is the first key by name that is not
    /// disabled, or none where the provider takes calls without; an empty `model` is that of the
    /// first model by name with a target at the provider.
    ///
    /// # Errors
    /// When something named is not there, or nothing can be found where nothing was named; when the
    /// key cannot be opened.
    pub fn find(
        &self,
        provider: &str,
        credential: &str,
        model: &str,
    ) -> Result<Subject, CoreError> {
        let state = self.desired.snapshot();
        if provider.is_empty() {
            let path = Path::root().field("provider");
            return Err(invalid(Violation::new(path, "is missing").hint("name a provider")));
        }
        let reference = ResourceRef::new(Kind::Provider, provider);
        let found = state.resources.get(&reference).map(|stored| &stored.parsed);
        let Some(Resource::Provider(spec)) = found else {
            return Err(state.not_found(&reference));
        };
        let key = match key(&state, spec, credential)? {
            Some((stored, name)) => Some((name.to_owned(), self.open(stored, name)?)),
            None => None,
        };
        let model = match model {
            "" => first_model(&state, provider)?,
            named => named.to_owned(),
        };
        Ok(Subject { provider: spec.clone(), key, model })
    }

    fn open(&self, stored: &Stored, name: &str) -> Result<Secret, CoreError> {
        let sealed = match &stored.wire.spec {
            Some(Spec::Credential(spec)) => spec.secret.as_ref(),
            _ => None,
        };
        let opened = sealed.ok_or_else(|| "no secret is stored with it".to_owned());
        opened.and_then(|sealed| secrets::open(&self.seal, name, sealed)).map_err(|reason| {
            CoreError::Corrupt { key: ResourceRef::new(Kind::Credential, name).to_string(), reason }
        })
    }
}

/// The key to use: the one of this name, or where none is named the first that may be used.
fn key<'a>(
    state: &'a State,
    provider: &Provider,
    named: &str,
) -> Result<Option<(&'a Stored, &'a str)>, CoreError> {
    let path = || Path::root().field("credential");
    if !named.is_empty() {
        let reference = ResourceRef::new(Kind::Credential, named);
        let Some((stored, spec)) = state.resources.get(&reference).and_then(credential) else {
            return Err(state.not_found(&reference));
        };
        if spec.provider != provider.name {
            let what = format!("'{named}' is a key of provider '{}'", spec.provider);
            let hint = format!("name one of provider '{}'", provider.name);
            return Err(invalid(Violation::new(path(), what).hint(hint)));
        }
        return Ok(Some((stored, &spec.name)));
    }
    if provider.keyless {
        return Ok(None);
    }
    let mut all = state.resources.values().filter_map(credential);
    let first = all.find(|(_, spec)| spec.provider == provider.name && !spec.disabled);
    match first {
        Some((stored, spec)) => Ok(Some((stored, &spec.name))),
        None => {
            let what = format!("provider '{}' has no key that is in use", provider.name);
            let hint = "apply a credential for it, or set keyless";
            Err(invalid(Violation::new(path(), what).hint(hint)))
        }
    }
}

fn credential(stored: &Arc<Stored>) -> Option<(&Stored, &Credential)> {
    match &stored.parsed {
        Resource::Credential(spec) => Some((stored, spec)),
        _ => None,
    }
}

/// What the provider calls the first model, by name, that it has a target of.
fn first_model(state: &State, provider: &str) -> Result<String, CoreError> {
    let upstream_name = |stored: &Arc<Stored>| {
        let Resource::Model(spec) = &stored.parsed else { return None };
        let target = spec.targets.iter().find(|target: &&Target| target.provider == provider)?;
        Some(target.model.clone().unwrap_or_else(|| spec.name.clone()))
    };
    state.resources.values().find_map(upstream_name).ok_or_else(|| {
        let what = format!("is missing, and no model has a target at provider '{provider}'");
        let hint = "name a model as the provider calls it: give --model";
        invalid(Violation::new(Path::root().field("model"), what).hint(hint))
    })
}

fn invalid(violation: Violation) -> CoreError {
    CoreError::Invalid(violation.into())
}
