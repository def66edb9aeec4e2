//! The reply, as the client saw it.

use serde_json::Value;
use sluicegate_testkit::client::Reply;

use crate::expect::{ErrorExpect, Expect, UsageExpect};
use crate::findings::{Findings, short};
use crate::script::Script;
use crate::table::Cell;

pub(super) fn judge(
    cell: &Cell,
    expect: &Expect,
    script: &Script,
    reply: &Reply,
    findings: &mut Findings,
) {
    if expect.left {
        return;
    }
    if !arrived(reply, findings) {
        return;
    }
    if let Some(text) = &expect.stream {
        stream(expect, text, reply, findings);
    }
    if let Some(text) = &expect.answer {
        json(expect, reply, findings);
        findings.equal("text", reply.content().as_ref(), Some(text));
    }
    if expect.json {
        json(expect, reply, findings);
    }
    if expect.empty {
        findings.equal("status", reply.status, Some(200));
        findings.equal("body", reply.text(), String::new());
    }
    if let Some(error) = &expect.error {
        error_object(error, reply, findings);
    }
    if let Some(status) =
        reply.status.filter(|status| *status != 200 && expect.statuses.contains_key(status))
    {
        let error = ErrorExpect { status: vec![status], ..ErrorExpect::default() };
        error_object(&error, reply, findings);
    }
    if let Some(text) = &expect.broken_stream {
        broken_stream(expect, text, reply, findings);
    }
    details(cell, expect, script, reply, findings);
}

/// Whether there is a reply to judge.
fn arrived(reply: &Reply, findings: &mut Findings) -> bool {
    findings.check(!reply.timed_out, || "the reply did not end".into());
    for problem in &reply.problems {
        findings.add(problem);
    }
    // Nobody asks for one in the table.
    findings.equal("informational statuses", reply.informational.as_slice(), &[]);
    findings.check(reply.status.is_some(), || format!("no reply, end: {:?}", reply.peer_end))
}

/// A stream that went well.
fn stream(expect: &Expect, text: &str, reply: &Reply, findings: &mut Findings) {
    if !event_stream(expect, reply, findings) {
        return;
    }
    findings.equal("text", reply.content().as_deref(), Some(text));
    findings.check(reply.errors().is_empty(), || format!("error event {}", short(&reply.errors())));
    finish(expect, Some("stop"), reply, findings);
    findings.equal("number of end markers", reply.dones(), 1);
    let last = reply.data().last().map(|(_, data)| data.trim());
    findings.equal("last event", last, Some("[DONE]"));
    if let Some(usage) = reply.usage() {
        let expected = match expect.record.usage {
            Some(UsageExpect::Is(input, output)) => (input, output),
            _ => (7, 2),
        };
        findings.equal("usage shown to the client", usage, expected);
    }
}

/// The finish reason, which is `usual` unless others are allowed.
fn finish(expect: &Expect, usual: Option<&str>, reply: &Reply, findings: &mut Findings) {
    let finish = reply.finish();
    match &expect.finish {
        None => drop(findings.equal("finish reason", finish.as_deref(), usual)),
        Some(allowed) => {
            let finding = || format!("finish reason is {finish:?}, expected one of {allowed:?}");
            findings.check(allowed.contains(&finish), finding);
        }
    }
}

/// A stream whose upstream failed after text had gone out.
fn broken_stream(expect: &Expect, text: &str, reply: &Reply, findings: &mut Findings) {
    if !event_stream(expect, reply, findings) {
        return;
    }
    findings.equal("text", reply.content().as_deref(), Some(text));
    let told = |error: &Value| error.pointer("/error/message").is_some_and(|m| *m != "");
    findings.check(reply.errors().iter().any(told), || "no error event with a message".into());
    finish(expect, None, reply, findings);
    findings.equal("number of end markers", reply.dones(), 0);
    let after_error = reply.data().skip_while(|(_, data)| !data.contains("\"error\"")).skip(1);
    let after_error: Vec<_> = after_error.collect();
    findings.check(after_error.is_empty(), || "events after the error".into());
}

