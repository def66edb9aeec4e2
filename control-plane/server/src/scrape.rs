//! Reading what servers say of themselves, over HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::{
    Request, StatusCode, Uri,
    header::{ACCEPT, USER_AGENT},
};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use sluicegate_control_core::degrade::Scraper;

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Prometheus' text format. (Exposition formats, prometheus.io.)
const TEXT: &str = "text/plain;version=0.0.4;q=1,*/*;q=0.1";

/// Gets metrics. It trusts the web's authorities, as the calls to providers do, follows no redirect and
/// sends no key.
#[derive(Debug)]
pub(crate) struct HttpScraper(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

impl HttpScraper {
    pub(crate) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        let tls = rustls::ClientConfig::builder().with_webpki_roots().with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let mut client = Client::builder(TokioExecutor::new());
        client.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_max_idle_per_host(1);
        Self(client.build(connector))
    }
}

#[tonic::async_trait]
impl Scraper for HttpScraper {
    async fn scrape(&self, url: &Uri, limit: usize) -> Result<Bytes, String> {
        let request = Request::get(url.clone())
            .header(ACCEPT, TEXT)
            .header(USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| error.to_string())?;
        let answer = self.0.request(request).await.map_err(|error| said(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(format!("status {}", answer.status().as_u16()));
        }
        let body = Limited::new(answer.into_body(), limit).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| error.to_string())
    }
}

/// With what is behind it, which is what says something.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(error) = at {
        text.push_str(": ");
        text.push_str(&error.to_string());
        at = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use axum::{Router, response::Redirect, routing::get};
    use sluicegate_control_core::degrade::MAX_BODY;
    use sluicegate_telemetry::task;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn b4_what_is_read_is_whole_small_and_where_it_was_asked_for() {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/metrics", get(async || "up 1\n"))
            .route("/large", get(async || "x".repeat(MAX_BODY + 1)))
            .route("/fits", get(async || "x".repeat(MAX_BODY)))
            .route("/away", get(async || Redirect::temporary("/metrics")));
        let serving = task::spawn("served", async move { axum::serve(listener, app).await });
        let scraper = HttpScraper::new();
        let get = async |path: &str| {
            let url = format!("http://{address}{path}").parse().unwrap();
            scraper.scrape(&url, MAX_BODY).await.map(|body| body.len())
        };
        assert_eq!(get("/metrics").await, Ok(5));
        assert_eq!(get("/fits").await, Ok(MAX_BODY));
        assert_eq!(get("/large").await, Err("length limit exceeded".to_owned()));
        assert_eq!(get("/away").await, Err("status 307".to_owned()));
        assert_eq!(get("/nothing").await, Err("status 404".to_owned()));
        serving.abort();
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let url = format!("http://{nobody}/metrics").parse().unwrap();
        assert!(scraper.scrape(&url, MAX_BODY).await.unwrap_err().contains("refused"));
    }
}
