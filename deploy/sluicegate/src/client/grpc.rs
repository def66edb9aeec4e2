//! Telling a control plane from whatever else listens at a wrong port.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use tonic::{Status, body::Body};
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Lets only answers in gRPC through.
#[derive(Debug, Clone)]
pub(crate) struct GrpcOnly<S>(pub(super) S);

/// Somebody answered in HTTP, but not in gRPC.
#[derive(Debug)]
pub(super) struct NotGrpc(StatusCode);

impl fmt::Display for NotGrpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {} without gRPC", self.0.as_u16())
    }
}

impl std::error::Error for NotGrpc {}

impl<S, B> Service<Request<Body>> for GrpcOnly<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await.map_err(Into::into)?;
            check(&answer).map(|()| answer)
        })
    }
}

fn check<B>(answer: &Response<B>) -> Result<(), BoxError> {
    let kind = answer.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if kind.starts_with(b"application/grpc") {
        return Ok(());
    }
    match answer.status() {
        // What a proxy says while the control plane behind it is away.
        status @ (StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT) => {
            Err(Status::unavailable(format!("HTTP {}", status.as_u16())).into())
        }
        status => Err(NotGrpc(status).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grpc_passes() {
        check_answer(200, "application/grpc", "");
        check_answer(200, "application/grpc+proto", "");
        check_answer(200, "application/json", "HTTP 200 without gRPC");
        check_answer(404, "text/plain", "HTTP 404 without gRPC");
        check_answer(401, "", "HTTP 401 without gRPC");
        check_answer(503, "text/html", "HTTP 503");

        #[track_caller]
        fn check_answer(status: u16, kind: &str, expected: &str) {
            let answer = Response::builder().status(status).header(CONTENT_TYPE, kind).body(());
            let said = check(&answer.unwrap()).err().map(|error| error.to_string());
            assert!(said.clone().unwrap_or_default().contains(expected), "{said:?}");
            assert_eq!(said.is_none(), expected.is_empty(), "{said:?}");
        }
    }
}
