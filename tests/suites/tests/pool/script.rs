//! What the upstream does with each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sluicegate_testkit::upstream::{Call, Step};

/// How a key is treated: with one model, or with all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script(Arc<Mutex<HashMap<(String, String), Treatment>>>);

/// What a call with a key gets.
#[derive(Debug, Clone)]
pub(crate) struct Treatment {
    status: u16,
    headers: Vec<(String, String)>,
    body: Value,
    slow_ms: u64,
    /// How many calls get it; then all is well.
    left: Option<usize>,
}

impl Treatment {
    /// A failure with OpenAI's code and words.
    pub(crate) fn failure(status: u16, code: &str) -> Self {
        let body =
            json!({"error": {"message": format!("{code} it is"), "type": code, "code": code}});
        Self { status, headers: Vec::new(), body, slow_ms: 0, left: None }
    }

    /// Too many requests.
    pub(crate) fn limited() -> Self {
        Self::failure(429, "rate_limit_exceeded")
    }

    pub(crate) fn retry_after(mut self, value: impl Into<String>) -> Self {
        self.headers.push(("retry-after".into(), value.into()));
        self
    }

    pub(crate) fn slow_ms(mut self, ms: u64) -> Self {
        self.slow_ms = ms;
        self
    }

    pub(crate) fn times(mut self, n: usize) -> Self {
        self.left = Some(n);
        self
    }

    fn steps(&self) -> Vec<Step> {
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        headers.extend(self.headers.clone());
        vec![
            Step::sleep_ms(self.slow_ms),
            Step::Head(self.status, headers),
            Step::send(self.body.to_string()),
            Step::End,
        ]
    }
}

impl Script {
    /// From now on a key is treated so, whatever the model.
    pub(crate) fn set(&self, key: &str, treatment: Treatment) {
        self.set_with(key, "", treatment);
    }

    /// The same with one model.
    pub(crate) fn set_with(&self, key: &str, model: &str, treatment: Treatment) {
        self.0.lock().unwrap().insert((key.to_owned(), model.to_owned()), treatment);
    }

    /// From now on all is well with a key.
    pub(crate) fn mend(&self, key: &str) {
        self.0.lock().unwrap().retain(|(name, _), _| name != key);
    }

    pub(crate) fn answer(&self, call: &Call) -> Vec<Step> {
        let mut treatments = self.0.lock().unwrap();
        for model in [model_of(call), String::new()] {
            let Some(treatment) = treatments.get_mut(&(key_of(call), model)) else { continue };
            match &mut treatment.left {
                Some(0) => continue,
                Some(left) => *left -= 1,
                None => {}
            }
            return treatment.steps();
        }
        Step::completion("ok")
    }
}

/// The last part of the key that a call was sent with.
pub(crate) fn key_of(call: &Call) -> String {
    call.bearer().and_then(|secret| secret.rsplit('-').next()).unwrap_or_default().to_owned()
}

pub(crate) fn model_of(call: &Call) -> String {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    body["model"].as_str().unwrap_or_default().to_owned()
}
