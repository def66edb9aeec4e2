//! Checks that a few cases need and that no table can say.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate_testkit::client::Reply;
use sluicegate_testkit::net::contains;

use crate::findings::{Findings, short};
use crate::generate;
use crate::play::{Played, Run};
use crate::world::World;

/// Looks at all runs of a case.
pub(crate) type Check = fn(&Arc<World>, &[Run<'_>], &mut Findings);

/// The check of that name.
pub(crate) fn find(name: &str) -> Option<Check> {
    let check: Check = match name {
        "large_tool_call_is_intact" => large_tool_call_is_intact,
        "variants_give_equal_events" => variants_give_equal_events,
        "filter_chunk_is_unchanged" => filter_chunk_is_unchanged,
        "tool_deltas_are_unchanged_or_indexed" => tool_deltas_are_unchanged_or_indexed,
        "tool_calls_can_be_assembled" => tool_calls_can_be_assembled,
        "tool_arguments_are_kept" => tool_arguments_are_kept,
        "upstream_bodies_are_identical" => upstream_bodies_are_identical,
        "image_arrives_whole" => image_arrives_whole,
        "one_upstream_connection" => one_upstream_connection,
        "lost_call_was_on_a_kept_connection" => lost_call_was_on_a_kept_connection,
        "usage_is_shown_once" => usage_is_shown_once,
        "variants_are_charged_alike" => variants_are_charged_alike,
        "log_is_utf8" => log_is_utf8,
        "secret_is_not_logged" => secret_is_not_logged,
        "refused_keys_are_reported" => refused_keys_are_reported,
        _ => return None,
    };
    Some(check)
}

fn large_tool_call_is_intact(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    for played in each(runs) {
        let arguments: String = tool_deltas(&played.reply)
            .iter()
            .filter_map(|delta| Some(delta.pointer("/function/arguments")?.as_str()?.to_owned()))
            .collect();
        findings.check(arguments == generate::tool_arguments(), || {
            format!("the arguments came as {}", short(&arguments))
        });
    }
}

fn variants_give_equal_events(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    let events = |run: &Run<'_>| -> Vec<Value> {
        let payloads = run.played.iter().flat_map(|played| played.reply.payloads());
        payloads.map(without_names).collect()
    };
    for pair in runs.windows(2) {
        if let [one, other] = pair {
            findings.equal("events of the variant", events(other), events(one));
        }
    }
}

/// The chunk without choices may be left out, but not altered.
fn filter_chunk_is_unchanged(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    let filter = json!([{"prompt_index": 0, "content_filter_results": {}}]);
    for payload in each(runs).flat_map(|played| played.reply.payloads()) {
        if payload.get("prompt_filter_results").is_some() {
            let (choices, results) = (&payload["choices"], &payload["prompt_filter_results"]);
            findings.equal("the filter chunk", (choices, results), (&json!([]), &filter));
        }
    }
}

/// Deltas without an index go through as they are, or with the index they must have.
fn tool_deltas_are_unchanged_or_indexed(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    let sent = json!([
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":"}},
        {"function": {"arguments": "1}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{\"y\":2}"}},
    ]);
    for played in each(runs) {
        let mut deltas = tool_deltas(&played.reply);
        let index = |delta: &mut Value| delta.as_object_mut()?.shift_remove("index");
        let indices: Vec<_> = deltas.iter_mut().map(index).collect();
        let expected = [Some(json!(0)), Some(json!(0)), Some(json!(1))];
        findings.check(indices == expected || indices.iter().all(Option::is_none), || {
            format!("the indices came as {indices:?}")
        });
        findings.equal("tool deltas", Value::from(deltas), sent.clone());
    }
}

/// The calls an SDK would put together from the deltas, by index.
fn tool_calls_can_be_assembled(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    for played in each(runs) {
        let deltas = tool_deltas(&played.reply);
        let order: Vec<_> = deltas.iter().map(|delta| delta["index"].as_u64()).collect();
        findings.equal("order of the deltas", order, [0, 1, 0, 1].map(Some).to_vec());
        let expected = [("a", "f", "{\"x\":1}"), ("b", "g", "{\"y\":2}")];
        for (index, (id, name, arguments)) in (0_u64..).zip(expected) {
            let mine = || deltas.iter().filter(|delta| delta["index"] == index);
            let joined = |pointer| -> String {
                mine().filter_map(|delta| delta.pointer(pointer)?.as_str()).collect()
            };
            let call = (joined("/id"), joined("/function/name"), joined("/function/arguments"));
            let expected = (id.to_owned(), name.to_owned(), arguments.to_owned());
            findings.equal(&format!("call {index}"), call, expected);
        }
    }
}

