//! What limits and overrides may say.

use sluicegate_model::{
    Resource, ResourceRef,
    document::{Document, References},
    name::Kind,
    resource::{Limit, limit::Window},
};

fn document(limit: &str) -> Result<Document, String> {
    let head = "tenants: [{ name: t }]\n";
    Document::parse("f", &format!("{head}limits:\n  - {limit}\n"), References::Closed)
        .map_err(|error| error.to_string())
}

fn limit(text: &str) -> Limit {
    let document = document(text).expect("it is valid");
    let mut limits =
        document.resources.iter().filter(|declared| declared.reference.kind == Kind::Limit);
    let wire = &limits.next().expect("there is one").resource;
    match Resource::parse(wire).expect("it is valid") {
        Resource::Limit(limit) => limit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn b3_amounts_are_exact_in_the_smallest_unit() {
    let capacity = |text: &str| {
        let limit = limit(&format!("{{ name: l, scope: {{ tenant: '*' }}, {text} }}"));
        limit.windows.iter().map(Window::capacity).collect::<Vec<_>>()
    };
    assert_eq!(capacity("dimension: requests, rate: 3/second;1000/minute"), [3, 1000]);
    assert_eq!(capacity("dimension: tokens, rate: 60000/minute, burst: 500"), [500]);
    assert_eq!(capacity("dimension: units, rate: 0.001/30s"), [1000]);
    assert_eq!(capacity("dimension: cost, amount: 0.5, window: month"), [500_000_000]);
    assert_eq!(capacity("dimension: concurrency, amount: 4"), [4]);
    assert_eq!(capacity("dimension: requests, rate: 5/minute, algorithm: sliding"), [5]);
}

#[test]
fn b3_mistakes_in_limits_name_field_and_cure() {
    let scope = "scope: { tenant: '*' }";
    for (text, message, hint) in [
        ("scope: {}, dimension: requests, rate: 1/s", "limits[0].scope: names nothing", "tenant"),
        ("scope: { team: '*' }, dimension: requests, rate: 1/s", "team", ""),
        (
            "scope: { tenant: nobody }, dimension: requests, rate: 1/s",
            "'nobody' does not exist",
            "",
        ),
        ("SCOPE, dimension: requests, rate: 0/s", "limits[0].rate: '0/s' admits nothing", "more"),
        ("SCOPE, dimension: requests, rate: -1/s", "'-1' is not a number", ""),
        ("SCOPE, dimension: requests, rate: 0.5/s", "no fractions of requests", "whole"),
        ("SCOPE, dimension: requests, rate: 1000/s;10/minute", "can never be reached", "longer"),
        (
            "SCOPE, dimension: tokens, rate: 99999999999999999/s",
            "larger than can be counted",
            "4503",
        ),
        ("SCOPE, dimension: tokens, rate: 1/s, burst: 0", "limits[0].burst: admits nothing", ""),
        (
            "SCOPE, dimension: tokens, rate: 1/s, burst: -3",
            "limits[0].burst: -3 is out of range",
            "",
        ),
        ("SCOPE, dimension: tokens, rate: 1/s;20/m, burst: 3", "burst is for a single rate", ""),
        (
            "SCOPE, dimension: tokens, amount: 5, window: day, pace_ms: 9",
            "only bursts",
            "use a rate",
        ),
        ("SCOPE, dimension: concurrency, amount: 5, pace_ms: 9", "only bursts", "use a rate"),
        (
            "SCOPE, dimension: requests, rate: 1/s, shadow: true, pace_ms: 9",
            "only counts",
            "remove",
        ),
        ("SCOPE, dimension: tokens, rate: 1/s, window: day, amount: 1", "contradicts", "remove"),
        ("SCOPE, dimension: tokens, window: day", "limits[0].amount: is required", ""),
        ("SCOPE, dimension: tokens, amount: 3", "needs a window", ""),
        ("SCOPE, dimension: tokens", "neither a rate nor a window", ""),
        ("SCOPE, dimension: concurrency, rate: 1/s", "limits[0].amount: is required", ""),
        ("SCOPE, dimension: cost, window: day, amount: 1, time_zone: Mars/X", "time zone", "IANA"),
        ("SCOPE, dimension: cost, window: fortnight, amount: 1", "unknown value 'fortnight'", ""),
        ("SCOPE, dimension: words, rate: 1/s", "unknown value 'words'", ""),
        ("SCOPE, dimension: tokens, rate: 1/s, strict: true, on_outage: allow", "strict", "deny"),
        ("SCOPE, dimension: tokens, rate: 1/s, strict: true, reserve: expected", "strict", ""),
        ("SCOPE, dimension: tokens, rate: 1/s, wait_ms: 99999", "out of range", ""),
    ] {
        let text = format!("{{ name: l, {} }}", text.replace("SCOPE", scope));
        let error = document(&text).unwrap_err();
        assert!(error.contains(message) && error.contains(hint), "{text}: {error}");
    }
}

#[test]
fn a11_overrides_fit_their_limit() {
    let parse = |text: &str| {
        let file = format!(
            "limits:\n  - {{ name: l, scope: {{ key: '*' }}, dimension: tokens, rate: 10/s;100/m }}\n{text}\n"
        );
        Document::parse("f", &file, References::Closed).map_err(|error| error.to_string())
    };
    let one = |text: &str| parse(&format!("overrides:\n  - {{ name: o, {text} }}"));
    for (text, message) in [
        ("limit: x, subject: { key: k }, rate: 1/s", "limit 'x' does not exist"),
        ("limit: l, subject: {}, rate: 1/s", "names nobody"),
        ("limit: l, subject: { key: '*' }, rate: 1/s", "not one subject"),
        ("limit: l, subject: { key: k }", "changes nothing"),
        ("limit: l, subject: { user: u }, rate: 1/s", "does not tell users apart"),
        ("limit: l, subject: { key: k }, rate: 1/hour", "no rate for 3600 s"),
        ("limit: l, subject: { key: k }, amount: 5", "has rates"),
        ("limit: l, subject: { key: k }, rate: 1/s, expires_at: soon", "not a time"),
    ] {
        let error = one(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
    let twins = "overrides:\n  - { name: a, limit: l, subject: { key: k }, rate: 1/s }\n  - { name: b, limit: l, subject: { key: k }, rate: 2/s }";
    assert!(parse(twins).unwrap_err().contains("override 'a' is for the same subject"));

    let document = one("limit: l, subject: { key: k }, rate: 50/m").unwrap();
    let find = |reference: ResourceRef| {
        let found = document.resources.iter().find(|declared| declared.reference == reference);
        Resource::parse(&found.unwrap().resource).unwrap()
    };
    let Resource::Override(over) = find(ResourceRef::new(Kind::Override, "o")) else { panic!() };
    let Resource::Limit(limit) = find(ResourceRef::new(Kind::Limit, "l")) else { panic!() };
    let capacities: Vec<_> = over.fit(&limit).unwrap().iter().map(Window::capacity).collect();
    assert_eq!(capacities, [10, 50], "what it does not name stays");
}
