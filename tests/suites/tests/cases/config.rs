//! The gateway's configuration file for a set of cells.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Map, Value, json};
use sluicegate_testkit::port;

use crate::table::{Cell, ProviderSpec};

/// One file for all cells. It is JSON, which YAML includes, so that no text needs quoting by hand.
/// `upstream` is where a cell's providers are.
pub(crate) fn of_cells(cells: &[Cell], upstream: impl Fn(&Cell) -> SocketAddr) -> String {
    let providers = cells.iter().flat_map(|cell| {
        let upstream = upstream(cell);
        cell.setup.providers.iter().map(move |(name, spec)| provider(cell, name, spec, upstream))
    });
    let models = cells.iter().flat_map(|cell| {
        let exact = cell.setup.models.iter();
        exact.map(move |model| self::model(cell, &model.name, &model.aliases))
    });
    let keys = cells.iter().map(api_key);
    let limits = cells.iter().flat_map(limits);
    let file = json!({
        "providers": providers.collect::<Vec<_>>(),
        "models": models.collect::<Vec<_>>(),
        "tenants": [{"name": "default"}],
        "api_keys": keys.collect::<Vec<_>>(),
        "limits": limits.collect::<Vec<_>>(),
    });
    format!("{file:#}\n")
}

fn provider(cell: &Cell, name: &str, spec: &ProviderSpec, upstream: SocketAddr) -> Value {
    let address = match spec.down {
        false => upstream,
        // Nobody else gets this port from the kit, and nothing here listens on it.
        true => port::free().unwrap_or_else(|_| (Ipv4Addr::LOCALHOST, 9).into()),
    };
    let keys = spec.keys.iter().map(|key| {
        let secret = cell.secret(name, key);
        let disabled = spec.disabled.contains(key);
        json!({"name": key, "secret": {"value": secret}, "weight": 1, "disabled": disabled})
    });
    let mut provider = json!({
        "name": format!("{}-{name}", cell.name),
        "dialect": "openai-chat",
        "base_url": format!("http://{address}/{}/{name}{}", cell.name, spec.base),
        "keys": keys.collect::<Vec<_>>(),
    });
    if !cell.setup.timeouts.is_empty() {
        provider["timeouts"] = cell.setup.timeouts.clone().into();
    }
    if !cell.setup.breaker.is_empty() {
        provider["breaker"] = cell.setup.breaker.clone().into();
    }
    if !spec.key_pool.is_empty() {
        provider["key_pool"] = spec.key_pool.clone().into();
    }
    provider
}

/// The upstream knows each model by the caller's name for it.
fn model(cell: &Cell, name: &str, aliases: &[String]) -> Value {
    let own = cell.model(name);
    let providers = cell.setup.providers.keys().enumerate();
    let targets = providers.map(|(priority, provider)| {
        let provider = format!("{}-{provider}", cell.name);
        json!({"provider": provider, "model": own, "priority": priority})
    });
    let mut model = Map::new();
    model.insert("name".into(), own.clone().into());
    model.insert("targets".into(), targets.collect());
    if !aliases.is_empty() {
        model.insert("aliases".into(), aliases.iter().map(|alias| cell.model(alias)).collect());
    }
    if let Some(max_attempts) = cell.setup.max_attempts {
        model.insert("retry".into(), json!({"max_attempts": max_attempts}));
    }
    model.extend(cell.setup.model.clone());
    model.into()
}

/// The limits that the cell's caller is under.
fn limits(cell: &Cell) -> impl Iterator<Item = Value> {
    cell.setup.limits.iter().map(|(name, limit)| {
        let mut limit = limit.clone();
        limit.insert("name".into(), cell.limit(name).into());
        limit.insert("scope".into(), json!({"key": cell.name}));
        limit.into()
    })
}

fn api_key(cell: &Cell) -> Value {
    let mut key = json!({
        "name": cell.name,
        "tenant": "default",
        "secret": {"value": cell.caller_key()},
    });
    if let Some(allowed) = &cell.setup.allowed {
        key["models"] = allowed.iter().map(|name| cell.model(name)).collect();
    }
    key
}
