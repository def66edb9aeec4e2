//! What routing by task may say.

use sluicegate_model::{
    Resource,
    document::{Document, References},
    resource::{Routing, routing::Check},
};

/// A file with a routed model `auto`, and `small`, `strong` and `other`, which is routed as told.
fn document(routing: &str, other: &str) -> Result<Document, String> {
    let text = format!(
        "providers:
  - {{ name: p, dialect: openai-chat, base_url: http://u, keyless: true }}
models:
  - {{ name: small, targets: [{{ provider: p }}] }}
  - {{ name: strong, targets: [{{ provider: p }}] }}
  - {{ name: other, targets: [{{ provider: p }}]{other} }}
  - {{ name: auto, targets: [{{ provider: p }}], routing: {{ {routing} }} }}
tenants: [{{ name: t }}]
"
    );
    Document::parse("f", &text, References::Closed).map_err(|error| error.to_string())
}

fn routing(text: &str) -> Routing {
    let document = document(text, "").expect("it is valid");
    let auto = document.resources.iter().find(|one| one.reference.name == "auto");
    match Resource::parse(&auto.expect("it is declared").resource).expect("it is valid") {
        Resource::Model(model) => *model.routing.expect("it is routed"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn c8_rules_classifier_and_escalation_are_read() {
    let parsed = routing(
        r#"rules: [
             { name: long, when: { min_prompt_tokens: 8000 }, model: strong },
             { name: here, when: { languages: [deu], scripts: [latin], tenants: [t], headers: { x-task: "*" } }, model: auto },
             { name: code, when: { keywords: [refactor, "C++"], pattern: 'fn \w+', tools: false }, model: other } ],
           classifier: { model: small, labels: [ { label: easy, model: small }, { label: hard, model: strong } ] },
           otherwise: small,
           escalation: { on: [refusal, empty], models: [small, strong], refusal_phrases: ["I cannot "] }"#,
    );
    assert_eq!(parsed.rules.len(), 3);
    assert_eq!(parsed.rules[0].when.prompt_tokens, 8000..=u64::MAX);
    assert!(parsed.rules[1].when.reads_text() && !parsed.rules[0].when.reads_text());
    assert_eq!(parsed.rules[1].when.headers[0].value, None);
    let classifier = parsed.classifier.as_ref().unwrap();
    assert_eq!((classifier.deadline.as_millis(), classifier.max_input_chars), (800, 4000));
    let escalation = parsed.escalation.as_ref().unwrap();
    assert_eq!(escalation.on, [Check::Refusal, Check::Empty]);
    assert_eq!(escalation.refusal_phrases, ["i cannot"]);
    assert_eq!(escalation.after("other"), Some("small"));
    assert_eq!(escalation.after("small"), Some("strong"));
    assert_eq!(escalation.after("strong"), None);
    assert!(parsed.names("other") && parsed.names("auto") && !parsed.names("best"));
    assert!(parsed.may_override);
}

#[test]
fn c8_mistakes_in_routing_name_field_and_cure() {
    let rule = |when: &str| format!("rules: [{{ name: r, when: {{ {when} }}, model: small }}]");
    let easy = "{ label: easy, model: small }";
    for (text, message, hint) in [
        (String::new(), "models[3].routing: routes nothing", "rules"),
        (
            "rules: [{ name: r, model: smal }]".into(),
            "routing.rules[0].model: model 'smal' does not exist",
            "small",
        ),
        ("rules: [{ name: r, model: other }]".into(), "'other' comes back to this model", "cycle"),
        ("rules: [{ name: 'off', model: small }]".into(), "turns routing off", "another"),
        ("rules: [{ name: auto, model: small }]".into(), "'auto' is a model, too", "either"),
        (
            "rules: [{ name: r, model: small }, { name: r, when: { tools: true }, model: strong }]"
                .into(),
            "rules[1].name: is the name of an earlier rule",
            "",
        ),
        (
            "rules: [{ name: a, when: { tools: true }, model: small }, { name: b, when: { tools: true, stream: true }, model: strong }]".into(),
            "rules[1]: can never match: rule 'a' takes all of it before",
            "before that rule",
        ),
        (
            format!("rules: [{{ name: a, model: small }}], classifier: {{ model: small, labels: [{easy}, {{ label: b, model: small }}] }}"),
            "routing.classifier: is never asked: rule 'a'",
            "",
        ),
        (
            "rules: [{ name: a, model: small }], otherwise: strong".into(),
            "routing.otherwise: is never asked",
            "",
        ),
        (rule("min_prompt_tokens: 9, max_prompt_tokens: 8"), "max_prompt_tokens: is less than 9", ""),
        (rule("min_messages: 3, max_messages: 2"), "max_messages: is less than 3", ""),
        (rule("languages: [en]"), "languages[0]: is no language", "did you mean"),
        (rule("languages: [German]"), "languages[0]: is no language", "'deu'"),
        (rule("scripts: [Runes]"), "scripts[0]: is no script", "Latin"),
        (rule("languages: [rus], scripts: [Latin]"), "scripts: none of the languages", "leave"),
        (rule("keywords: ['']"), "keywords: a word has", ""),
        (rule("pattern: '(a'"), "pattern: unclosed group", "regex"),
        (rule("headers: { authorization: '*' }"), "authorization: is never looked at", "secrets"),
        (rule("headers: { 'x y': '*' }"), "is not a header name", ""),
        (rule("tenants: [u]"), "when.tenants[0]: tenant 'u' does not exist", ""),
        (rule("keys: [k]"), "when.keys[0]: api_key 'k' does not exist", ""),
        (
            format!("classifier: {{ model: small, labels: [{easy}] }}"),
            "classifier.labels: has 1 labels",
            "",
        ),
        (
            format!("classifier: {{ model: small, labels: [{easy}, {{ label: Easy, model: strong }}] }}"),
            "labels[1].label: is an earlier label",
            "",
        ),
        (
            format!("classifier: {{ model: auto, labels: [{easy}, {{ label: b, model: small }}] }}"),
            "classifier.model: 'auto' is routed itself",
            "without routing",
        ),
        (
            "escalation: { on: [boring], models: [strong] }".into(),
            "on[0]: unknown value 'boring'",
            "refusal",
        ),
        (
            "escalation: { on: [empty], models: [strong, strong] }".into(),
            "models[1]: is named twice",
            "",
        ),
        (
            "escalation: { on: [empty], models: [strong], refusal_phrases: [no] }".into(),
            "refusal_phrases: is of refusals",
            "",
        ),
        (
            "escalation: { on: [refusal], models: [strong], refusal_phrases: [' '] }".into(),
            "refusal_phrases[0]: is empty",
            "",
        ),
    ] {
        let other = if text.contains("model: other") {
            ", routing: { rules: [{ name: back, model: auto }] }"
        } else {
            ""
        };
        let error = document(&text, other).unwrap_err();
        assert!(error.contains(message) && error.contains(hint), "{text}: {error}");
    }
}
