//! What is not kept, and what its caller is told.

use serde_json::json;

use crate::world::{ALICE, Alone, code};

#[tokio::test(flavor = "multi_thread")]
async fn b2_what_cannot_be_kept_is_refused_as_without_it_and_says_why() {
    let world = Alone::start().await;
    let alice = world.caller(ALICE);
    let body = json!({
        "model": "later", "stream": true, "messages": [{ "role": "user", "content": "hi" }],
    });
    let reply = alice.post(&body, &[]).await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(502), "upstream_error"));
    let text = reply.text();
    assert!(text.contains("a stream cannot be kept for later"), "{text}");
    let large = "x".repeat(9 << 20);
    let reply = alice.ask("later", &large, &[]).await;
    assert!(matches!(reply.status, Some(502 | 503)), "{}", reply.text());
    assert!(reply.text().contains("limited to 8384512 bytes"), "{}", reply.text());
    // A model that does not offer it refuses as ever.
    let reply = alice.ask("now", "hi", &[]).await;
    assert!(matches!(reply.status, Some(502 | 503)), "{}", reply.text());
    assert!(!reply.text().contains("later"), "{}", reply.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_wish_that_cannot_be_met_is_refused() {
    let world = Alone::start().await;
    world.target.heal();
    let alice = world.caller(ALICE);
    let wish = ("x-sluicegate-defer", "true");
    let reply = alice.ask("now", "hi", &[wish]).await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(400), "not_deferrable"));
    let stream = json!({ "model": "later", "stream": true, "messages": [] });
    let reply = alice.post(&stream, &[wish]).await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(400), "not_deferrable"));
    let reply = alice.ask("nothing", "hi", &[wish]).await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(404), "model_not_found"));
    let reply = alice.ask("later", &"x".repeat(9 << 20), &[wish]).await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(413), "deferred_too_large"));
    let private = [
        wish,
        ("x-sluicegate-webhook-url", "https://10.0.0.1/"),
        ("x-sluicegate-webhook-secret", "whsec_c2VjcmV0IG9mIGEgY2FsbGVyJ3Mgc2VydmVy"),
    ];
    for (headers, says) in [
        (&[wish, ("x-sluicegate-defer-expires-ms", "-1")][..], "expires-ms is no time"),
        (&[wish, ("idempotency-key", &"k".repeat(257))], "idempotency-key is over 256 bytes"),
        (&private, "webhook.url"),
    ] {
        let reply = alice.ask("later", "hi", headers).await;
        assert_eq!((reply.status, code(&reply).as_str()), (Some(400), "invalid_deferral"));
        assert!(reply.text().contains(says), "{}", reply.text());
    }
    assert_eq!(world.target.upstream.count(), 0, "none of them was tried");
}
