//! Resources, valid by construction. [`Resource::parse`] is the only way in; after it, nothing
//! about a single resource needs checking again.

pub mod api_key;
pub mod breaker;
pub mod credential;
pub mod degradation;
pub mod force;
pub mod form;
pub mod health;
pub mod limit;
pub mod model;
pub mod overrides;
pub mod provider;
pub mod retry;
pub mod routing;
pub mod tenant;

use prost::Message;
use prost_reflect::DynamicMessage;
use sluicegate_proto::resource::v1::{self as pb, resource::Spec};

pub use api_key::ApiKey;
pub use breaker::{Breaker, Capacity};
pub use credential::{Credential, SecretSource};
pub use degradation::Degradation;
pub use force::{Force, Forced};
pub use health::HealthProbe;
pub use limit::Limit;
pub use model::{Model, NamePattern, Target};
pub use overrides::Override;
pub use provider::{HttpVersion, KeyPool, LastResort, Provider, Timeouts};
pub use retry::{Again, Fallback, Retry};
pub use routing::Routing;
pub use tenant::{Priority, Tenant};

use crate::{
    name::{Kind, ResourceRef},
    path::Path,
    schema,
    violation::{Violation, Violations},
};

/// One valid resource. Kinds without effect in this build have no variant: they are checked and
/// then refused.
#[derive(Debug, Clone, PartialEq)]
pub enum Resource {
    Provider(Provider),
    Credential(Credential),
    Model(Model),
    Tenant(Tenant),
    ApiKey(ApiKey),
    Limit(Limit),
    Override(Override),
    Force(Force),
    Degradation(Degradation),
}

impl Resource {
    /// Parses a resource as it is desired, stored or received.
    ///
    /// # Errors
    /// Everything wrong with it, each with its field.
    pub fn parse(wire: &pb::Resource) -> Result<Self, Violations> {
        let reference = reference_of(wire)?;
        let mut found = Violations(check_rules(wire));
        let parsed = match &wire.spec {
            Some(Spec::Provider(spec)) => provider::parse(spec, &mut found).map(Self::Provider),
            Some(Spec::Credential(spec)) => {
                credential::parse(spec, &mut found).map(Self::Credential)
            }
            Some(Spec::Model(spec)) => model::parse(spec, &mut found).map(Self::Model),
            Some(Spec::Tenant(spec)) => Some(Self::Tenant(tenant::parse(spec))),
            Some(Spec::ApiKey(spec)) => api_key::parse(spec, &mut found).map(Self::ApiKey),
            Some(Spec::Limit(spec)) => limit::parse(spec, &mut found).map(Self::Limit),
            Some(Spec::Override(spec)) => overrides::parse(spec, &mut found).map(Self::Override),
            Some(Spec::Force(spec)) => force::parse(spec, &mut found).map(Self::Force),
            Some(Spec::Degradation(spec)) => {
                degradation::parse(spec, &mut found).map(Self::Degradation)
            }
            Some(Spec::Access(_)) | None => None,
        };
        match parsed {
            Some(resource) => found.of(&reference).or(resource),
            None => Err(found.of(&reference)),
        }
    }

    /// Its kind and name.
    pub fn reference(&self) -> ResourceRef {
        match self {
            Self::Provider(spec) => ResourceRef::new(Kind::Provider, &spec.name),
            Self::Credential(spec) => ResourceRef::new(Kind::Credential, &spec.name),
            Self::Model(spec) => ResourceRef::new(Kind::Model, &spec.name),
            Self::Tenant(spec) => ResourceRef::new(Kind::Tenant, &spec.name),
            Self::ApiKey(spec) => ResourceRef::new(Kind::ApiKey, &spec.name),
            Self::Limit(spec) => ResourceRef::new(Kind::Limit, &spec.name),
            Self::Override(spec) => ResourceRef::new(Kind::Override, &spec.name),
            Self::Force(spec) => ResourceRef::new(Kind::Force, &spec.name),
            Self::Degradation(spec) => ResourceRef::new(Kind::Degradation, &spec.name),
        }
    }
}

