//! HTTP/2 on both sides of the gateway: cleartext by prior knowledge, one connection, many streams.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its tasks need no drain"
)]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Method, Request, Response, StatusCode, Version,
    body::{Frame, Incoming},
    client::conn::http2::SendRequest,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_testkit::{
    cluster::Standalone,
    deadline::within,
    openai,
    record::record_of,
    upstream::{Step, Upstream as Scripted},
};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, sleep},
};

const LIMIT: Duration = Duration::from_secs(10);

/// An upstream that speaks nothing but HTTP/2 without TLS: it streams 60 chunks, 20 ms apart, and
/// knows how many streams are running.
struct Upstream {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    running: watch::Receiver<usize>,
}

/// Counts a stream while it lives.
struct Running(Arc<watch::Sender<usize>>);

impl Running {
    fn new(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

async fn upstream() -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let (count, running) = watch::channel(0);
    let (counted, count) = (connections.clone(), Arc::new(count));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let count = count.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let running = Running::new(&count);
                async move {
                    assert_eq!(request.version(), Version::HTTP_2);
                    drop(request.into_body().collect().await);
                    let (sender, receiver) = tokio::sync::mpsc::channel(1);
                    tokio::spawn(async move {
                        let _running = running;
                        for _ in 0..60 {
                            let chunk = Bytes::from(openai::delta("t"));
                            tokio::select! {
                                sent = sender.send(chunk) => if sent.is_err() { return },
                                () = sender.closed() => return,
                            }
                            tokio::select! {
                                () = sleep(Duration::from_millis(20)) => {}
                                () = sender.closed() => return,
                            }
                        }
                        let end = openai::finish("stop") + openai::USAGE + openai::DONE;
                        drop(sender.send(end.into()).await);
                    });
                    let events = tokio_stream::wrappers::ReceiverStream::new(receiver);
                    let frames = futures_util::StreamExt::map(events, |bytes| {
                        Ok::<_, std::convert::Infallible>(Frame::data(bytes))
                    });
                    let mut response = Response::new(StreamBody::new(frames));
                    let kind = "text/event-stream".parse().unwrap();
                    response.headers_mut().insert("content-type", kind);
                    Ok::<_, std::convert::Infallible>(response)
                }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    Upstream { address, connections, running }
}

async fn gateway(upstream: &Upstream) -> (Standalone, TempDir) {
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("gateway.yaml");
    let yaml = format!(
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://{}/v1\n    keyless: true\n    network: {{ http_version: h2c }}\nmodels:\n  - {{ name: m1, targets: [{{ provider: p }}] }}\napi_keys:\n  - {{ name: k, secret: {{ value: sk-client }} }}\n",
        upstream.address
    );
    std::fs::write(&config, yaml).unwrap();
    let gateway = Standalone::start(&config, &[], folder.path()).await.unwrap();
    (gateway, folder)
}

/// A gateway in front of an upstream that speaks HTTP/1.1, with a cap on each request as a whole.
async fn capped_gateway(upstream: SocketAddr, total: Duration) -> (Standalone, TempDir) {
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("gateway.yaml");
    let yaml = format!(
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://{upstream}/v1\n    keyless: true\n    timeouts: {{ first_event_ms: 1000, idle_ms: 30000, total_ms: {} }}\nmodels:\n  - {{ name: m1, targets: [{{ provider: p }}] }}\napi_keys:\n  - {{ name: k, secret: {{ value: sk-client }} }}\n",
        total.as_millis()
    );
    std::fs::write(&config, yaml).unwrap();
    let gateway = Standalone::start(&config, &[], folder.path()).await.unwrap();
    (gateway, folder)
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

fn chat(address: SocketAddr) -> Request<Full<Bytes>> {
    Request::post(format!("http://{address}/v1/chat/completions"))
        .header("authorization", "Bearer sk-client")
        .body(Full::new(Bytes::from_static(
            br#"{"model":"m1","stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
        )))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_fifty_streams_over_one_connection_arrive_whole() {
    let upstream = upstream().await;
    let (gateway, _folder) = gateway(&upstream).await;
    let sender = connect(gateway.traffic()).await;
    let streams = (0..50).map(|_| {
        let (mut sender, request) = (sender.clone(), chat(gateway.traffic()));
        tokio::spawn(async move {
            let response = sender.send_request(request).await.unwrap();
            assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
            for name in ["transfer-encoding", "connection", "keep-alive"] {
                assert!(!response.headers().contains_key(name), "{name} has no place in HTTP/2");
            }
            response.into_body().collect().await.unwrap().to_bytes()
        })
    });
    for stream in streams.collect::<Vec<_>>() {
        let body = within(LIMIT, "a stream", stream).await.unwrap().unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!(text.matches("\"content\":\"t\"").count(), 60);
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    // Who asks while the first connection is being made may make another.
    let connections = upstream.connections.load(Ordering::Relaxed);
    assert!((1..=2).contains(&connections), "{connections} connections for fifty streams");
}

/// cancel-stream-closes-upstream, over HTTP/2: RST_STREAM ends the upstream's stream within a
/// second, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_stream_ends_upstream_and_alone() {
    let mut upstream = upstream().await;
    let (gateway, _folder) = gateway(&upstream).await;
    let mut sender = connect(gateway.traffic()).await;
    let mut leaving = sender.send_request(chat(gateway.traffic())).await.unwrap().into_body();
    let staying = sender.send_request(chat(gateway.traffic())).await.unwrap().into_body();
    within(LIMIT, "the first event", leaving.frame()).await.unwrap().unwrap().unwrap();
    within(LIMIT, "both streams", upstream.running.wait_for(|running| *running == 2))
        .await
        .unwrap()
        .unwrap();
    drop(leaving);
    let second = Duration::from_secs(1);
    within(second, "the end of one", upstream.running.wait_for(|running| *running == 1))
        .await
        .unwrap()
        .unwrap();
    let body = within(LIMIT, "the other", staying.collect()).await.unwrap().unwrap().to_bytes();
    assert!(body.ends_with(b"data: [DONE]\n\n"));
}

/// Asks for an endless stream with a total time of 1.5 s, and reads none of it until `wait` is over.
async fn unread_stream<T>(
    wait: impl AsyncFnOnce(&Standalone, &Scripted, String, Instant) -> T,
) -> (T, String) {
    let delta = Bytes::from(openai::delta(&"t".repeat(200)));
    let endless = Step::Repeat { times: 100_000_000, gap: Duration::ZERO, bytes: delta };
    let upstream = Scripted::fixed(vec![Step::event_stream(), endless]).await.unwrap();
    let total = Duration::from_millis(1500);
    let (gateway, _folder) = capped_gateway(upstream.address(), total).await;
    let mut sender = connect(gateway.traffic()).await;
    let end_by = Instant::now() + total + Duration::from_secs(2);
    let response = sender.send_request(chat(gateway.traffic())).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let unread = response.into_body();
    let waited = wait(&gateway, &upstream, id.clone(), end_by).await;
    let body = within(LIMIT, "the end of the stream", unread.collect()).await.unwrap().unwrap();
    let record = record_of(gateway.stdout(), &id, LIMIT).await.unwrap();
    assert_eq!(record.outcome, "timeout", "{}", record.raw);
    assert_eq!(upstream.count(), 1);
    (waited, String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

/// timeout-total-ends-endless-stream, over HTTP/2: a reader that opens no window cannot keep the
/// upstream at work beyond the total time, and is told so when it reads on.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_opens_no_window_does_not_keep_the_upstream() {
    let (closed, text) = unread_stream(async |_, upstream, _, end_by| {
        upstream.wait_for_close(0, end_by.saturating_duration_since(Instant::now())).await
    })
    .await;
    closed.unwrap();
    assert!(text.contains("\"error\""), "no error event at the end");
    assert!(!text.contains("[DONE]"), "an end marker after an error");
}

/// timeout-total-ends-endless-stream, over HTTP/2: nor does it keep the record of its request back.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_opens_no_window_does_not_keep_the_record() {
    let (record, _) = unread_stream(async |gateway, _, id, end_by| {
        let left = end_by.saturating_duration_since(Instant::now());
        record_of(gateway.stdout(), &id, left).await
    })
    .await;
    assert_eq!(record.unwrap().outcome, "timeout");
}

/// http-head-is-get-without-body, over HTTP/2.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_is_answered_without_body() {
    let upstream = upstream().await;
    let (gateway, _folder) = gateway(&upstream).await;
    let mut sender = connect(gateway.traffic()).await;
    for method in [Method::HEAD, Method::GET] {
        let request = Request::builder()
            .method(&method)
            .uri(format!("http://{}/v1/models", gateway.traffic()))
            .header("authorization", "Bearer sk-client")
            .body(Full::default())
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.is_empty(), method == Method::HEAD, "{method}: {body:?}");
    }
}
