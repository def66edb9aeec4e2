//! The caller's request on its way up: two members change, every other byte stays.

use bytes::Bytes;

use super::{
    members,
    variant::{Cap, Variant},
};
use crate::{
    call::{Call, Endpoint, StreamOptions},
    dialect::{Destination, Sent, Unfit, UpstreamCall},
    splice::Splices,
};

pub(crate) fn translate(
    variant: &Variant,
    call: &Call,
    to: &Destination<'_>,
) -> Result<UpstreamCall, Unfit> {
    let upstream_model = to.model;
    let mut splices = Splices::default();
    let dropped = members::apply(variant, call, to.profile, &mut splices)?;
    if call.model != upstream_model {
        splices.replace(call.model_span.clone(), quoted(upstream_model));
    }
    let ask = call.stream
        && call.endpoint != Endpoint::Embeddings
        && !call.stream_options.wants_usage()
        && to.profile.ask_usage.unwrap_or(variant.ask_usage);
    if ask {
        ask_for_usage(call, &mut splices);
    }
    if let Some(cap) = call.send_cap {
        cap_output(variant, call, cap, upstream_model, &mut splices);
    }
    let hide_usage = !call.stream_options.wants_usage();
    Ok(UpstreamCall {
        sent: Sent { hide_usage },
        dropped,
        ..UpstreamCall::new(splices.apply(&call.body))
    })
}

/// Usage in streams comes only when it is asked for, and it must be metered.
fn ask_for_usage(call: &Call, splices: &mut Splices) {
    match &call.stream_options {
        StreamOptions::Absent => {
            let at = call.insert_at;
            splices.replace(at..at, r#""stream_options":{"include_usage":true},"#);
        }
        StreamOptions::Other(span) => splices.replace(span.clone(), r#"{"include_usage":true}"#),
        StreamOptions::Object { include_usage: Some((_, span)), .. } => {
            splices.replace(span.clone(), "true");
        }
        StreamOptions::Object { insert_at, empty, include_usage: None } => {
            let member =
                if *empty { r#""include_usage":true"# } else { r#""include_usage":true,"# };
            splices.replace(*insert_at..*insert_at, member);
        }
    }
}

/// Bounds the answer of a caller that has not.
fn cap_output(
    variant: &Variant,
    call: &Call,
    cap: u64,
    upstream_model: &str,
    splices: &mut Splices,
) {
    match call.endpoint {
        Endpoint::Embeddings => {}
        _ if !call.uncapped.is_empty() => {
            for span in &call.uncapped {
                splices.replace(span.clone(), cap.to_string());
            }
        }
        Endpoint::Chat | Endpoint::Completions => {
            let member = cap_member(variant, call.endpoint, upstream_model);
            splices.replace(call.insert_at..call.insert_at, format!("\"{member}\":{cap},"));
        }
    }
}

/// OpenAI's reasoning models refuse `max_tokens`; most other servers know nothing else.
fn cap_member(variant: &Variant, endpoint: Endpoint, upstream_model: &str) -> &'static str {
    match variant.cap {
        Cap::ByModel(names)
            if endpoint == Endpoint::Chat
                && names.iter().any(|name| upstream_model.starts_with(name)) =>
        {
            "max_completion_tokens"
        }
        Cap::ByModel(_) | Cap::MaxTokens => "max_tokens",
    }
}

fn quoted(text: &str) -> Bytes {
    serde_json::to_vec(text).map(Bytes::from).unwrap_or_else(|_| Bytes::from_static(b"\"\""))
}

#[cfg(test)]
mod tests {
    use sluicegate_model::Profile;

    use super::*;

    fn sent(call: &Call, model: &str) -> Bytes {
        let to = Destination { model, profile: &Default::default() };
        translate(super::super::variant::ALL[0], call, &to).unwrap().body
    }

    #[test]
    fn only_model_and_usage_change() {
        check(r#"{"model":"m","a":1.0}"#, "m", r#"{"model":"m","a":1.0}"#);
        check(r#"{"a":0, "model" : "m"}"#, "u\"p", r#"{"a":0, "model" : "u\"p"}"#);
        check(
            r#"{"model":"m","stream":true}"#,
            "m",
            r#"{"stream_options":{"include_usage":true},"model":"m","stream":true}"#,
        );
        check(
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#,
            "m",
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#,
        );
        check(
            r#"{"model":"m","stream":true,"stream_options":{"include_usage": false,"x":1}}"#,
            "n",
            r#"{"model":"n","stream":true,"stream_options":{"include_usage": true,"x":1}}"#,
        );
        check(
            r#"{"model":"m","stream":true,"stream_options":{"x":1}}"#,
            "m",
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1}}"#,
        );
        check(
            r#"{"model":"m","stream":true,"stream_options":{ }}"#,
            "m",
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true }}"#,
        );
        check(
            r#"{"model":"m","stream":true,"stream_options":null}"#,
            "m",
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#,
        );

        let spared = |body: &'static str| {
            let call = Call::parse(Endpoint::Chat, Bytes::from_static(body.as_bytes())).unwrap();
            let profile = Profile { ask_usage: Some(false), ..Profile::default() };
            let to = Destination { model: "m", profile: &profile };
            translate(super::super::variant::ALL[0], &call, &to).unwrap()
        };
        let plain = r#"{"model":"m","stream":true}"#;
        assert_eq!(spared(plain).body, plain);
        let asked = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#;
        assert_eq!(spared(asked).body, plain, "a caller's wish is kept from it, too");
        assert_eq!((spared(asked).sent.hide_usage, spared(asked).dropped.len()), (false, 1));

        let capped = |body: &'static str, model: &str| {
            let mut call =
                Call::parse(Endpoint::Chat, Bytes::from_static(body.as_bytes())).unwrap();
            call.send_cap = Some(64);
            sent(&call, model)
        };
        assert_eq!(capped(r#"{"model":"m"}"#, "m"), r#"{"max_tokens":64,"model":"m"}"#);
        assert_eq!(
            capped(r#"{"model":"o3"}"#, "o3"),
            r#"{"max_completion_tokens":64,"model":"o3"}"#
        );
        assert_eq!(
            capped(r#"{"model":"m","max_tokens":-1}"#, "m"),
            r#"{"model":"m","max_tokens":64}"#
        );

        #[track_caller]
        fn check(body: &str, model: &str, expected: &str) {
            let call =
                Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap();
            assert_eq!(sent(&call, model), expected);
        }
    }
}
