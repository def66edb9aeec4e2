use bytes::Bytes;
use serde_json::{Value, json};

use super::of;
use crate::{
    call::{Call, Endpoint},
    chat::Chat,
    dialect::Unfit,
};

fn translated(messages: &Value) -> Result<(Option<String>, Value), Unfit> {
    let body = json!({ "model": "m", "messages": messages }).to_string();
    let call = Call::parse(Endpoint::Chat, Bytes::from(body)).unwrap();
    let chat = Chat::read(&call)?;
    let (system, turns) = of(&chat.messages)?;
    Ok((system, serde_json::to_value(turns).unwrap()))
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

fn calls(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({ "id": id, "type": "function", "function": { "name": format!("f{id}"), "arguments": "{}" } });
    json!({ "role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>() })
}

fn result(id: &str, text: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": text })
}

fn asked(id: &str) -> Value {
    let call = json!({ "name": format!("f{id}"), "arguments": "{}" });
    json!({ "role": "assistant", "content": "/", "function_call": call })
}

fn returned(id: &str, text: &str) -> Value {
    json!({ "role": "function", "name": format!("f{id}"), "content": text })
}

#[test]
fn sides_take_turns() {
    check(json!([user("A")]), json!([user("A")]));
    check(json!([user("A"), user("B")]), json!([user("A\nB")]));
    check(
        json!([user("A"), assistant("B"), user("C")]),
        json!([user("A"), assistant("B"), user("C")]),
    );
    let merged = json!([user("A"), assistant("B\nC"), user("D")]);
    check(json!([user("A"), assistant("B"), assistant("C"), user("D")]), merged);
    check(json!([assistant("A"), user("B")]), json!([user("/"), assistant("A"), user("B")]));
    check(
        json!([user("A"), assistant(""), user("B")]),
        json!([user("A"), assistant("/"), user("B")]),
    );

    #[track_caller]
    fn check(messages: Value, turns: Value) {
        assert_eq!(translated(&messages), Ok((None, turns)));
    }
}

#[test]
fn what_developers_say_stands_apart() {
    let system = |role: &str, text: &str| json!({ "role": role, "content": text });
    let messages = json!([system("system", "A"), user("B"), system("developer", "C")]);
    assert_eq!(translated(&messages), Ok((Some("A\nC".to_owned()), json!([user("B")]))));
}

#[test]
fn calls_side_by_side_are_told_one_after_the_other() {
    let two = json!([
        user("A"),
        calls(&["1", "2"]),
        result("2", "{\"b\":2}"),
        result("1", "[1]"),
        user("B")
    ]);
    let turns = json!([
        user("A"),
        asked("1"),
        returned("1", "[1]"),
        asked("2"),
        returned("2", "{\"b\":2}"),
        assistant("/"),
        user("B"),
    ]);
    assert_eq!(translated(&two), Ok((None, turns)));
}

#[test]
fn what_a_function_returned_is_json() {
    let messages = json!([user("A"), calls(&["1"]), result("1", "ten \"o'clock\"")]);
    let turns = json!([user("A"), asked("1"), returned("1", r#"{"result":"ten \"o'clock\""}"#)]);
    assert_eq!(translated(&messages), Ok((None, turns)));
}

#[test]
fn what_has_no_place_is_refused_with_its_place() {
    check(json!([user("A"), assistant("B")]), "messages[1]");
    check(json!([user("A"), user(" ")]), "messages[1].content");
    check(json!([user("A"), calls(&["1", "2"]), result("1", "1")]), "messages[1].tool_calls[1]");
    check(
        json!([user("A"), calls(&["1"]), result("1", "1"), result("1", "2")]),
        "messages[3].tool_call_id",
    );
    check(json!([user("A"), result("1", "1")]), "messages[1].tool_call_id");
    check(json!([{ "role": "system", "content": "A" }]), "messages");
    let image = json!({ "type": "image_url", "image_url": { "url": "https://img.example/a.png" } });
    let seen = json!({ "role": "user", "content": [{ "type": "text", "text": "A" }, image] });
    check(json!([seen]), "messages[0].content[1]");

    #[track_caller]
    fn check(messages: Value, param: &str) {
        assert_eq!(translated(&messages).unwrap_err().param, param);
    }
}
