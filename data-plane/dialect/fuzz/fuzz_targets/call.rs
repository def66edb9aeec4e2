//! A caller's body, and what every dialect makes of it.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use sluicegate_dialect::{Call, Destination, Endpoint, Place, Profile};
use sluicegate_dialect_fuzz::dialects;

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    for endpoint in Endpoint::ALL {
        let Ok(mut call) = Call::parse(endpoint, bytes.clone()) else { continue };
        for member in &call.members {
            assert!(bytes.get(member.name.clone()).is_some_and(|name| name.starts_with(b"\"")));
            assert!(bytes.get(member.value.clone()).is_some_and(|value| !value.is_empty()));
        }
        call.prompt.size(&bytes);
        call.prompt.sample(&bytes);
        for cap in [None, Some(7)] {
            call.send_cap = cap;
            translate(&call);
        }
    }
});

fn translate(call: &Call) {
    for dialect in dialects() {
        let Some(place) = dialect.place(call.endpoint) else { continue };
        for model in [call.model.as_str(), "qwen3-vl-plus", "claude-opus-4", "gemini-3-pro"] {
            let to = Destination { model, profile: &Profile::default() };
            let Ok(sent) = dialect.request(call, &to) else { continue };
            let body = serde_json::from_slice::<&RawValue>(&sent.body);
            assert!(body.is_ok(), "{}: {:?}", dialect.name(), sent.body);
            assert_eq!(sent.path.is_some(), place == Place::PerCall, "{}", dialect.name());
        }
    }
}
