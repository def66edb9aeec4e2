use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use http::{HeaderMap, HeaderName};
use prost::Message;
use sluicegate_dialect::{Call, Endpoint as Api};
use sluicegate_model::document::{Document, References};
use sluicegate_protocol::{
    breaker::End,
    policy::{Body, Change, Digest, Key, Point},
};

use super::{
    offer::{self, Offer},
    pace::Ended,
    queues::Queues,
    *,
};
use crate::{
    policy::{Caller, Compiler, Policy},
    pool::Pool,
    sync::SCHEMA,
    target::{Quiet, Targets},
    upstream::Clients,
};

const FILE: &str = r#"
providers:
  - name: p
    dialect: openai-chat
    base_url: http://127.0.0.1:9/v1
    keyless: true
    capacity: { max_requests: 4 }
models:
  - name: later
    aliases: ["later-*"]
    targets: [{ provider: p }]
    when_unavailable: { answer: defer }
  - { name: now, targets: [{ provider: p, model: other }] }
api_keys:
  - { name: k, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000", models: [later, now] }
"#;

fn policy(file: &str) -> Arc<Policy> {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let document = Document::parse("f", file, References::Open).unwrap();
    let upserts = document.resources.iter().map(|declared| {
        let bytes = declared.resource.encode_to_vec().into();
        let key = Key::from(declared.reference.to_proto());
        (key, Body { version: 1, schema: SCHEMA, bytes })
    });
    let change = Change {
        from: None,
        to: Point { epoch: "e".into(), revision: 7 },
        upserts: upserts.collect(),
        removes: Vec::new(),
        digest: Digest::default(),
    };
    let targets = Targets::new(Arc::new(Quiet));
    Compiler::new(Clients::with_web_roots(), targets).compile(&change).unwrap().policy
}

fn call(model: &str, more: &str) -> Call {
    let body = format!(r#"{{"model":"{model}","messages":[]{more}}}"#);
    Call::parse(Api::Chat, body.into()).unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn caller(policy: &Policy) -> Arc<Caller> {
    policy.caller(policy.key_named("k").unwrap()).unwrap().clone()
}

const WISH: (&str, &str) = ("x-sluicegate-defer", "true");

#[test]
fn b2_only_models_that_say_so_keep_requests() {
    let policy = policy(FILE);
    let caller = caller(&policy);
    let (plain, wish) = (HeaderMap::new(), headers(&[WISH]));
    let offered = |model, headers| {
        let offered = offer(&policy, &caller, &call(model, ""), headers);
        offered.map(|offer| offer.map(|offer: Offer<'_>| (offer.model.name.clone(), offer.at_once)))
    };
    assert_eq!(offered("later", &plain), Ok(Some(("later".into(), false))));
    assert_eq!(offered("later-2", &wish), Ok(Some(("later".into(), true))));
    assert_eq!(offered("now", &plain), Ok(None));
    assert_eq!(offered("nothing", &plain), Ok(None), "it is refused where models are looked up");
    let why = Undeferred::NotOffered { model: "now".into() };
    assert_eq!(offered("now", &wish), Err(Refusal::Deferral(why)));
    assert!(matches!(offered("nothing", &wish), Err(Refusal::UnknownModel { .. })));
}

#[test]
fn b2_what_is_kept_names_its_caller_and_holds_no_secret() {
    let policy = policy(FILE);
    let caller = caller(&policy);
    let given = headers(&[
        ("authorization", "Bearer sk-canary"),
        ("x-app-source", "app"),
        ("x-request-id", "r1"),
        ("idempotency-key", "order 7"),
        ("x-sluicegate-defer-expires-ms", "1500"),
        ("x-sluicegate-webhook-url", "https://h/"),
        ("x-sluicegate-webhook-secret", "whsec_x"),
    ]);
    let offer = offer(&policy, &caller, &call("later-2", ""), &given).unwrap().unwrap();
    let put = offer.put(&caller).unwrap();
    assert_eq!((&*put.queue, &*put.idempotency_key, put.expires_ms), ("later", "order 7", 1_500));
    assert_eq!(put.caller, Some(pb::Caller { tenant: String::new(), key: "k".into() }));
    assert_eq!(&put.body[..], br#"{"model":"later-2","messages":[]}"#);
    let url = put.webhook.map(|webhook| webhook.url);
    assert_eq!(url.as_deref(), Some("https://h/"));
    let note = pb::Note::decode(put.note.clone()).unwrap();
    assert_eq!((&*note.endpoint, &*note.model, note.policy_revision), ("chat", "later-2", 7));
    assert_eq!(offer::restored(&note), headers(&[("x-app-source", "app")]));
    assert!(!String::from_utf8_lossy(&put.note).contains("canary"));
    // What is not known is not restored, whoever noted it.
    let foreign = [("authorization".to_owned(), "Bearer x".to_owned())].into();
    let note = pb::Note { headers: foreign, ..pb::Note::default() };
    assert!(offer::restored(&note).is_empty());
}

#[test]
fn b2_each_request_without_a_key_is_its_own() {
    let policy = policy(FILE);
    let caller = caller(&policy);
    let keys = [HeaderMap::new(), HeaderMap::new(), headers(&[("idempotency-key", "")])];
    let keys = keys.map(|headers| {
        let offer = offer(&policy, &caller, &call("later", ""), &headers).unwrap().unwrap();
        assert!(!offer.is_named());
        offer.put(&caller).unwrap().idempotency_key
    });
    let [one, other, third] = keys;
    assert!(one != other && other != third && !third.is_empty(), "{one} {other} {third}");
}

#[test]
fn b2_what_cannot_be_kept_is_told() {
    let policy = policy(FILE);
    let caller = caller(&policy);
    let put = |call: &Call, headers: &HeaderMap| {
        let offer = offer(&policy, &caller, call, headers).unwrap().unwrap();
        offer.put(&caller).map(|_| ()).unwrap_err()
    };
    let plain = HeaderMap::new();
    assert_eq!(put(&call("later", r#","stream":true"#), &plain), Undeferred::Stream);
    let large = format!(r#","user":"{}""#, "x".repeat(MOST_BODY));
    assert_eq!(put(&call("later", &large), &plain), Undeferred::TooLarge { limit: MOST_BODY });
    for (name, value) in [
        ("x-sluicegate-defer-expires-ms", "0"),
        ("x-sluicegate-defer-expires-ms", "1e3"),
        ("x-sluicegate-defer-expires-ms", "18446744073709551615"),
        ("x-sluicegate-webhook-url", "https://h/"),
        ("x-sluicegate-webhook-secret", "whsec_x"),
        ("idempotency-key", &"k".repeat(257)),
        ("idempotency-key", "\u{e9}"),
    ] {
        let why = put(&call("later", ""), &headers(&[(name, value)]));
        let Undeferred::Invalid(said) = &why else { panic!("{name}: {why:?}") };
        assert!(said.contains("the header "), "{said}");
        assert!(!said.contains(value) || value.len() < 4, "values are not repeated: {said}");
    }
}

#[test]
fn b2_what_a_control_plane_says_no_to_is_told_by_its_reason() {
    let of = |code, message: &str| undeferred(Failure::Refused(Status::new(code, message)));
    assert_eq!(of(Code::ResourceExhausted, "full"), Undeferred::NoRoom("full".into()));
    assert_eq!(of(Code::InvalidArgument, "bad"), Undeferred::Invalid("bad".into()));
    assert_eq!(of(Code::OutOfRange, "long"), Undeferred::TooLarge { limit: MOST_BODY });
    assert_eq!(of(Code::DataLoss, "lost"), Undeferred::Away("lost".into()));
    let away = undeferred(Failure::Away("10.0.0.1 is away".into()));
    assert!(!Refusal::Deferral(away).shown().message.contains("10.0"), "that is for operators");
    let facts = HashMap::from([("limit".to_owned(), "99".to_owned())]);
    let details = tonic_types::ErrorDetails::with_error_info("DEFERRED_TOO_LARGE", "d", facts);
    let status = Status::with_error_details(Code::InvalidArgument, "large", details);
    assert_eq!(undeferred(Failure::Refused(status)), Undeferred::TooLarge { limit: 99 });
}

#[test]
fn b2_ids_that_are_none_are_not_asked_for() {
    assert_eq!(known("def_0-Z"), Ok("def_0-Z".to_owned()));
    for id in ["a b", "é", "a/b", &"x".repeat(65)] {
        assert!(matches!(known(id), Err(Refusal::UnknownDeferred { .. })), "{id}");
    }
}

fn claims(queues: &mut Queues, policy: &Policy, most: u32) -> Vec<(String, u32)> {
    let pool = Pool::new(Arc::default(), "n".into());
    let wanted = queues.wanted(policy, &pool, most, 0);
    wanted.into_iter().map(|claim| (claim.queue, claim.most)).collect()
}

#[test]
fn b2_only_what_targets_take_is_claimed_and_models_that_keep_come_first() {
    let policy = policy(FILE);
    let mut queues = Queues::default();
    let both = [("later".to_owned(), 1), ("now".to_owned(), 1)];
    assert_eq!(claims(&mut queues, &policy, 64), both, "one at first");
    assert_eq!(claims(&mut queues, &policy, 1), both[..1]);
    assert_eq!(claims(&mut queues, &policy, 0), []);
    // Its pace would let it have 9, its target 4.
    for _ in 0..8 {
        queues.began("later");
        queues.ended("later", Ended::Well, 0);
    }
    assert_eq!(claims(&mut queues, &policy, 64)[0], ("later".to_owned(), 4));
    queues.began("later");
    assert_eq!(claims(&mut queues, &policy, 64)[0], ("later".to_owned(), 3));
    queues.ended("later", Ended::Well, 0);
    let target = policy.model("later").unwrap().targets[0].state.clone();
    for _ in 0..10 {
        if let Ok(mut trip) = target.admit(1) {
            trip.ended(End::Hard, false);
        }
    }
    assert_eq!(claims(&mut queues, &policy, 64), both[1..], "its target is left alone");
}

#[test]
fn b2_many_queues_come_in_turn() {
    let models = (0..500).map(|n| {
        let answer = if n % 2 == 0 { "defer" } else { "reject" };
        format!(
            "  - {{ name: m{n}, targets: [{{ provider: p }}], when_unavailable: {{ answer: {answer} }} }}\n"
        )
    });
    let provider = FILE.split_once("models:").unwrap().0;
    let policy = policy(&format!("{provider}models:\n{}", models.collect::<String>()));
    let (mut queues, mut seen) = (Queues::default(), BTreeSet::new());
    for _ in 0..10 {
        let claims = claims(&mut queues, &policy, u32::MAX);
        assert!(claims.len() <= 200, "{}", claims.len());
        seen.extend(claims.into_iter().map(|(queue, _)| queue));
    }
    assert_eq!(seen.len(), 500);
}
