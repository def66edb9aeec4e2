//! `demo-upstream`: a provider for trying things out.

use std::net::SocketAddr;

use clap::Args;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{demo_upstream, failure::Failure, output::print};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate demo-upstream
  curl http://127.0.0.1:9000/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{\"model\": \"demo\", \"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}'

It echoes what it was told, word by word, the same every time. With tools, 'call NAME' makes it call
one. It needs no key and looks at none. Not a model: for trials and tests.")]
pub(crate) struct DemoUpstreamArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
}

/// Runs the verb until a signal ends it.
///
/// # Errors
/// When the address cannot be had.
pub(crate) async fn run(args: DemoUpstreamArgs) -> Result<(), Failure> {
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| Failure::not_so(format!("cannot listen on {}: {error}", args.listen)))?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::not_so(format!("the listener has no address: {error}")))?;
    let mut interrupt = stop_signal(SignalKind::interrupt())?;
    let mut terminate = stop_signal(SignalKind::terminate())?;
    print(&format!("demo upstream answers at http://{address}/v1 (Ctrl-C ends it)\n"))?;
    let stopped = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(demo_upstream::serve(listener, stopped).await?)
}

fn stop_signal(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind).map_err(|error| Failure::not_so(format!("cannot listen for signals: {error}")))
}
