//! The operations port: health, readiness, metrics. No limiter, no policy, no key.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::json;
use sluicegate_telemetry::{metric, task};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    body::Body,
    metrics::Metrics,
    quota::Quota,
    sync::{Source, Status},
};

/// What the port can tell.
#[derive(Debug, Clone)]
pub struct Ops {
    pub metrics: Arc<Metrics>,
    pub status: watch::Receiver<Status>,
    pub quota: Arc<Quota>,
    /// Fires when the process drains.
    pub draining: CancellationToken,
}

impl Ops {
    fn answer(&self, method: &Method, path: &str) -> Response<Body> {
        if *method != Method::GET && *method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "use GET\n".into());
        }
        match path {
            "/healthz" => text(StatusCode::OK, "text/plain", "ok\n".into()),
            "/readyz" => self.ready(),
            "/metrics" => text(StatusCode::OK, metric::CONTENT_TYPE, self.metrics.render()),
            _ => text(
                StatusCode::NOT_FOUND,
                "text/plain",
                "try /healthz, /readyz or /metrics\n".into(),
            ),
        }
    }

    fn ready(&self) -> Response<Body> {
        let status = *self.status.borrow();
        let draining = self.draining.is_cancelled();
        let ready = status.ready() && !draining;
        let source = match status.source {
            Source::None => "none",
            Source::Cache => "cache",
            Source::ControlPlane => "control_plane",
        };
        let age =
            status.fresh_at.map(|at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX));
        let away = self.quota.away_ms();
        let body = json!({
            "ready": ready,
            "draining": draining,
            "policy": { "source": source, "revision": status.revision, "confirmed_ms_ago": age },
            "control_plane": { "connected": status.connected },
            "limits": { "degraded": away.is_some(), "degraded_ms": away.unwrap_or(0) },
        });
        let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        text(code, "application/json", format!("{body}\n"))
    }
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::unrecorded(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

/// Serves the port until `stop`.
pub async fn serve(listener: TcpListener, ops: Ops, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let ops = ops.clone();
        task::spawn("ops-connection", async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = ops.answer(request.method(), request.uri().path());
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            let serving = auto::Builder::new(TokioExecutor::new());
            if let Err(error) = serving.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "operations connection ended");
            }
        });
    }
}
