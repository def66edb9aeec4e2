//! HTTP/2 on both sides of the gateway: cleartext by prior knowledge, one connection, many streams.

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
    Request, Response, StatusCode, Version,
    body::{Frame, Incoming},
    client::conn::http2::SendRequest,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_testkit::{cluster::Standalone, deadline::within, openai};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
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
    assert_eq!(upstream.connections.load(Ordering::Relaxed), 1, "streams share a connection");
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
