//! A running gateway in front of the servers of a scenario.

use serde_json::{Value, json};
use sluicegate_testkit::cluster::Standalone;
use tempfile::TempDir;

use crate::load::{Callers, KEY};

/// The gateway, its configuration and its callers.
pub(crate) struct World {
    pub(crate) callers: Callers,
    _gateway: Standalone,
    _folder: TempDir,
}

impl World {
    /// Starts a gateway. Providers are given as name, address and further members.
    pub(crate) async fn start(
        providers: &[(&str, std::net::SocketAddr, Value)],
        models: Value,
    ) -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("sluicegate-immune-")?;
        let providers: Vec<_> = providers
            .iter()
            .map(|(name, address, more)| {
                let mut provider = json!({
                    "name": name, "dialect": "openai-chat", "variant": "openai", "keyless": true,
                    "base_url": format!("http://{address}/v1"),
                });
                if let (Some(own), Some(more)) = (provider.as_object_mut(), more.as_object()) {
                    own.extend(more.clone());
                }
                provider
            })
            .collect();
        let config = json!({
            "providers": providers,
            "models": models,
            "api_keys": [{ "name": "caller", "secret": { "value": KEY } }],
        });
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.to_string())?;
        let flags = ["--access-log", "none", "--log", "error"];
        let gateway = Standalone::start(&file, &flags, folder.path()).await?;
        Ok(Self { callers: Callers::of(gateway.traffic()), _gateway: gateway, _folder: folder })
    }
}

/// A model with one target.
pub(crate) fn model(name: &str, provider: &str, more: Value) -> Value {
    let mut model = json!({ "name": name, "targets": [{ "provider": provider, "model": "m" }] });
    if let (Some(own), Some(more)) = (model.as_object_mut(), more.as_object()) {
        own.extend(more.clone());
    }
    model
}
