//! A gate in front of a service: only callers with the role's token come through.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use sluicegate_control_core::{Auth, Role};
use tonic::{body::Body, server::NamedService};
use tower_service::Service;

use crate::status;

/// A service behind the gate.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    auth: Arc<Auth>,
    role: Role,
}

impl<S> Guarded<S> {
    /// Puts `inner` behind the gate for `role`.
    pub(crate) fn new(inner: S, auth: Arc<Auth>, role: Role) -> Self {
        Self { inner, auth, role }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        // The clone that was ready does the call; the other one stays.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let (auth, role) = (self.auth.clone(), self.role);
        Box::pin(async move {
            match check(&auth, role, request.headers()).await {
                Ok(()) => inner.call(request).await,
                Err(message) => Ok(status::unauthenticated(&message).into_http()),
            }
        })
    }
}

async fn check(auth: &Auth, role: Role, headers: &HeaderMap) -> Result<(), String> {
    let name = role.name();
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Err(format!("the call needs the {name} token: authorization: Bearer TOKEN"));
    };
    let token = header.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    });
    match token {
        Some(token) if auth.verify(role, token).await => Ok(()),
        Some(_) => Err(format!("the token is not the {name} token")),
        None => Err("the authorization header is not 'Bearer TOKEN'".to_owned()),
    }
}
