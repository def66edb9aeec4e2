//! Talking to a control plane: where it is, who we are, how long we wait.

mod connect;
mod grpc;
mod status;
mod token;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use sluicegate_proto::admin::v1::{ApplyReply, ApplyRequest, admin_client::AdminClient};
use tokio::time::Instant;
use tonic::{
    Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_types::StatusExt;

use self::grpc::GrpcOnly;
pub(crate) use self::{
    status::{Faults, faults, is_stranger},
    token::Token,
};
use crate::{failure::Failure, output::Output};

/// Where the control plane of `sluicegate run` listens.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:9180";

/// Largest message that is read: a page of 5000 large resources fits.
const MAX_MESSAGE: usize = 256 << 20;

/// Waits between attempts of a call that may be repeated.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Options of every command that talks to a control plane.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Control plane and output")]
pub(crate) struct ClientOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Which control plane, and how to talk to it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Control plane and output")]
pub(crate) struct ServerOptions {
    /// Admin address of the control plane; https with a certificate of the system or of --ca-file
    #[arg(long, env = "SLUICEGATE_SERVER", value_name = "URL", default_value = DEFAULT_SERVER)]
    pub(crate) server: String,
    /// File with the admin token, read when SLUICEGATE_ADMIN_TOKEN is not set.
    /// Without either: admin.token in SLUICEGATE_STATE_DIR or .sluicegate, where 'run' leaves it
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// PEM file with the certificate authority of an https server
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// How long to wait for an answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(crate) timeout_ms: u64,
}

/// The generated client, authorized.
pub(crate) type Admin = AdminClient<InterceptedService<GrpcOnly<Channel>, Bearer>>;

/// Adds the admin token to every call.
#[derive(Debug, Clone)]
pub(crate) struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// A connection to one control plane.
#[derive(Debug)]
pub(crate) struct Client {
    admin: Admin,
    server: String,
    /// Where the token came from, for the message that says it was not accepted.
    token_from: String,
    timeout: Duration,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When there is no usable token, or nobody answers.
    pub(crate) async fn connect(options: &ClientOptions) -> Result<Self, Failure> {
        Self::connect_to(&options.server).await
    }

    /// As [`Client::connect`], for commands with forms of output of their own.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn connect_to(options: &ServerOptions) -> Result<Self, Failure> {
        let token = token::find(options.token_file.as_deref())?;
        let timeout = Duration::from_millis(options.timeout_ms);
        Self::connect_as(&options.server, options.ca_file.as_deref(), token, timeout).await
    }

    /// Connects with a token that is known already.
    ///
    /// # Errors
    /// When the token or the URL is unusable, or nobody answers.
    pub(crate) async fn connect_as(
        server: &str,
        ca_file: Option<&Path>,
        token: Token,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let mut bearer: MetadataValue<Ascii> = format!("Bearer {}", token.secret.expose())
            .parse()
            .map_err(|_| Failure::usage(format!("{} holds no usable token", token.from)))?;
        bearer.set_sensitive(true);
        let server = connect::url(server)?;
        let channel = connect::channel(&server, ca_file, timeout).await?;
        let admin = AdminClient::with_interceptor(GrpcOnly(channel), Bearer(bearer))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Ok(Self { admin, server, token_from: token.from, timeout })
    }

    /// Makes one call that has one answer. `wait` is time that the server may take beyond the usual.
    ///
    /// # Errors
    /// What the server says, in the user's words.
    pub(crate) async fn call<Q, R>(
        &mut self,
        message: Q,
        wait: Duration,
        rpc: impl AsyncFnOnce(&mut Admin, Request<Q>) -> Result<Response<R>, Status>,
    ) -> Result<R, Failure> {
        let limit = self.timeout + wait;
        let outcome = within(limit, rpc(&mut self.admin, request(message, limit))).await;
        outcome.map_err(|status| self.failure(&status))
    }

    /// Applies changes. Carries an idempotency key, so a control plane that is away for a moment is
    /// asked again until the time is over.
    ///
    /// # Errors
    /// The last answer.
    pub(crate) async fn apply(
        &mut self,
        message: ApplyRequest,
        wait: Duration,
    ) -> Result<ApplyReply, Status> {
        let deadline = Instant::now() + self.timeout + wait;
        let mut pause = FIRST_RETRY;
        loop {
            let limit = deadline.saturating_duration_since(Instant::now());
            let outcome = within(limit, self.admin.apply(request(message.clone(), limit))).await;
            let status = match outcome {
                Err(status) if status::is_passing(&status) => status,
                done => return done,
            };
            let asked = status.get_details_retry_info().and_then(|retry| retry.retry_delay);
            let next = asked.unwrap_or(pause);
            if Instant::now() + next >= deadline {
                return Err(status);
            }
            tracing::debug!(message = status.message(), "no answer; asking again");
            tokio::time::sleep(next).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
    }

    /// Opens a stream. Only its beginning is bounded in time.
    ///
    /// # Errors
    /// As the server says it.
    pub(crate) async fn open<Q, R>(
        &mut self,
        message: Q,
        rpc: impl AsyncFnOnce(&mut Admin, Request<Q>) -> Result<Response<R>, Status>,
    ) -> Result<R, Status> {
        within(self.timeout, rpc(&mut self.admin, Request::new(message))).await
    }

    /// What a status means to the user.
    pub(crate) fn failure(&self, status: &Status) -> Failure {
        status::failure(status, &self.server, &self.token_from)
    }
}

fn request<Q>(message: Q, limit: Duration) -> Request<Q> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

/// The answer's message, or a status that says how long nobody answered.
async fn within<R>(
    limit: Duration,
    call: impl Future<Output = Result<Response<R>, Status>>,
) -> Result<R, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(outcome) => outcome.map(Response::into_inner),
        Err(_) => {
            Err(Status::deadline_exceeded(format!("no answer within {} ms", limit.as_millis())))
        }
    }
}
