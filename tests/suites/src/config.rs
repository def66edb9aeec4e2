//! Configurations as files have them. They are JSON, which YAML includes.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// The caller's key in [`base`].
pub const KEY: &str = "sk-caller-main";

/// Provider `p1` at `upstream` with one key, model `m1` on it, tenant `default`, and the caller's
/// key `main`, which is [`KEY`].
pub fn base(upstream: SocketAddr) -> Value {
    json!({
        "providers": [provider(upstream)],
        "models": [model("m1")],
        "tenants": [tenant("default")],
        "api_keys": [api_key("main", KEY)],
    })
}

/// Provider `p1`, whose upstream sees the path `/cell/p1/v1/...`.
pub fn provider(upstream: SocketAddr) -> Value {
    json!({
        "name": "p1",
        "dialect": "openai-chat",
        "base_url": format!("http://{upstream}/cell/p1/v1"),
        "keys": [{"name": "k1", "secret": {"value": "sk-upstream-k1"}}],
    })
}

/// A model on provider `p1`.
pub fn model(name: &str) -> Value {
    json!({"name": name, "targets": [{"provider": "p1", "model": "m1"}]})
}

pub fn tenant(name: &str) -> Value {
    json!({"name": name})
}

/// A key of tenant `default` for every model.
pub fn api_key(name: &str, key: &str) -> Value {
    json!({"name": name, "tenant": "default", "secret": {"value": key}})
}
