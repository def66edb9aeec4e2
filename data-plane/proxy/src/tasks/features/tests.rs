use bytes::Bytes;
use proptest::prelude::*;
use sluicegate_model::{
    Resource,
    document::{Document, References},
    resource::Routing,
};

use super::*;
use crate::tasks::{BadChoice, By, Decision, Route, choose, decide, decide::labelled, shown};

const AUTO: &str = r##"
models:
  - name: auto
    targets: [{ provider: p }]
    routing:
      rules:
        - { name: vision, when: { images: true }, model: seeing }
        - { name: sound, when: { audio: true }, model: hearing }
        - { name: team, when: { tenants: [search], keys: [k] }, model: team }
        - { name: asked, when: { headers: { x-task: code, x-any: "*" } }, model: coder }
        - { name: schema, when: { json_schema: true, stream: false }, model: strict }
        - { name: chat, when: { min_messages: 4 }, model: chatty }
        - { name: long, when: { min_prompt_tokens: 1000 }, model: strong }
        - { name: code, when: { keywords: [refactor, 重构], tools: false }, model: coder }
        - { name: proof, when: { pattern: "(?i)^prove\\b" }, model: strong }
        - { name: german, when: { languages: [deu] }, model: german }
        - { name: chinese, when: { scripts: [Mandarin] }, model: chinese }
      classifier:
        model: tiny
        labels: [{ label: easy, model: small }, { label: hard, model: strong }]
      otherwise: small
"##;

fn routing(text: &str) -> Routing {
    let document = Document::parse("f", text, References::Open).expect("it is valid");
    let auto = document.resources.first().expect("it is declared");
    match Resource::parse(&auto.resource).expect("it is valid") {
        Resource::Model(model) => *model.routing.expect("it is routed"),
        other => panic!("{other:?}"),
    }
}

fn call(endpoint: Endpoint, body: &str) -> Call {
    Call::parse(endpoint, Bytes::copy_from_slice(body.as_bytes())).expect("it is a call")
}

fn decided(members: &str, headers: &[(&'static str, &'static str)], tenants: &[&str]) -> String {
    let call = call(Endpoint::Chat, &format!(r#"{{"model":"auto",{members}}}"#));
    let named = headers.iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
    });
    let headers: HeaderMap = named.collect();
    let tenants: Vec<_> = tenants.iter().map(|name| (*name).to_owned()).collect();
    let asker = Asker { headers: &headers, tenants: &tenants, key: Some("k") };
    let routing = routing(AUTO);
    match decide(&routing, "auto", &Features::of(&call, asker)) {
        Decision::To(route) => told(route),
        Decision::Ask(classifier) => format!("ask {}", classifier.model),
    }
}

fn told(route: Route<'_>) -> String {
    shown(route.model, route.by)
}

fn user(content: &str) -> String {
    format!(
        r#""messages":[{{"role":"system","content":"refactor"}},{{"role":"user","content":{content}}}]"#
    )
}

