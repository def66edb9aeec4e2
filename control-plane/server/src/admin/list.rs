//! Pages of resources.

use std::ops::Bound;

use prost::Message;
use sluicegate_control_core::{State, Stored};
use sluicegate_model::{
    Resource, ResourceRef, Violations,
    resource::Forced,
    scope::{Part, Scope, Selector},
};
use sluicegate_proto::admin::v1 as pb;

use crate::{paging, wire};

/// Resources on a page.
const DEFAULT_SIZE: usize = 500;
const MAX_SIZE: usize = 5_000;

/// One page of the state, in order of kind and name. Pages of a state that changes meanwhile miss
/// nothing that was there all the time, and repeat nothing.
///
/// # Errors
/// Faults of the request.
pub(super) fn page(state: &State, request: &pb::ListRequest) -> Result<pb::ListReply, Violations> {
    let kinds = wire::kinds(&request.kinds, "kinds")?;
    let size = paging::size(request.page_size, DEFAULT_SIZE, MAX_SIZE)?;
    let start = match paging::last_resource(&request.page_token)? {
        Some(last) => Bound::Excluded(last),
        None => Bound::Unbounded,
    };
    let mut reply = pb::ListReply { at: wire::point(&state.point()), ..Default::default() };
    let mut last: Option<&ResourceRef> = None;
    let mut bytes = 0;
    let wanted = state.resources.range((start, Bound::Unbounded)).filter(|(reference, stored)| {
        (kinds.is_empty() || kinds.contains(&reference.kind))
            && reference.name.starts_with(&request.name_prefix)
            && belongs(stored, &request.tenant, &request.provider)
    });
    for (reference, stored) in wanted {
        let shown = wire::shown(stored);
        bytes += shown.encoded_len();
        let full = reply.resources.len() == size || bytes > paging::PAGE_BYTES;
        if let Some(last) = last.filter(|_| full) {
            reply.next_page_token = paging::after_resource(last, state.revision);
            break;
        }
        reply.resources.push(shown);
        last = Some(reference);
    }
    Ok(reply)
}

/// Does it belong to the tenant or to the provider, where one is named?
fn belongs(stored: &Stored, tenant: &str, provider: &str) -> bool {
    if tenant.is_empty() && provider.is_empty() {
        return true;
    }
    let is = |wanted: &str, name: &str| !wanted.is_empty() && wanted == name;
    match &stored.parsed {
        Resource::Provider(spec) => is(provider, &spec.name),
        Resource::Credential(spec) => is(provider, &spec.provider),
        Resource::Model(spec) => spec.targets.iter().any(|target| is(provider, &target.provider)),
        Resource::Tenant(spec) => {
            is(tenant, &spec.name) || spec.parent.as_ref().is_some_and(|parent| is(tenant, parent))
        }
        Resource::ApiKey(spec) => spec.tenant.as_ref().is_some_and(|of| is(tenant, of)),
        Resource::Limit(spec) => names(&spec.scope, tenant, provider),
        Resource::Override(spec) => names(&spec.subject, tenant, provider),
        Resource::Force(spec) => match &spec.what {
            Forced::Breaker { provider: of, .. } => is(provider, of),
            Forced::NoRetries => false,
        },
        Resource::Degradation(spec) => {
            spec.tenants.iter().any(|of| is(tenant, of))
                || spec.sources.iter().any(|source| is(provider, &source.provider))
        }
    }
}

/// Does a scope name the tenant or the provider?
fn names(scope: &Scope, tenant: &str, provider: &str) -> bool {
    [(Part::Tenant, tenant), (Part::Provider, provider)].into_iter().any(|(part, wanted)| {
        matches!(scope.get(part), Some(Selector::One(name)) if !wanted.is_empty() && name == wanted)
    })
}
