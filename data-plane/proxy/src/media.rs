//! Getting images whose addresses a provider does not take.
//!
//! Only where the provider's configuration says so, from public addresses alone, within bounds of
//! time and size. Who may ask this gateway must not be able to reach through it what the gateway can
//! reach: each address that a name stands for is judged, and the connection goes to one that was.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use sluicegate_dialect::{
    Call, Unfit,
    chat::images::{self, Elsewhere, Got},
};
use sluicegate_model::address::is_public;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

/// Largest image, in bytes.
const MAX_IMAGE: usize = 20 * 1024 * 1024;
/// Most images of one request.
const MOST: usize = 16;
const REDIRECTS: usize = 3;
/// How long all images of one request may take together.
const LIMIT: Duration = Duration::from_secs(15);

/// Gets images.
#[derive(Debug, Clone)]
pub struct Fetcher {
    client: Client<HttpsConnector<HttpConnector<Judging>>, Empty<Bytes>>,
    allowed: fn(IpAddr) -> bool,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self::new(is_public)
    }
}

impl Fetcher {
    fn new(allowed: fn(IpAddr) -> bool) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Judging(allowed));
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(Duration::from_secs(3)));
        let tls = rustls::ClientConfig::builder().with_webpki_roots().with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Self { client, allowed }
    }

    /// The call with the bytes of every image that it names by address. `None`: it names none.
    ///
    /// # Errors
    /// An image that cannot be got, or must not be.
    pub async fn inline(&self, call: &Call, deadline: Instant) -> Result<Option<Call>, Unfit> {
        let wanted = images::elsewhere(call);
        if wanted.is_empty() {
            return Ok(None);
        }
        if wanted.len() > MOST {
            let message =
                format!("holds {} images by address; at most {MOST} are fetched", wanted.len());
            return Err(Unfit::invalid("messages", message));
        }
        let deadline = deadline.min(Instant::now() + LIMIT);
        let got = wanted.iter().map(|image| self.get(image, deadline));
        let got = futures_util::future::try_join_all(got).await?;
        let inlined = images::with_images(call, wanted.iter().zip(got));
        inlined.map(Some).map_err(|error| Unfit::invalid("messages", error))
    }

    async fn get(&self, image: &Elsewhere, deadline: Instant) -> Result<Got, Unfit> {
        let fault = |what: &str| {
            let message = format!("names an image that cannot be fetched: {what}");
            Unfit { code: "invalid_image_url", ..Unfit::invalid(&*image.param, message) }
        };
        let mut uri: Uri = image.url.parse().map_err(|_| fault("its address is no URL"))?;
        for _ in 0..=REDIRECTS {
            self.judge(&uri).map_err(fault)?;
            let late = |_| fault("it did not come in time");
            let request = Request::get(uri.clone())
                .header(header::ACCEPT, "image/*")
                .body(Empty::new())
                .map_err(|_| fault("its address is no URL"))?;
            let response =
                timeout_at(deadline, self.client.request(request)).await.map_err(late)?;
            let response = response.map_err(|_| fault("no connection to a public address"))?;
            let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
            if response.status().is_redirection() {
                let there = text(header::LOCATION).and_then(|there| resolved(&uri, there));
                uri = there.ok_or_else(|| fault("it is elsewhere, and nobody says where"))?;
                continue;
            }
            if !response.status().is_success() {
                return Err(fault(&format!("the answer was {}", response.status().as_u16())));
            }
            let mime = text(header::CONTENT_TYPE).and_then(|text| text.split(';').next());
            let mime = mime.map(str::trim).filter(|mime| mime.starts_with("image/"));
            let mime = mime.ok_or_else(|| fault("it is no image"))?.to_owned();
            let body = Limited::new(response.into_body(), MAX_IMAGE).collect();
            let body = timeout_at(deadline, body).await.map_err(late)?;
            let body = body.map_err(|_| fault("it is over 20 MiB, or broke off"))?;
            return Ok(Got { mime, bytes: body.to_bytes() });
        }
        Err(fault("it is passed on too often"))
    }

    /// An address that is written as a number is never looked up: it is judged here.
    fn judge(&self, uri: &Uri) -> Result<(), &'static str> {
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("only http and https are fetched");
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse() {
            Ok(address) if !(self.allowed)(address) => Err("its address is not public"),
            _ => Ok(()),
        }
    }
}

/// Where a redirect leads: another URL, or a path at the same host.
fn resolved(from: &Uri, there: &str) -> Option<Uri> {
    let uri: Uri = there.parse().ok()?;
    if uri.scheme().is_some() {
        return Some(uri);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = uri.path_and_query().cloned();
    Uri::from_parts(parts).ok()
}

/// Looks names up, and keeps the addresses that may be gone to.
#[derive(Debug, Clone, Copy)]
struct Judging(fn(IpAddr) -> bool);

impl Service<Name> for Judging {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let allowed = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let kept: Vec<_> = found.filter(|address| allowed(address.ip())).collect();
            if kept.is_empty() {
                return Err(io::Error::other("the name stands for no public address"));
            }
            Ok(kept.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_dialect::Endpoint;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn serve(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        sluicegate_telemetry::task::spawn("images", async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                assert!(head[..read].starts_with(b"GET /"));
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    fn call(url: &str) -> Call {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]}}"#
        );
        Call::parse(Endpoint::Chat, body.into()).unwrap()
    }

    async fn inlined(fetcher: &Fetcher, url: &str) -> Result<String, Unfit> {
        let deadline = Instant::now() + Duration::from_secs(5);
        let call = fetcher.inline(&call(url), deadline).await?.unwrap();
        Ok(String::from_utf8(call.body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn c1_images_are_fetched_within_bounds() {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let anywhere = Fetcher::new(|_| true);
        let address = serve(&[
            "HTTP/1.1 302 Found\r\nlocation: /b.png\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-type: image/png; q=1\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 30000000\r\nconnection: close\r\n\r\n",
        ])
        .await;
        let url = format!("http://{address}/a.png");
        let body = inlined(&anywhere, &url).await.unwrap();
        assert!(body.contains("data:image/png;base64,YWJj"), "{body}");
        for what in ["no image", "404", "20 MiB"] {
            let fault = inlined(&anywhere, &url).await.unwrap_err();
            assert!(fault.message.contains(what), "{what}: {fault}");
            assert_eq!(fault.code, "invalid_image_url");
        }
        let fault = inlined(&Fetcher::default(), &url).await.unwrap_err();
        assert!(fault.message.contains("not public"), "{fault}");
        let fault = inlined(&Fetcher::default(), "http://localhost:1/").await.unwrap_err();
        assert!(fault.message.contains("no connection to a public address"), "{fault}");
        assert!(!fault.message.contains("localhost"));
    }
}
