//! What the upstream saw.

use serde_json::Value;
use sluicegate_testkit::net::contains;
use sluicegate_testkit::upstream::Call;

use crate::expect::UpstreamExpect;
use crate::findings::{Findings, short};
use crate::play::Played;
use crate::script::key_of;

pub(super) fn judge(
    expect: &UpstreamExpect,
    success: bool,
    played: &Played,
    findings: &mut Findings,
) {
    let calls = &played.calls;
    let ordered = expect.keys.is_some() || expect.providers.is_some();
    if let Some((fewest, most)) = expect.calls.or((success && !ordered).then_some((1, 1))) {
        findings.check((fewest..=most).contains(&calls.len()), || {
            format!("{} upstream calls, expected {fewest} to {most}", calls.len())
        });
    }
    if let Some(keys) = &expect.keys {
        findings.equal("keys called", calls.iter().map(key_of).collect(), borrowed(keys));
    }
    if let Some(providers) = &expect.providers {
        let called = calls.iter().map(Call::provider).collect();
        findings.equal("providers called", called, borrowed(providers));
    }
    if let Some(target) = &expect.target {
        let called = calls.last().map(Call::provider_target);
        findings.equal("target called", called.as_ref(), Some(target));
    }
    for call in calls {
        for (name, expected) in &expect.headers {
            header(call, name, expected.as_deref(), findings);
        }
        for text in &expect.has {
            let found = contains(&call.body, text.as_bytes());
            findings.check(found, || format!("the upstream body lacks {text:?}"));
        }
        if expect.same_json {
            let (got, asked) = (rewritable(&call.body), rewritable(&played.asked));
            let finding =
                || format!("the upstream got {}, asked was {}", short(&got), short(&asked));
            findings.check(got.is_some() && got == asked, finding);
        }
    }
}

fn header(call: &Call, name: &str, expected: Option<&str>, findings: &mut Findings) {
    let found = call.header(name);
    let holds = match (found, expected) {
        (Some(found), Some(expected)) => found.contains(expected),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    let finding = || format!("the upstream saw {name}: {found:?}, expected {expected:?}");
    findings.check(holds, finding);
}

/// The JSON as text, so that the order of keys counts, without what the gateway may rewrite.
fn rewritable(body: &[u8]) -> Option<String> {
    let mut json: Value = serde_json::from_slice(body).ok()?;
    json.as_object_mut()?.retain(|name, _| name != "model" && name != "stream_options");
    Some(json.to_string())
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}
