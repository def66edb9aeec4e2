//! An OpenAI-compatible provider for trials: deterministic, keyless, no model behind it.

mod answer;
mod chat;
mod completion;
mod embedding;
mod reply;

use std::{convert::Infallible, future::Future, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use serde_json::{Value, json};
use sluicegate_telemetry::{clock, task};
use tokio::net::TcpListener;

use self::reply::{Fault, Reply};

/// Largest request body in bytes.
const MAX_BODY: usize = 64 << 20;

/// How long running answers may finish after the stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Pause after a failed accept: the host may be out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The models that it lists. It answers for any other name too.
const MODELS: [&str; 2] = ["demo", "demo-embedding"];

/// Answers on `listener` until `shutdown` is done; then running answers finish, within seconds.
///
/// # Errors
/// None at present; a listener that fails is tried again.
pub(crate) async fn serve(
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let connections = GracefulShutdown::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn off Nagle's algorithm");
        }
        let server = Builder::new(TokioExecutor::new());
        let connection = server
            .serve_connection(
                TokioIo::new(stream),
                service_fn(async |request| Ok::<_, Infallible>(answer(request).await)),
            )
            .into_owned();
        let connection = connections.watch(connection);
        task::spawn("demo_upstream_connection", async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended badly");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, connections.shutdown()).await.is_err() {
        tracing::debug!("answers were still running at the end");
    }
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Reply {
    match route(request).await {
        Ok(reply) => reply,
        Err(fault) => reply::error(&fault),
    }
}

async fn route(request: Request<Incoming>) -> Result<Reply, Fault> {
    let path = request.uri().path().to_owned();
    let path = path.trim_end_matches('/');
    let handler: fn(&Value) -> Result<Reply, Fault> = match path {
        "/v1/chat/completions" => chat::reply,
        "/v1/completions" => completion::reply,
        "/v1/embeddings" => embedding::reply,
        _ => return models(request.method(), path),
    };
    if request.method() != Method::POST {
        return Err(Fault::method(request.method(), "POST"));
    }
    let body = read(request).await?;
    let value: Value = serde_json::from_slice(&body)
        .map_err(|error| Fault::bad(format!("the body is not JSON: {error}"), None))?;
    if !value.is_object() {
        return Err(Fault::bad("the body must be an object", None));
    }
    handler(&value)
}

async fn read(request: Request<Incoming>) -> Result<Bytes, Fault> {
    match Limited::new(request.into_body(), MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Fault {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            ..Fault::bad("the body is larger than 64 MiB", None)
        }),
        Err(error) => Err(Fault::bad(format!("the body broke off: {error}"), None)),
    }
}

fn models(method: &Method, path: &str) -> Result<Reply, Fault> {
    let model = |id: &str| json!({ "id": id, "object": "model", "created": 0, "owned_by": "demo" });
    let name = path.strip_prefix("/v1/models/");
    if path != "/v1/models" && name.is_none() {
        return Err(Fault {
            status: StatusCode::NOT_FOUND,
            code: Some("unknown_url"),
            ..Fault::bad(format!("unknown path: {method} {path}"), None)
        });
    }
    if method != Method::GET {
        return Err(Fault::method(method, "GET"));
    }
    match name {
        None => Ok(reply::json(&json!({ "object": "list", "data": MODELS.map(model) }))),
        Some(name) if MODELS.contains(&name) => Ok(reply::json(&model(name))),
        Some(name) => Err(Fault {
            status: StatusCode::NOT_FOUND,
            code: Some("model_not_found"),
            ..Fault::bad(format!("the model '{name}' does not exist"), Some("model"))
        }),
    }
}

/// The model name of a request.
fn model_name(request: &Value) -> Result<&str, Fault> {
    match request.get("model") {
        Some(Value::String(name)) if !name.is_empty() => Ok(name),
        _ => Err(Fault::bad("you must provide a model", Some("model"))),
    }
}

/// A flag of a request; absent and null are `false`.
fn flag(request: &Value, name: &'static str) -> Result<bool, Fault> {
    match request.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Fault::bad(format!("'{name}' must be true or false"), Some(name))),
    }
}

/// Does the caller want the usage at the end of a stream?
fn wants_usage(request: &Value) -> bool {
    request.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false)
}

/// An id that is the same for the same request.
fn id(prefix: &str, request: &Value) -> String {
    let hash = blake3::hash(request.to_string().as_bytes()).to_hex();
    format!("{prefix}-demo{}", hash.chars().take(20).collect::<String>())
}

/// Seconds since the Unix epoch.
fn created() -> u64 {
    clock::since_epoch().as_secs()
}