/// What holds for every event stream of ours.
fn event_stream(expect: &Expect, reply: &Reply, findings: &mut Findings) -> bool {
    let Some(sse) = reply.sse.as_ref().filter(|_| reply.status == Some(200)) else {
        let body = short(&reply.text());
        findings.add(format!("no event stream but status {:?}: {body}", reply.status));
        return false;
    };
    let end = reply.peer_end;
    findings.check(reply.complete_at.is_some(), || format!("the body was cut: {end:?}"));
    findings.check(!sse.invalid_utf8, || "the stream is not UTF-8".into());
    findings.equal("bytes after the last event", sse.unfinished(), None);
    for payload in reply.payloads() {
        findings.check(expect.odd_json || payload.is_object(), || {
            format!("no JSON object: {}", short(&payload))
        });
    }
    for line in sse.events.iter().flat_map(|event| &event.lines) {
        let spaced = !line.starts_with(b"data:") || line.starts_with(b"data: ");
        findings.check(spaced, || format!("no space after data: in {}", short(line)));
    }
    true
}

/// JSON that went well.
fn json(expect: &Expect, reply: &Reply, findings: &mut Findings) {
    let body = || short(&reply.text());
    findings
        .check(reply.status == Some(200), || format!("status is {:?}: {}", reply.status, body()));
    findings.check(reply.complete_at.is_some(), || "the body was cut".into());
    let kind = reply.header("content-type");
    findings.check(reply.is_json(), || format!("the content type is {kind:?}"));
    findings.check(expect.odd_json || reply.json().is_ok(), || format!("no JSON: {}", body()));
}

/// An error in OpenAI's form.
fn error_object(expect: &ErrorExpect, reply: &Reply, findings: &mut Findings) {
    let (status, body) = (reply.status.unwrap_or_default(), reply.text());
    findings.check(expect.status.contains(&status), || {
        format!("status {status}, expected {:?}: {}", expect.status, short(&body))
    });
    findings.check(reply.complete_at.is_some(), || "the body was cut".into());
    let kind = reply.header("content-type");
    findings.check(reply.is_json(), || format!("the content type is {kind:?}"));
    let object = reply.json().unwrap_or_default();
    let member = |name: &str| object.pointer(name).and_then(Value::as_str);
    let Some(message) = member("/error/message").filter(|message| !message.is_empty()) else {
        findings.add(format!("no error object with a message: {}", short(&body)));
        return;
    };
    if let Some(part) = &expect.message {
        findings.check(message.contains(part), || format!("message {message:?} lacks {part:?}"));
    }
    if let Some(param) = &expect.param {
        findings.equal("param of the error", member("/error/param"), Some(param));
    }
    if let Some(kind) = &expect.kind {
        findings.equal("type of the error", member("/error/type"), Some(kind));
    }
    if let (Some(most), 429 | 503) = (expect.retry_after_at_most, status) {
        let seconds = reply.header("retry-after").and_then(|value| value.parse::<u64>().ok());
        let good = seconds.is_some_and(|seconds| (1..=most).contains(&seconds));
        findings.check(good, || format!("retry-after is {:?}", reply.header("retry-after")));
    }
}

fn details(cell: &Cell, expect: &Expect, script: &Script, reply: &Reply, findings: &mut Findings) {
    for (name, expected) in &expect.headers {
        findings.equal(&format!("header {name}"), reply.header(name), expected.as_deref());
    }
    let head = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let whole = head.collect::<String>() + &reply.text();
    for text in &expect.lacks {
        findings.check(!whole.contains(text), || format!("the reply has {text:?}"));
    }
    for text in &expect.has {
        findings.check(whole.contains(text), || format!("the reply lacks {text:?}"));
    }
    let json = reply.json().unwrap_or_default();
    for (pointer, expected) in &expect.members {
        findings.equal(&format!("member {pointer}"), json.pointer(pointer), Some(expected));
    }
    if let Some(models) = &expect.listed {
        let expected: Vec<_> = models.iter().map(|name| cell.model(name)).collect();
        findings.equal("model list", model_ids(&json), expected);
    }
    for (field, texts) in &expect.deltas {
        findings.equal(&format!("deltas of {field}"), &reply.delta_texts(field), texts);
    }
    if expect.same_json {
        let sent = serde_json::from_str(&script.sent().unwrap_or_default()).unwrap_or_default();
        findings.equal("JSON", anonymous(json), anonymous(sent));
    }
}

fn model_ids(list: &Value) -> Vec<String> {
    let entries = list.get("data").and_then(Value::as_array);
    let id = |entry: &Value| Some(entry.get("id")?.as_str()?.to_owned());
    entries.into_iter().flatten().filter_map(id).collect()
}

/// Without the two members that the gateway may set as it likes.
fn anonymous(mut json: Value) -> Value {
    if let Some(object) = json.as_object_mut() {
        object.retain(|name, _| name != "id" && name != "model");
    }
    json
}
