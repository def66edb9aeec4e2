use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn parsed(body: &str) -> Call {
    Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

/// The body without tools whose names begin with one of these, and which those were.
fn named(body: &str, beginnings: &[&str]) -> (String, Vec<String>) {
    let is_meant = |name: &str| beginnings.iter().any(|beginning| name.starts_with(beginning));
    shown(body, Which::Named(&is_meant))
}

fn shown(body: &str, which: Which<'_>) -> (String, Vec<String>) {
    match strip(&parsed(body), which).unwrap() {
        None => (body.to_owned(), Vec::new()),
        Some(Stripped { call, removed }) => {
            (String::from_utf8(call.body.to_vec()).unwrap(), removed)
        }
    }
}

#[test]
fn b4_named_tools_go_and_every_other_byte_stays() {
    check(
        r#"{ "model":"m", "tools":[ {"type":"function","function":{"name":"shell"}} , {"type":"function","function":{"name":"calc","x":1.0}} ], "y":1e2 }"#,
        r#"{ "model":"m", "tools":[ {"type":"function","function":{"name":"calc","x":1.0}} ], "y":1e2 }"#,
        &["shell"],
    );
    check(
        r#"{"tools":[{"function":{"name":"calc"}},{"function":{"name":"sh\u0065ll"}}],"tool_choice":"required","model":"m"}"#,
        r#"{"tools":[{"function":{"name":"calc"}}],"tool_choice":"required","model":"m"}"#,
        &["shell"],
    );
    // The last one takes with it what upstreams refuse without tools.
    check(
        r#"{"tools":[{"function":{"name":"shell"}}],"model":"m","tool_choice":"auto","parallel_tool_calls":false}"#,
        r#"{"model":"m"}"#,
        &["shell"],
    );
    // A choice that forces it becomes none.
    check(
        r#"{"model":"m","tools":[{"function":{"name":"shell"}},{"function":{"name":"calc"}}],"tool_choice":{"type":"function","function":{"name":"shell"}}}"#,
        r#"{"model":"m","tools":[{"function":{"name":"calc"}}],"tool_choice":"auto"}"#,
        &["shell"],
    );
    check(
        r#"{"model":"m","tools":[{"function":{"name":"shell"}},{"function":{"name":"calc"}}],"tool_choice":{"type":"function","function":{"name":"calc"}}}"#,
        r#"{"model":"m","tools":[{"function":{"name":"calc"}}],"tool_choice":{"type":"function","function":{"name":"calc"}}}"#,
        &["shell"],
    );
    check(
        r#"{"model":"m","tools":[{"function":{"name":"shell"}},{"function":{"name":"calc"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"shell"}},{"type":"function","function":{"name":"calc"}}]}}}"#,
        r#"{"model":"m","tools":[{"function":{"name":"calc"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"calc"}}]}}}"#,
        &["shell"],
    );
    check(
        r#"{"model":"m","tools":[{"function":{"name":"shell"}},{"function":{"name":"calc"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"shell"}}]}}}"#,
        r#"{"model":"m","tools":[{"function":{"name":"calc"}}],"tool_choice":"none"}"#,
        &["shell"],
    );
    // The older form, and both beside each other.
    check(
        r#"{"model":"m","functions":[{"name":"shell"},{"name":"calc"}],"function_call":{"name":"shell"}}"#,
        r#"{"model":"m","functions":[{"name":"calc"}],"function_call":"auto"}"#,
        &["shell"],
    );
    check(
        r#"{"functions":[{"name":"shell"}],"function_call":"auto","tools":[{"function":{"name":"calc"}}],"tool_choice":"auto","model":"m"}"#,
        r#"{"tools":[{"function":{"name":"calc"}}],"tool_choice":"auto","model":"m"}"#,
        &["shell"],
    );
    // Of one name in both forms.
    check(
        r#"{"functions":[{"name":"shell"}],"function_call":"auto","tools":[{"function":{"name":"shell"}}],"tool_choice":"auto","model":"m"}"#,
        r#"{"model":"m"}"#,
        &["shell"],
    );
    // Other kinds of tools: by their own names, or by their types.
    check(
        r#"{"model":"m","tools":[{"type":"custom","custom":{"name":"shell_2"}},{"type":"shell_tool"},{"type":"web"}]}"#,
        r#"{"model":"m","tools":[{"type":"web"}]}"#,
        &["shell_2", "shell_tool"],
    );

    #[track_caller]
    fn check(body: &str, expected: &str, removed: &[&str]) {
        let (stripped, names) = named(body, &["shell"]);
        assert_eq!(stripped, expected);
        assert_eq!(names, removed);
    }
}

#[test]
fn b4_all_tools_go_and_history_stays() {
    let history = r#""messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"shell","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"ok"}]"#;
    let body = format!(
        r#"{{"model":"m","tools":[{{"function":{{"name":"a"}}}},{{"function":{{"name":"b"}}}},{{"function":{{"name":"a"}}}}],{history},"tool_choice":"required","functions":[{{"name":"c"}},7]}}"#
    );
    let (stripped, removed) = shown(&body, Which::All);
    assert_eq!(stripped, format!(r#"{{"model":"m",{history}}}"#));
    assert_eq!(removed, ["a", "b", "c", "unnamed"]);
}

#[test]
fn b4_what_has_no_such_tool_stays_as_it_is() {
    for body in [
        r#"{"model":"m"}"#,
        r#"{"model":"m","tools":[]}"#,
        r#"{"model":"m","tools":null,"tool_choice":"auto"}"#,
        r#"{"model":"m","tools":{"function":{"name":"shell"}}}"#,
        r#"{"model":"m","x":{"tools":[{"function":{"name":"shell"}}]}}"#,
    ] {
        let call = parsed(body);
        assert!(strip(&call, Which::All).unwrap().is_none(), "{body}");
    }
    let body = r#"{"model":"m","tools":[{"function":{"name":"calc"}}]}"#;
    assert_eq!(named(body, &["shell"]), (body.to_owned(), Vec::new()));
    let embeddings = Bytes::from_static(br#"{"model":"m","tools":[{"function":{"name":"a"}}]}"#);
    let call = Call::parse(Endpoint::Embeddings, embeddings).unwrap();
    assert!(strip(&call, Which::All).unwrap().is_none());
}

/// However it is spelt or repeated, no reader finds the tool.
#[test]
fn b4_a_tool_cannot_be_hidden() {
    for body in [
        r#"{"model":"m","to\u006fls":[{"function":{"name":"shell"}}]}"#,
        r#"{"model":"m","tools":[{"function":{"name":"x"}}],"tools":[{"function":{"name":"shell"}}]}"#,
        r#"{"model":"m","tools":[{"function":{"name":"x","name":"shell"}}]}"#,
        r#"{"model":"m","tools":[{"function":{"name":"shell"},"function":{"name":"x"}}]}"#,
        r#"{"model":"m","tools":[{"f\u0075nction":{"n\u0061me":"\u0073hell"}}]}"#,
        r#"{"model":"m","tools":[{"type":"function","name":"shell"}]}"#,
        r#"{"model":"m","tools":[{"function":{"name":"x"}},{"function":{"name":"shell"}}],"tool_choice":"auto","tool_choice":{"function":{"name":"shell"}}}"#,
    ] {
        let (stripped, removed) = named(body, &["shell"]);
        assert!(!stripped.contains("shell") && !stripped.contains("0073hell"), "{stripped}");
        assert!(!removed.is_empty() && serde_json::from_str::<Value>(&stripped).is_ok());
    }
}

#[test]
fn b4_what_was_decided_of_the_call_stays() {
    let body = r#"{"model":"alias","stream":true,"tools":[{"function":{"name":"a"}}],"n":2}"#;
    let call = Call { model: "real".into(), send_cap: Some(9), ..parsed(body) };
    let Stripped { call, .. } = strip(&call, Which::All).unwrap().unwrap();
    assert_eq!((call.model.as_str(), call.send_cap, call.choices), ("real", Some(9), 2));
    assert!(call.stream && call.body.get(call.model_span.clone()) == Some(br#""alias""#));
}

fn tool() -> impl Strategy<Value = Value> {
    prop_oneof![
        "[abs]{1,3}"
            .prop_map(|name| json!({"type":"function","function":{"name":name,"strict":true}})),
        "[abs]{1,3}".prop_map(|name| json!({"type":"custom","custom":{"name":name}})),
        "[abs]{1,3}".prop_map(|name| json!({"type":name,"options":[1,{"name":"s"}]})),
    ]
}

fn name(tool: &Value) -> &str {
    let own = |kind: &str| tool[kind]["name"].as_str();
    own("function").or_else(|| own("custom")).or_else(|| tool["type"].as_str()).unwrap()
}

proptest! {
    /// The result is valid JSON, and the original less those tools.
    #[test]
    fn b4_what_is_left_is_the_original_less_the_tools(
        tools in prop::collection::vec(tool(), 0..6),
        functions in prop::collection::vec("[abs]{1,3}", 0..4),
        order in any::<bool>(),
        pretty in any::<bool>(),
        all in any::<bool>(),
    ) {
        let functions: Vec<_> = functions.iter().map(|name| json!({"name":name})).collect();
        let mut body = json!({
            "model": "m", "tools": tools, "messages": [{"role":"user","content":"s \"tools\":["}],
            "tool_choice": "auto", "parallel_tool_calls": true, "functions": functions,
            "function_call": "auto", "temperature": 0.5,
        });
        if order {
            let members = body.as_object_mut().unwrap();
            let tools = members.shift_remove("tools").unwrap();
            members.insert("tools".into(), tools);
        }
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
        let goes = |name: &str| all || name.starts_with('s');
        let which = if all { Which::All } else { Which::Named(&goes) };
        let (stripped, removed) = shown(&text.unwrap(), which);
        let found: Value = serde_json::from_str(&stripped).unwrap();

        let mut expected = body.clone();
        let members = expected.as_object_mut().unwrap();
        let mut gone = Vec::new();
        for (list, named, others) in [
            ("tools", name as fn(&Value) -> &str, &["tool_choice", "parallel_tool_calls"][..]),
            ("functions", |one| one["name"].as_str().unwrap(), &["function_call"][..]),
        ] {
            let before = body[list].as_array().unwrap();
            let left: Vec<_> = before.iter().filter(|one| !goes(named(one))).cloned().collect();
            for one in before.iter().map(named).filter(|one| goes(one)) {
                if !gone.iter().any(|known| known == one) {
                    gone.push(one.to_owned());
                }
            }
            if left.is_empty() && !before.is_empty() {
                members.retain(|name, _| name != list && !others.contains(&name.as_str()));
            } else {
                members.insert(list.to_owned(), left.into());
            }
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(removed, gone);
    }
}
