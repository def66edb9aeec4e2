//! What callers see, with everything in one process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use sluicegate_testkit::record::AccessRecord;
use sluicegate_testkit::upstream::{Call, Step, Upstream};

use crate::world::{ALICE, Alone, BOB, LIMIT, code, content};

const WEBHOOK_SECRET: &str = "whsec_c2VjcmV0IG9mIGEgY2FsbGVyJ3Mgc2VydmVy";

#[tokio::test(flavor = "multi_thread")]
async fn b2_what_cannot_be_run_is_kept_and_its_answer_fetched_when_the_target_is_well() {
    let world = Alone::start().await;
    let alice = world.caller(ALICE);
    let reply = alice.ask("someday", "hi", &[("x-app-source", "tests")]).await;
    assert_eq!(reply.status, Some(202), "{}", reply.text());
    let taken = reply.json().unwrap();
    let id = taken["id"].as_str().unwrap();
    println!("{taken}");
    assert_eq!(reply.header("location"), Some(format!("/v1/deferred/{id}").as_str()));
    assert!(reply.header("retry-after").is_some_and(|seconds| seconds != "0"));
    assert_eq!((&taken["object"], &taken["status"]), (&json!("deferred"), &json!("queued")));
    assert_eq!((&taken["model"], &taken["durable"]), (&json!("someday"), &json!(true)));
    let lasts = taken["expires_at"].as_u64().unwrap() - taken["created_at"].as_u64().unwrap();
    assert!((86_390..=86_400).contains(&lasts), "{lasts}");
    assert!(taken["estimated_wait_ms"].is_u64());

    let waiting = alice.get(id).await;
    assert!(waiting.header("retry-after").is_some(), "{}", waiting.text());
    assert!(matches!(waiting.json().unwrap()["status"].as_str(), Some("queued" | "running")));

    world.target.heal();
    let done = alice.ended(id).await;
    println!("{done}");
    assert_eq!(done["status"], "done", "{done}");
    let calls = world.target.calls_about("hi");
    let last = calls.last().unwrap();
    assert_eq!(content(&done), format!("hi #{}", last.number));
    assert_eq!(last.header("idempotency-key"), Some(id));
    let response = &done["response"];
    assert_eq!(response["status_code"], 200);
    assert_eq!(response["headers"]["content-type"], "application/json");
    assert_eq!(response["body"]["usage"]["total_tokens"], 9);
    // It stays as it is.
    assert_eq!(alice.standing(id).await["response"], *response);

    let ran = |line: &str| {
        AccessRecord::parse(line)
            .filter(|record| record.deferred.as_deref() == Some(id) && record.outcome == "success")
            .filter(|record| record.usage.is_some())
    };
    let record = world.gateway.stdout().find(LIMIT, "the record of the run", ran).await.unwrap();
    assert_eq!(record.key.as_deref(), Some("alice"));
    assert!(record.raw.contains(r#""app":"tests""#), "{}", record.raw);
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_who_is_in_no_hurry_is_not_tried_but_kept() {
    let world = Alone::start().await;
    world.target.heal();
    let alice = world.caller(ALICE);
    let id = alice.taken("batch", &[("x-sluicegate-defer", "true")]).await;
    let done = alice.ended(&id).await;
    assert_eq!((&done["status"], &done["attempts"]), (&json!("done"), &json!(1)), "{done}");
    assert_eq!(world.target.calls_about("batch").len(), 1);
    // Without the wish, what can be answered is.
    let reply = alice.ask("later", "at once", &[]).await;
    assert_eq!((reply.status, reply.header("location")), (Some(200), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_request_that_is_cancelled_is_never_run() {
    let world = Alone::start().await;
    let alice = world.caller(ALICE);
    let id = alice.taken("never mind", &[]).await;
    let cancelled = alice.delete(&id).await;
    assert_eq!(cancelled.status, Some(200), "{}", cancelled.text());
    assert_eq!(cancelled.json().unwrap()["status"], "cancelled");
    let before = world.target.calls_about("never mind").len();
    world.target.heal();
    // One that came after it is run.
    let other = alice.taken("after it", &[("x-sluicegate-defer", "true")]).await;
    assert_eq!(alice.ended(&other).await["status"], "done");
    assert_eq!(world.target.calls_about("never mind").len(), before);
    assert_eq!(alice.standing(&id).await["status"], "cancelled");
    // What has ended stays as it is.
    let too_late = alice.delete(&other).await;
    assert_eq!(too_late.json().unwrap()["status"], "done", "{}", too_late.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_what_nobody_could_run_in_time_expires() {
    let world = Alone::start().await;
    let alice = world.caller(ALICE);
    let id = alice.taken("soon", &[("x-sluicegate-defer-expires-ms", "700")]).await;
    let ended = alice.ended(&id).await;
    assert_eq!((&ended["status"], &ended["response"]), (&json!("expired"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_the_same_idempotency_key_is_the_same_request() {
    let world = Alone::start().await;
    let (alice, bob) = (world.caller(ALICE), world.caller(BOB));
    let named = [("idempotency-key", "order-7")];
    let id = alice.taken("order 7", &named).await;
    assert_eq!(alice.taken("order 7", &named).await, id);
    assert_ne!(bob.taken("order 7", &named).await, id, "another caller's");
    assert_ne!(alice.taken("order 7", &[]).await, id, "without a name each is its own");
    world.target.heal();
    let done = alice.ended(&id).await;
    // Asked for once more, it is told as it stands.
    let again = [("idempotency-key", "order-7"), ("x-sluicegate-defer", "true")];
    let reply = alice.ask("later", "order 7", &again).await;
    assert_eq!(reply.status, Some(200), "{}", reply.text());
    assert_eq!(reply.json().unwrap()["response"], done["response"]);
    // Another request is not the same, and must not get its answer.
    let other = alice.ask("later", "order 8", &again).await;
    println!("{:?} {}", other.status, other.text());
    assert_eq!(other.status, Some(400), "{}", other.text());
    assert!(other.text().contains("was used for another request"), "{}", other.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_webhook_is_told_and_signed() {
    let receiver = Upstream::fixed(Step::json(200, "{}")).await.unwrap();
    let world = Alone::start().await;
    let alice = world.caller(ALICE);
    let url = format!("http://{}/hook", receiver.address());
    let headers = [
        ("x-sluicegate-webhook-url", url.as_str()),
        ("x-sluicegate-webhook-secret", WEBHOOK_SECRET),
    ];
    let id = alice.taken("tell me", &headers).await;
    world.target.heal();
    let done = alice.ended(&id).await;
    receiver.wait_for_calls(1, LIMIT).await.unwrap();
    let told = receiver.calls(|_| true).remove(0);
    println!("{}", String::from_utf8_lossy(&told.body));
    assert_eq!(signature(&told), told.header("webhook-signature").unwrap());
    let text = String::from_utf8_lossy(&told.body);
    assert!(text.contains(&id) && text.contains(content(&done)), "{text}");
    // Half a webhook is none.
    world.target.fall_ill();
    let reply = alice.ask("later", "x", &headers[..1]).await;
    assert_ne!(reply.status, Some(202));
    assert!(reply.text().contains("x-sluicegate-webhook-secret is missing"), "{}", reply.text());
}

/// As the Standard Webhooks specification has it.
fn signature(call: &Call) -> String {
    let key = STANDARD.decode(WEBHOOK_SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let header = |name| call.header(name).unwrap();
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(&call.body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_others_requests_are_not_there() {
    let world = Alone::start().await;
    let (alice, bob) = (world.caller(ALICE), world.caller(BOB));
    let id = alice.taken("mine", &[]).await;
    for reply in [bob.get(&id).await, bob.delete(&id).await, alice.get("def_0").await] {
        assert_eq!((reply.status, code(&reply).as_str()), (Some(404), "deferred_not_found"));
    }
    let odd = alice.get("a%20b").await;
    assert_eq!((odd.status, code(&odd).as_str()), (Some(404), "deferred_not_found"));
    assert!(matches!(alice.standing(&id).await["status"].as_str(), Some("queued" | "running")));
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_limits_hold_when_a_request_is_run_and_make_it_wait() {
    let world = Alone::with(|config| {
        config["limits"] = json!([{
            "name": "at-once", "scope": { "key": "*" }, "dimension": "concurrency", "amount": 1,
        }]);
    })
    .await;
    let alice = world.caller(ALICE);
    world.target.heal();
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(alice.taken(&format!("limited {n}"), &[("x-sluicegate-defer", "true")]).await);
    }
    for id in ids {
        assert_eq!(alice.ended(&id).await["status"], "done");
    }
    assert_eq!(world.target.upstream.count(), 6);
    // One that never fits ends with what the limit says.
    let world = Alone::with(|config| {
        config["limits"] = json!([{
            "name": "tokens", "scope": { "key": "*" }, "dimension": "tokens", "rate": "10/minute",
        }]);
    })
    .await;
    let alice = world.caller(ALICE);
    let id = alice.taken(&"much ".repeat(200), &[("x-sluicegate-defer", "true")]).await;
    let ended = alice.ended(&id).await;
    assert_eq!(
        (&ended["status"], &ended["response"]["status_code"]),
        (&json!("failed"), &json!(429))
    );
    assert_eq!(ended["response"]["body"]["error"]["code"], "request_exceeds_limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_what_a_key_may_no_more_ends_with_that_error() {
    let world = Alone::start().await;
    let alice = world.caller(ALICE);
    let id = alice.taken("forbidden", &[]).await;
    let mut config = world.target.config();
    config["api_keys"][0]["models"] = json!(["now"]);
    std::fs::write(world.folder.path().join("config.yaml"), config.to_string()).unwrap();
    let changed = async {
        while alice.ask("later", "still?", &[("x-sluicegate-defer", "true")]).await.status
            != Some(403)
        {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    sluicegate_testkit::deadline::within(LIMIT, "the change", changed).await.unwrap();
    let before = world.target.calls_about("forbidden").len();
    world.target.heal();
    let ended = alice.ended(&id).await;
    assert_eq!(
        (&ended["status"], &ended["response"]["status_code"]),
        (&json!("failed"), &json!(403))
    );
    assert_eq!(ended["response"]["body"]["error"]["code"], "model_not_allowed");
    assert_eq!(world.target.calls_about("forbidden").len(), before, "it was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_operators_see_what_is_kept_and_cancel_it() {
    let world = Alone::start().await;
    let (alice, bob) = (world.caller(ALICE), world.caller(BOB));
    let (first, second) = (alice.taken("secret words", &[]).await, bob.taken("x", &[]).await);
    let listed = world.admin(&["deferred", "list", "-o", "json"]).await;
    let ids: Vec<_> = listed["requests"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&json!(first), &json!(second)], "{listed}");
    let one = &listed["requests"][0];
    assert_eq!((&one["key"], &one["tenant"]), (&json!("alice"), &json!("a")));
    assert_eq!(one["model"], "later");
    assert!(!listed.to_string().contains("secret words"));
    let none = world.admin(&["deferred", "list", "--status", "done", "-o", "json"]).await;
    assert_eq!(none["requests"], json!([]));
    let cancelled = world.admin(&["deferred", "cancel", &second, "-o", "json"]).await;
    assert_eq!(cancelled["cancelled"], true);
    assert_eq!(bob.standing(&second).await["status"], "cancelled");
    world.target.heal();
    alice.ended(&first).await;
    let shown = world.admin(&["deferred", "get", &first, "-o", "json"]).await;
    assert_eq!((&shown["status"], &shown["status_code"]), (&json!("done"), &json!(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_process_that_dies_keeps_what_it_took() {
    let mut world = Alone::start().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.caller(ALICE).taken(&format!("kept {n}"), &[]).await);
    }
    world.gateway.restart().await.unwrap();
    world.target.heal();
    for (n, id) in ids.iter().enumerate() {
        let done = world.caller(ALICE).ended(id).await;
        assert!(content(&done).starts_with(&format!("kept {n} ")), "{done}");
    }
}
