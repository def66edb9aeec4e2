//! What becomes of keys on one data plane, without an upstream.

use std::sync::Arc;

use sluicegate_dialect::{Fault, fault::Level};
use sluicegate_model::{
    Outcome,
    document::{Declared, Document, References},
};
use sluicegate_protocol::{
    policy::{Body, Change as PolicyChange, Digest, Key, Point, SCHEMA},
    pool::{CellKey, Change, State},
};

use super::{Pass, Pool};
use crate::{
    policy::{Compiler, Provider},
    target::{Quiet, Targets},
    upstream::Clients,
};

const FILE: &str = r#"
providers:
  - name: p
    dialect: openai-chat
    base_url: http://127.0.0.1:9/v1
    keys:
      - { name: a1, secret: { value: sk-1 }, account: a }
      - { name: a2, secret: { value: sk-2 }, account: a }
      - { name: b, secret: { value: sk-3 }, account: b }
      - { name: own, secret: { value: sk-4 } }
models:
  - { name: m, targets: [{ provider: p }] }
"#;

fn provider() -> Arc<Provider> {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let document = Document::parse("f", FILE, References::Open).unwrap();
    let upsert = |declared: &Declared| {
        let key = Key::from(declared.reference.to_proto());
        let bytes = prost::Message::encode_to_vec(&declared.resource).into();
        (key, Body { version: 1, schema: SCHEMA, bytes })
    };
    let change = PolicyChange {
        from: None,
        to: Point { epoch: "e".into(), revision: 1 },
        upserts: document.resources.iter().map(upsert).collect(),
        removes: Vec::new(),
        digest: Digest::default(),
    };
    let compiled = Compiler::new(Clients::with_web_roots(), Targets::new(Arc::new(Quiet)))
        .compile(&change)
        .unwrap();
    compiled.policy.model("m").unwrap().targets[0].provider.clone()
}

fn pool() -> Arc<Pool> {
    Pool::new(Arc::default(), "node".into())
}

/// Leave to use that key.
fn pass(pool: &Arc<Pool>, provider: &Arc<Provider>, name: &str) -> Pass {
    let one = provider.credentials.iter().filter(|credential| credential.name == name);
    pool.choose(provider, &one.cloned().collect::<Vec<_>>(), "m").unwrap()
}

fn is_up(pool: &Pool, provider: &Provider, name: &str) -> bool {
    let one = provider.credentials.iter().filter(|credential| credential.name == name);
    pool.any_up(&one.cloned().collect::<Vec<_>>(), "m")
}

#[test]
fn c5_what_concerns_an_account_concerns_all_of_its_keys() {
    let (pool, provider) = (pool(), provider());
    let exhausted = Fault::new(Outcome::QuotaExhausted, "no credit");
    let account = Fault { level: Level::Account, ..exhausted.clone() };
    pass(&pool, &provider, "p/own").failed(&account, false);
    let ups = |names: [&str; 4]| names.map(|name| is_up(&pool, &provider, name));
    let names = ["p/a1", "p/a2", "p/b", "p/own"];
    assert_eq!(ups(names), [true, true, true, false], "without an account it is its own");
    pass(&pool, &provider, "p/b").failed(&exhausted, false);
    pass(&pool, &provider, "p/a1").failed(&account, false);
    assert_eq!(ups(names), [false; 4]);
    let told = pool.outbox.take(9);
    let mut keys: Vec<_> = told
        .iter()
        .map(|change| match change {
            Change::Merge(cell) => (cell.key.clone(), cell.state),
            Change::Clear(clear) => panic!("{clear:?}"),
        })
        .collect();
    keys.sort();
    assert_eq!(keys, names.map(|name| (CellKey::new(name, ""), State::Exhausted)));
}

#[test]
fn c5_a_trial_is_over_when_its_request_is() {
    let (pool, provider) = (pool(), provider());
    let soon = std::time::Duration::from_millis(1);
    let refused = Fault { wait: Some(soon), ..Fault::new(Outcome::KeyRefused, "no") };
    pass(&pool, &provider, "p/b").failed(&refused, false);
    while !is_up(&pool, &provider, "p/b") {
        std::thread::yield_now();
    }
    let trial = pass(&pool, &provider, "p/b");
    assert!(!is_up(&pool, &provider, "p/b"), "one at a time");
    drop(trial);
    let trial = pass(&pool, &provider, "p/b");
    // What is no fault of the key's ends the trial as well.
    trial.failed(&Fault::new(Outcome::Network, "gone"), false);
    assert!(is_up(&pool, &provider, "p/b"));
    drop(pool.outbox.take(9));
    pass(&pool, &provider, "p/b").succeeded();
    assert!(matches!(pool.outbox.take(9).as_slice(), [Change::Clear(_)]));
    pass(&pool, &provider, "p/b").succeeded();
    assert_eq!(pool.outbox.take(9), [], "there is nothing more to tell");
}

/// Names that callers make up fill nobody's table.
#[test]
fn c5_a_made_up_model_is_not_remembered() {
    let (pool, provider) = (pool(), provider());
    let missing = Fault::new(Outcome::ModelMissing, "no such model");
    pass(&pool, &provider, "p/b").failed(&missing, true);
    assert!(is_up(&pool, &provider, "p/b"));
    pass(&pool, &provider, "p/b").failed(&missing, false);
    assert!(!is_up(&pool, &provider, "p/b"));
}

#[test]
fn c5_keys_that_are_down_are_left_out_and_the_best_hope_is_told() {
    let (pool, provider) = (pool(), provider());
    let all = provider.credentials.clone();
    let wait = |ms| Some(std::time::Duration::from_millis(ms));
    let limited = |ms| Fault { wait: wait(ms), ..Fault::new(Outcome::RateLimited, "slow down") };
    pass(&pool, &provider, "p/a1").failed(&limited(50_000), false);
    pass(&pool, &provider, "p/a2").failed(&limited(20_000), false);
    let mut chosen: Vec<_> = (0..10)
        .map(|_| pool.choose(&provider, &all, "m").unwrap().credential().name.clone())
        .collect();
    chosen.sort();
    assert_eq!(chosen, [["p/b"; 5], ["p/own"; 5]].concat());
    for name in ["p/b", "p/own"] {
        pass(&pool, &provider, name).failed(&Fault::new(Outcome::KeyRefused, "no"), false);
    }
    let down = pool.choose(&provider, &all, "m").unwrap_err().unwrap();
    assert!((15_000..=20_000).contains(&down.left_ms), "{down:?}");
    assert_eq!((down.state, down.only_limited), (State::Resting, true));
    let resort = pool.soonest(&provider, &all, "m").unwrap();
    assert_eq!(resort.credential().name, "p/a2");
    assert!(pool.soonest(&provider, &all[2..], "m").is_none(), "refused keys are never sent");
    assert!(pool.choose(&provider, &[], "m").unwrap_err().is_none());
}
