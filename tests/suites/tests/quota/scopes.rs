//! Whom limits count.

use serde_json::{Value, json};
use sluicegate_testkit::client::{Reply, Request};

use crate::world::{World, chat, chat_with, detail};

/// So many requests of a month for each of `scope`.
fn month(name: &str, scope: Value, amount: u32) -> Value {
    json!({"name": name, "scope": scope, "dimension": "requests", "amount": amount, "window": "month"})
}

/// Asks in turn; each is admitted, or refused for the scope that is named.
async fn each(world: &World, asked: Vec<(Request, Option<&str>)>) {
    for (number, (request, refused)) in asked.into_iter().enumerate() {
        let reply: Reply = world.ask(&request).await;
        match refused {
            None => assert_eq!(reply.status, Some(200), "{number}: {}", reply.text()),
            Some(scope) => {
                assert_eq!(reply.status, Some(429), "{number}: {}", reply.text());
                assert_eq!(detail(&reply)["scope"], scope, "{number}: {}", reply.text());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_parts_of_a_scope_multiply() {
    let limit = month("each", json!({"tenant": "*", "model": "*"}), 1);
    let world = World::limited(json!([limit])).await;
    let model = |key: &str, model: &str| chat_with(key, "hi", json!({"model": model}));
    each(
        &world,
        vec![
            (model("alice", "m1"), None),
            (model("alice", "m2"), None),
            (model("alice", "m1"), Some("tenant=team,model=m1")),
            (model("bob", "m1"), Some("tenant=team,model=m1")),
            (model("bob", "m2"), Some("tenant=team,model=m2")),
            (model("other", "m1"), None),
            (model("other", "m1"), Some("tenant=other,model=m1")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_the_address_of_the_caller() {
    let world = World::limited(json!([month("each", json!({"address": "*"}), 2)])).await;
    each(
        &world,
        vec![
            (chat("alice", "hi"), None),
            (chat("other", "hi"), None),
            (chat("bob", "hi"), Some("address=127.0.0.1")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_the_application_that_the_caller_names() {
    let world = World::limited(json!([month("each", json!({"app": "*"}), 1)])).await;
    let from = |app: &str| chat("alice", "hi").header("X-App-Source", app);
    each(
        &world,
        vec![
            (from("editor"), None),
            (from("search"), None),
            (from("editor"), Some("app=editor")),
            // Who names none is not counted.
            (chat("alice", "hi"), None),
            (chat("alice", "hi"), None),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_the_user_of_the_key_or_of_the_request() {
    let world = World::limited(json!([month("each", json!({"user": "*"}), 1)])).await;
    let user = |key: &str, user: &str| chat_with(key, "hi", json!({"user": user}));
    each(
        &world,
        vec![
            (user("alice", "u1"), None),
            (user("bob", "u2"), None),
            (user("bob", "u1"), Some("user=u1")),
            // The key's own user stands before the one that the request names.
            (chat("carol", "hi"), None),
            (user("carol", "somebody-else"), Some("user=caroline")),
            (chat("alice", "hi"), None),
            (chat("alice", "hi"), None),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_a_tenants_limit_counts_all_below_it() {
    let limits = json!([
        month("all", json!({"tenant": "org"}), 4),
        month("each", json!({"tenant": "*"}), 2),
    ]);
    let world = World::limited(limits).await;
    each(
        &world,
        vec![
            (chat("alice", "hi"), None),
            (chat("bob", "hi"), None),
            (chat("team", "hi"), Some("tenant=team")),
            (chat("org", "hi"), None),
            (chat("org", "hi"), None),
            (chat("org", "hi"), Some("tenant=org")),
            (chat("other", "hi"), None),
        ],
    )
    .await;
    world.book.wait_for_used("all", crate::world::IDLE, 4.0).await.unwrap();
}
