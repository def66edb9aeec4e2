//! TLS and HTTP/2 towards upstreams, against a real server with a certificate of the test's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sluicegate_model::resource::HttpVersion;
use sluicegate_proxy::upstream::Clients;
use sluicegate_telemetry::task;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server on loopback that answers with the HTTP version it was asked in; returns its address and
/// a client configuration that trusts it.
async fn server() -> (SocketAddr, rustls::ClientConfig) {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    task::spawn("tls-upstream", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            task::spawn("tls-connection", async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let answer = service_fn(|request: Request<hyper::body::Incoming>| async move {
                    let version = format!("{:?}", request.version());
                    Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(version))))
                });
                let serving = auto::Builder::new(TokioExecutor::new());
                drop(serving.serve_connection(TokioIo::new(stream), answer).await);
            });
        }
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let trusting =
        rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (address, trusting)
}

async fn ask(
    clients: &Clients,
    version: HttpVersion,
    address: SocketAddr,
) -> Result<String, String> {
    let client = clients.get(version, Duration::from_secs(2), 8);
    let uri = format!("https://localhost:{}/v1/chat/completions", address.port());
    let request = Request::post(uri).body(Full::new(Bytes::from_static(b"{}"))).unwrap();
    let response = client.pooled.request(request).await.map_err(|error| format!("{error:?}"))?;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn tls_negotiates_http2_and_keeps_to_http1_when_told() {
    let (address, trusting) = server().await;
    let clients = Clients::new(trusting);
    let spoken = ask(&clients, HttpVersion::Auto, address).await;
    assert_eq!(spoken.as_deref(), Ok(format!("{:?}", Version::HTTP_2).as_str()));
    let spoken = ask(&clients, HttpVersion::Http1, address).await;
    assert_eq!(spoken.as_deref(), Ok(format!("{:?}", Version::HTTP_11).as_str()));
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let (address, _) = server().await;
    let refused = ask(&Clients::with_web_roots(), HttpVersion::Auto, address).await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
}
