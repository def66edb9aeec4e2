//! The sluicegate binary: both planes, and the tools that talk to them.

mod change;
mod cli;
mod client;
mod demo_upstream;
mod failure;
mod files;
mod output;
mod private;
mod roles;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::{cli::Cli, failure::Failure};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::report(&error),
    };
    let (format, filter) = cli.verb.log();
    sluicegate_telemetry::log::init(format, filter);
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Failure::not_so(format!("cannot start the runtime: {error}")).report();
        }
    };
    match runtime.block_on(verbs::run(cli.verb)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