/// Kind and name of a resource on the wire.
///
/// # Errors
/// When the message holds no resource at all.
pub fn reference_of(wire: &pb::Resource) -> Result<ResourceRef, Violation> {
    match schema_kind(wire) {
        Some(kind) => Ok(ResourceRef::new(kind, name_of(wire))),
        None => Err(Violation::new(Path::root(), "the resource is empty").hint(
            "set exactly one of provider, credential, model, tenant, api_key, limit, override, force, degradation",
        )),
    }
}

/// The name that a resource on the wire gives itself; empty when it gives none.
pub fn name_of(wire: &pb::Resource) -> &str {
    match &wire.spec {
        Some(Spec::Provider(spec)) => &spec.name,
        Some(Spec::Credential(spec)) => &spec.name,
        Some(Spec::Model(spec)) => &spec.name,
        Some(Spec::Tenant(spec)) => &spec.name,
        Some(Spec::ApiKey(spec)) => &spec.name,
        Some(Spec::Limit(spec)) => &spec.name,
        Some(Spec::Override(spec)) => &spec.name,
        Some(Spec::Force(spec)) => &spec.name,
        Some(Spec::Degradation(spec)) => &spec.name,
        Some(Spec::Access(spec)) => &spec.name,
        None => "",
    }
}

fn schema_kind(wire: &pb::Resource) -> Option<Kind> {
    Some(match wire.spec.as_ref()? {
        Spec::Provider(_) => Kind::Provider,
        Spec::Credential(_) => Kind::Credential,
        Spec::Model(_) => Kind::Model,
        Spec::Tenant(_) => Kind::Tenant,
        Spec::ApiKey(_) => Kind::ApiKey,
        Spec::Limit(_) => Kind::Limit,
        Spec::Override(_) => Kind::Override,
        Spec::Force(_) => Kind::Force,
        Spec::Degradation(_) => Kind::Degradation,
        Spec::Access(_) => Kind::Access,
    })
}

fn check_rules(wire: &pb::Resource) -> Vec<Violation> {
    let Some((kind, encoded)) = schema::encode_spec(wire) else { return Vec::new() };
    let message = DynamicMessage::decode(schema::descriptor(kind), encoded.as_slice())
        .expect("a message decodes by its own descriptor");
    schema::check_rules(&message)
}

/// The typed message of a kind from its dynamic form.
///
/// # Errors
/// A violation of the resource as a whole, when the message is of another kind.
pub fn from_dynamic(kind: Kind, message: &DynamicMessage) -> Result<pb::Resource, Violation> {
    fn typed<T: Message + Default>(message: &DynamicMessage) -> Result<T, Violation> {
        message.transcode_to().map_err(|error| Violation::new(Path::root(), error.to_string()))
    }
    let spec = match kind {
        Kind::Provider => Spec::Provider(typed(message)?),
        Kind::Credential => Spec::Credential(typed(message)?),
        Kind::Model => Spec::Model(typed(message)?),
        Kind::Tenant => Spec::Tenant(typed(message)?),
        Kind::ApiKey => Spec::ApiKey(typed(message)?),
        Kind::Limit => Spec::Limit(typed(message)?),
        Kind::Override => Spec::Override(typed(message)?),
        Kind::Force => Spec::Force(typed(message)?),
        Kind::Degradation => Spec::Degradation(typed(message)?),
        Kind::Access => Spec::Access(typed(message)?),
    };
    Ok(pb::Resource { spec: Some(spec) })
}

/// The resource with every secret taken out: what answers, diffs and histories may show.
#[must_use]
pub fn redacted(wire: &pb::Resource) -> pb::Resource {
    let mut shown = wire.clone();
    match &mut shown.spec {
        Some(Spec::Credential(spec)) => {
            if let Some(secret) = &mut spec.secret {
                credential::redact(secret);
            }
        }
        Some(Spec::ApiKey(spec)) => spec.secret = None,
        Some(Spec::Provider(spec)) => {
            for secret in spec.keys.iter_mut().filter_map(|key| key.secret.as_mut()) {
                credential::redact(secret);
            }
        }
        _ => {}
    }
    shown
}
