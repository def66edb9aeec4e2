//! What a provider's resource says of breakers, in the breaker's terms.

use std::{sync::Arc, time::Duration};

use sluicegate_model::resource;

use super::{Count, Ramp, Rate, Rules, Settings, SettingsError, SlowAfter, Stalls};

impl Rules {
    /// The rules of a provider's targets, the same on both planes.
    ///
    /// # Errors
    /// The numbers make no breaker.
    pub fn of(spec: &resource::Breaker) -> Result<Arc<Self>, SettingsError> {
        let usual = Settings::default();
        let rates = spec.failure_rates.iter().map(|rate| Rate {
            window_ms: ms(rate.window),
            ratio: rate.ratio,
            min_requests: rate.min_requests,
        });
        let settings = Settings {
            off: spec.off,
            failures_in_a_row: spec.consecutive_failures,
            failure_rates: rates.collect(),
            slow_after: SlowAfter {
                base_ms: ms(spec.slow.first_event),
                per_1k_prompt_tokens_ms: ms(spec.slow.per_1k_tokens),
            },
            slow_rate: usual.slow_rate.map(|rate| Rate { ratio: spec.slow.ratio, ..rate }),
            slow_in_a_row: Count { window_ms: ms(spec.slow.window), count: spec.slow.consecutive },
            stalls: usual
                .stalls
                .filter(|_| spec.stalls > 0)
                .map(|stalls| Stalls { count: spec.stalls, ..stalls }),
            memory_errors: Count { count: spec.memory_errors, ..usual.memory_errors },
            open_ms: ms(spec.open),
            max_open_ms: ms(spec.max_open),
            ramp: Ramp { step_ms: ms(spec.ramp_step), ..usual.ramp },
            ..usual
        };
        settings.checked().map(Arc::new)
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use sluicegate_model::{
        Resource,
        document::{Document, References},
    };

    use super::*;

    /// The resource's defaults and the breaker's are one.
    #[test]
    fn b1_a_provider_that_says_nothing_has_the_usual_rules() {
        let file = r#"providers: [{ name: p, dialect: openai-chat, base_url: "http://h/v1", keyless: true }]"#;
        let document = Document::parse("test", file, References::Open).unwrap();
        let Resource::Provider(provider) =
            Resource::parse(&document.resources[0].resource).unwrap()
        else {
            panic!("a provider")
        };
        assert_eq!(**Rules::of(&provider.breaker).unwrap(), Settings::default());
    }
}