/// An object where a string belongs goes through as it is, or as the string.
fn tool_arguments_are_kept(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    for played in each(runs) {
        let deltas = tool_deltas(&played.reply);
        let arguments = deltas.first().and_then(|delta| delta.pointer("/function/arguments"));
        let object = match arguments {
            Some(Value::String(text)) => serde_json::from_str(text).ok(),
            other => other.cloned(),
        };
        findings.equal("arguments", object, Some(json!({"x": 1})));
    }
}

fn upstream_bodies_are_identical(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    let mut bodies: Vec<_> = each(runs).flat_map(|p| &p.calls).map(|call| &call.body).collect();
    bodies.sort();
    bodies.dedup();
    findings.equal("number of distinct upstream bodies", bodies.len(), 1);
}

fn image_arrives_whole(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    for played in each(runs) {
        let quoted = |body: &[u8]| -> Option<Vec<u8>> {
            let json: Value = serde_json::from_slice(body).ok()?;
            let url = json.pointer("/messages/0/content/1/image_url/url")?.as_str()?;
            Some(url.as_bytes().to_vec())
        };
        for call in &played.calls {
            let same = quoted(&call.body) == quoted(&played.asked);
            findings.check(same, || "the data URL was altered".into());
        }
    }
}

fn one_upstream_connection(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    for run in runs {
        let calls = run.played.iter().flat_map(|played| &played.calls);
        let connections: HashSet<_> = calls.map(|call| call.connection).collect();
        findings.equal("number of upstream connections", connections.len(), 1);
    }
}

/// The first exchange leaves a connection behind, on which the first call of the second one comes;
/// its further calls come on new ones.
fn lost_call_was_on_a_kept_connection(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    for run in runs {
        let of = |played: &Played| played.calls.iter().map(|call| call.connection).collect();
        let [first, second]: [Vec<_>; 2] = match run.played.as_slice() {
            [first, second, ..] => [of(first), of(second)],
            _ => continue,
        };
        let variant = &run.cell.variant;
        findings.equal(&format!("{variant}: connection kept"), second.first(), first.last());
        let anew = second.iter().skip(1).all(|connection| !first.contains(connection));
        findings.check(anew, || format!("{variant}: sent again on the old connection"));
    }
}

fn usage_is_shown_once(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    for played in each(runs) {
        let shown = played.reply.payloads().filter(|payload| payload["usage"].is_object()).count();
        findings.equal("events with usage", shown, 1);
    }
}

fn variants_are_charged_alike(_: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    let charged = |played: &Played| {
        let usage = played.record.as_ref()?.usage?;
        Some((usage.input_tokens, usage.output_tokens))
    };
    let mut all: Vec<_> = each(runs).map(charged).collect();
    all.dedup();
    findings.check(all.len() == 1, || format!("variants are charged {all:?}"));
}

fn log_is_utf8(world: &Arc<World>, _: &[Run<'_>], findings: &mut Findings) {
    for lines in [world.gateway.stdout(), world.gateway.stderr()] {
        findings.check(!lines.has_invalid_utf8(), || "the log is not UTF-8".into());
    }
}

fn secret_is_not_logged(world: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    let secrets: Vec<_> = runs.iter().map(|run| run.cell.secret("p1", "k1")).collect();
    for line in [world.gateway.stdout(), world.gateway.stderr()].iter().flat_map(|l| l.all()) {
        let leaks = secrets.iter().any(|secret| contains(line.as_bytes(), secret.as_bytes()));
        findings.check(!leaks, || "a line of the log has the upstream secret".into());
    }
}

/// Operators are told which key it is, and why.
fn refused_keys_are_reported(world: &Arc<World>, runs: &[Run<'_>], findings: &mut Findings) {
    let lines = world.gateway.stderr().all();
    for run in runs.iter().filter(|run| run.cell.variant == "refused-key") {
        let key = format!("{}-p1/k1", run.cell.name);
        let told = lines.iter().any(|line| {
            ["WARN", &key, "refused", "Incorrect API key"].iter().all(|part| line.contains(part))
        });
        findings.check(told, || format!("no warning tells that {key} is refused"));
    }
}

fn each<'a>(runs: &'a [Run<'_>]) -> impl Iterator<Item = &'a Played> {
    runs.iter().flat_map(|run| &run.played)
}

/// Every entry of `tool_calls` in every delta, in order.
fn tool_deltas(reply: &Reply) -> Vec<Value> {
    let calls = |delta: Value| Some(delta.get("tool_calls")?.as_array()?.clone());
    reply.deltas().into_iter().filter_map(calls).flatten().collect()
}

/// Without the members that differ from one reply to the next.
fn without_names(mut payload: Value) -> Value {
    if let Some(object) = payload.as_object_mut() {
        object.retain(|name, _| !["id", "created", "model"].contains(&name.as_str()));
    }
    payload
}
