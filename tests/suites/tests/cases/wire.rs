//! Cases of several requests on one connection, and of requests sent in parts.

use std::time::Duration;

use sluicegate_testkit::client::{Connection, Request};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::openai;
use sluicegate_testkit::upstream::Step;

use crate::own::{Gateway, LIMIT, request};

/// http-head-is-get-without-body, continued: no byte of a body follows, as the next reply shows.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_follows_the_head_of_a_head() {
    let gateway = Gateway::start(&["main"], &[], |_| Step::completion("ok")).await;
    let mut connection = Connection::open(gateway.process.traffic()).await.unwrap();
    for method in ["HEAD", "HEAD", "GET"] {
        let request = Request::new(method, "/v1/models").bearer("sk-cl-main");
        connection.send(&request).await;
        within(LIMIT, method, connection.read_to_end()).await.unwrap();
        let reply = connection.reply();
        assert_eq!((reply.status, reply.problems.as_slice()), (Some(200), &[][..]), "{reply:?}");
        assert!(reply.is_json(), "{reply:?}");
        assert_eq!(reply.text().contains("\"m1\""), method == "GET", "{reply:?}");
    }
}

/// http-expect-continue: who asks before it sends a body that is welcome is told to go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_welcome_body_is_asked_for() {
    let gateway = Gateway::start(&["main"], &[], |_| Step::completion("ok")).await;
    let body = openai::chat("m1", false);
    let whole = request("sk-cl-main", body.clone()).header("expect", "100-continue").to_bytes();
    let (head, body) = whole.split_at(whole.len() - body.len());
    let mut connection = Connection::open(gateway.process.traffic()).await.unwrap();
    connection.send_bytes(head).await;
    within(LIMIT, "100 Continue", connection.read_informational()).await.unwrap();
    connection.send_more(body).await;
    within(LIMIT, "the reply", connection.read_to_end()).await.unwrap();
    let reply = connection.into_reply();
    assert_eq!((reply.status, reply.informational.as_slice()), (Some(200), &[100][..]));
}

/// http-expect-continue-too-large, continued: the limit is the one that was set, and the connection
/// ends, for the body might still come.
#[tokio::test(flavor = "multi_thread")]
async fn an_unwelcome_body_is_refused_unsent() {
    let limit = ["--max-body-bytes", "100000"];
    let gateway = Gateway::start(&["main"], &limit, |_| Step::completion("ok")).await;
    let mut connection = Connection::open(gateway.process.traffic()).await.unwrap();
    let request = request("sk-cl-main", String::new())
        .header("expect", "100-continue")
        .header("content-length", "100001");
    connection.send(&request).await;
    let soon = Duration::from_secs(1);
    within(soon, "the refusal", connection.read_to_end()).await.unwrap();
    let reply = connection.into_reply();
    assert_eq!((reply.status, reply.informational.as_slice()), (Some(413), &[][..]), "{reply:?}");
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(gateway.upstream.count(), 0);
}
