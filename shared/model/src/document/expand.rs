//! The shorthands of the file form.

use sluicegate_proto::resource::v1::{self as pb, resource::Spec};

use super::Declared;
use crate::{
    name::{Kind, ResourceRef},
    path::Path,
    resource::name_of,
};

/// The resources that one entry stands for: itself, and a credential for each key of a provider.
pub(super) fn expand(kind: Kind, mut resource: pb::Resource, path: &Path) -> Vec<Declared> {
    let name = name_of(&resource).to_owned();
    let mut keys = Vec::new();
    if let Some(Spec::Provider(provider)) = &mut resource.spec {
        keys = std::mem::take(&mut provider.keys);
    }
    let mut declared =
        vec![Declared { reference: ResourceRef::new(kind, &name), resource, path: path.clone() }];
    for (index, key) in keys.into_iter().enumerate() {
        let credential = pb::Credential {
            name: format!("{name}/{}", key.name),
            provider: name.clone(),
            secret: key.secret,
            weight: key.weight,
            disabled: key.disabled,
            account: key.account,
        };
        declared.push(Declared {
            reference: ResourceRef::new(Kind::Credential, &credential.name),
            resource: pb::Resource { spec: Some(Spec::Credential(credential)) },
            path: path.field("keys").index(index),
        });
    }
    declared
}