#[test]
fn c8_the_first_rule_that_matches_holds() {
    let image = r#"[{"type":"text","text":"refactor"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]"#;
    let sound = r#"[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]"#;
    let long = format!("\"{}\"", "words ".repeat(1_000));
    let german =
        "\"Können Sie mir bitte erklären, wie man einen Kuchen backt, ohne Eier zu verwenden?\"";
    let turn = r#"{"role":"user","content":"a"}"#;
    for (members, expected) in [
        (user(image), "seeing;by=rule:vision"),
        (user(sound), "hearing;by=rule:sound"),
        (format!(r#"{},"response_format":{{"type":"json_schema","json_schema":{{}}}}"#, user("\"x\"")), "strict;by=rule:schema"),
        (format!(r#"{},"stream":true,"response_format":{{"type":"json_schema"}}"#, user("\"x\"")), "ask tiny"),
        (format!(r#""messages":[{turn},{turn},{turn},{turn}]"#), "chatty;by=rule:chat"),
        (user(&long), "strong;by=rule:long"),
        (user("\"please REFACTOR this\""), "coder;by=rule:code"),
        (user("\"请\\u91cd\\u6784这个函数\""), "coder;by=rule:code"),
        (format!(r#"{},"tools":[{{}}]"#, user("\"please refactor\"")), "ask tiny"),
        (format!(r#"{},"tools":[]"#, user("\"please refactor\"")), "coder;by=rule:code"),
        (user("\"Prove that it halts\""), "strong;by=rule:proof"),
        (user("\"I can prove it\""), "ask tiny"),
        (user(german), "german;by=rule:german"),
        (user("\"今天天气怎么样\""), "chinese;by=rule:chinese"),
        (user("\"hi\""), "ask tiny"),
        // The last message of the user counts, wherever its role stands.
        (r#""messages":[{"role":"user","content":"refactor"},{"content":"hi","role":"user"},{"role":"assistant","content":"refactor"}]"#.into(), "ask tiny"),
        (r#""messages":"refactor""#.into(), "ask tiny"),
        (r#""messages":[1,{"role":"user"},[]]"#.into(), "ask tiny"),
    ] {
        assert_eq!(decided(&members, &[], &[]), expected, "{members:.200}");
    }
}

#[test]
fn c8_who_asks_decides_too() {
    let hi = user("\"hi\"");
    assert_eq!(decided(&hi, &[], &["team", "search"]), "team;by=rule:team");
    assert_eq!(decided(&hi, &[("x-task", "code")], &[]), "ask tiny");
    let both = [("x-task", "code"), ("x-any", "")];
    assert_eq!(decided(&hi, &both, &["other"]), "coder;by=rule:asked");
    assert_eq!(decided(&hi, &[("x-task", "codes"), ("x-any", "1")], &[]), "ask tiny");
}

#[test]
fn c8_the_small_models_word_or_what_holds_otherwise() {
    let routing = routing(AUTO);
    let label = routing.classifier.as_ref().map(|classifier| &classifier.labels[1]);
    assert_eq!(told(labelled(&routing, "auto", label)), "strong;by=label:hard");
    assert_eq!(told(labelled(&routing, "auto", None)), "small;by=otherwise");
    let bare = Routing { otherwise: None, ..routing };
    assert_eq!(told(labelled(&bare, "auto", None)), "auto;by=otherwise");
}

#[test]
fn c8_callers_choose_among_what_is_declared() {
    let routing = routing(AUTO);
    let chosen = |value: &str| choose(value.as_bytes(), &routing, "auto").map(told);
    assert_eq!(chosen("long"), Ok("strong;by=caller:long".into()));
    assert_eq!(chosen(" seeing "), Ok("seeing;by=caller".into()));
    assert_eq!(chosen("small"), Ok("small;by=caller".into()));
    assert_eq!(chosen("auto"), Ok("auto;by=caller".into()));
    assert_eq!(chosen("off"), Ok("auto;by=off".into()));
    for bad in ["", "tiny", "Long", "gpt-4o", "long,seeing"] {
        let error = chosen(bad).unwrap_err();
        assert!(error.to_string().contains("one of asked, chat, "), "{error}");
    }
    let closed = Routing { may_override: false, ..routing.clone() };
    let error = choose(b"off", &closed, "auto").unwrap_err();
    assert_eq!(error, BadChoice::NotAllowed { model: "auto".into() });
}

#[test]
fn c8_prompts_and_inputs_have_texts_too() {
    let headers = HeaderMap::new();
    let asker = Asker { headers: &headers, tenants: &[], key: None };
    let text = |endpoint, body: &str| {
        let call = call(endpoint, body);
        Features::of(&call, asker).text().to_owned()
    };
    assert_eq!(text(Endpoint::Completions, r#"{"model":"m","prompt":"a\nb"}"#), "a\nb");
    assert_eq!(text(Endpoint::Completions, r#"{"model":"m","prompt":["a",1,"b"]}"#), "a\nb");
    assert_eq!(text(Endpoint::Embeddings, r#"{"model":"m","input":"é"}"#), "é");
    let long = "é".repeat(MAX_LOOKED_AT + 5);
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":["{long}",{{"text":"x"}}]}}]}}"#
    );
    assert_eq!(text(Endpoint::Chat, &body).chars().count(), MAX_LOOKED_AT);
}

#[test]
fn c8_without_rules_or_classifier_the_models_own_targets_answer() {
    let text = "models:\n  - name: auto\n    targets: [{ provider: p }]\n    routing: { escalation: { on: [empty], models: [strong] } }\n";
    let (call, headers) = (call(Endpoint::Chat, r#"{"model":"auto"}"#), HeaderMap::new());
    let asker = Asker { headers: &headers, tenants: &[], key: None };
    let routing = routing(text);
    let route = Route { model: "auto", by: By::Otherwise };
    let found = decide(&routing, "auto", &Features::of(&call, asker));
    assert_eq!(found, Decision::To(route));
}

proptest! {
    /// Whatever is in the messages, they are read without a panic, and within bounds.
    #[test]
    fn c8_any_messages_are_read(
        value in "(\\[|\\]|\\{|\\}|\"role\":\"user\"|\"content\":|\"text\"|:|,|\"a\"|1|null){0,30}",
    ) {
        let body = format!("{{\"model\":\"m\",\"messages\":{value}}}");
        if let Ok(call) = Call::parse(Endpoint::Chat, body.into()) {
            let headers = HeaderMap::new();
            let asker = Asker { headers: &headers, tenants: &[], key: None };
            let features = Features::of(&call, asker);
            prop_assert!(features.text().chars().count() <= MAX_LOOKED_AT);
        }
    }
}
