//! Metric registry and the names that both planes share.
//!
//! Labels are closed sets by construction: enums, or names that come from the policy. A string
//! from a request never becomes a label.

use prometheus_client::{encoding::text::encode, registry::Registry};

/// Content type of the exposition that [`render`] makes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Histogram bounds in seconds for anything from a cache hit to a long answer.
pub const LATENCY_BUCKETS_S: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// A registry whose metrics all carry the product's prefix.
pub fn registry() -> Registry {
    Registry::with_prefix("sluicegate")
}

/// The registry in OpenMetrics text form. Writing into a string cannot fail; should an encoder
/// refuse a value nevertheless, the text up to there is returned.
pub fn render(registry: &Registry) -> String {
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        tracing::warn!("a metric refused to encode; the exposition is cut short");
    }
    text
}
