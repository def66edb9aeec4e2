//! The command line: every verb, and what holds for all of them.

use std::{ffi::OsStr, process::ExitCode};

use clap::{
    Arg, Command, Parser, Subcommand,
    builder::{PossibleValue, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};
use sluicegate_model::Kind;
use sluicegate_telemetry::log::LogFormat;

use crate::{roles, verbs};

/// A gateway for LLM traffic: one OpenAI-compatible address in front of many providers.
#[derive(Debug, Parser)]
#[command(
    name = "sluicegate",
    version,
    max_term_width = 100,
    after_help = "\
Start here:
  sluicegate init                                  write sluicegate.yaml
  sluicegate demo-upstream &                       a provider that needs no key
  sluicegate run --config sluicegate.yaml          the gateway, both planes in one process

Every day:
  sluicegate diff -f sluicegate.yaml               what would change
  sluicegate apply -f sluicegate.yaml --wait 1.0   change it, wait until every data plane runs it
  sluicegate nodes                                 who runs what
  sluicegate history && sluicegate rollback 41     undo
  sluicegate key-pool status                       which provider keys rest, and why
  sluicegate breaker status                        which targets are left alone, and why
  sluicegate degrade status                        what is taken away from requests, and why
  sluicegate limit status && sluicegate usage      who is held by what, and what was used
  sluicegate probe openai                          how a provider really behaves

Exit codes:
  0  done
  1  the thing asked for is not so: invalid file, differences, not found, conflict
  2  the command line makes no sense
  3  the control plane cannot be reached or does not let you in
  4  the control plane refused for another reason

Environment:
  SLUICEGATE_SERVER       admin address of the control plane
  SLUICEGATE_ADMIN_TOKEN  admin token (or --token-file, or .sluicegate/admin.token)
  NO_COLOR                no colours"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the gateway: both planes in one process
    Run(Box<roles::RunArgs>),
    /// Run a control plane: the admin API and the policy stream
    ControlPlane(Box<roles::ControlPlaneArgs>),
    /// Run a data plane: it serves callers by the policy of a control plane
    DataPlane(Box<roles::DataPlaneArgs>),
    /// Write a configuration file to start with
    Init(verbs::init::InitArgs),
    /// Check configuration files without a control plane
    Validate(verbs::validate::ValidateArgs),
    /// Print the JSON Schema of configuration files, for editors
    Schema,
    /// Make the control plane's configuration what files say
    Apply(verbs::apply::ApplyArgs),
    /// Show what applying files would change
    Diff(verbs::diff::DiffArgs),
    /// List resources, or print one
    Get(verbs::get::GetArgs),
    /// Explain one resource: its fields, what it uses and what uses it
    Describe(verbs::describe::DescribeArgs),
    /// Delete resources, all of them or none
    Delete(verbs::delete::DeleteArgs),
    /// Follow changes as they happen
    Watch(verbs::watch::WatchArgs),
    /// List past changes, newest first
    History(verbs::history::HistoryArgs),
    /// Undo every change after a revision, as a new change
    Rollback(verbs::rollback::RollbackArgs),
    /// Show the data planes: what each runs, how far behind it is, what it refused
    Nodes(verbs::nodes::NodesArgs),
    /// Find out how a provider really behaves, and what the gateway makes up for
    Probe(verbs::probe::ProbeArgs),
    /// Make and revoke the keys of callers
    #[command(subcommand)]
    Key(verbs::key::KeyVerb),
    /// Show how provider keys stand; let them rest, take them out of use and back
    #[command(subcommand)]
    KeyPool(verbs::key_pool::KeyPoolVerb),
    /// Show which targets are left alone, and force them open or closed
    #[command(subcommand)]
    Breaker(verbs::breaker::BreakerVerb),
    /// Show how far degradations have gone; set that by hand for a while
    #[command(subcommand)]
    Degrade(verbs::degrade::DegradeVerb),
    /// Show where limits stand; give single subjects other amounts
    #[command(subcommand)]
    Limit(verbs::limit::LimitVerb),
    /// Show requests that are kept for later, and cancel them
    #[command(subcommand)]
    Deferred(verbs::deferred::DeferredVerb),
    /// Show what was used: tokens, units and cost
    Usage(verbs::usage::UsageArgs),
    /// Run an OpenAI-compatible provider for trying things out
    DemoUpstream(verbs::demo_upstream::DemoUpstreamArgs),
    /// Print a completion script for a shell
    Completions(verbs::completions::CompletionsArgs),
}

impl Verb {
    /// Form and filter of the process log.
    pub(crate) fn log(&self) -> (LogFormat, &str) {
        let log = match self {
            Self::Run(args) => &args.log,
            Self::ControlPlane(args) => &args.log,
            Self::DataPlane(args) => &args.log,
            _ => return (LogFormat::Text, "warn"),
        };
        (log.log_format, &log.log)
    }
}

/// Prints what clap has to say: help on standard output, usage errors on standard error.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    if error.print().is_err() {
        tracing::debug!("nobody reads");
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Reads a kind in every spelling; lists the usual ones in help and completions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindParser;

impl TypedValueParser for KindParser {
    type Value = Kind;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Kind, clap::Error> {
        let text = value.to_string_lossy();
        text.parse().map_err(|_| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            if let Some(arg) = arg {
                error.insert(ContextKind::InvalidArg, ContextValue::String(arg.to_string()));
            }
            error.insert(ContextKind::InvalidValue, ContextValue::String(text.to_string()));
            let known = Kind::ALL.map(Kind::singular);
            let near = sluicegate_model::name::near_miss(&text, known);
            if let Some(near) = near {
                error.insert(ContextKind::SuggestedValue, ContextValue::String(near.into()));
            }
            let known = known.map(str::to_owned).to_vec();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(known));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            Kind::ALL
                .into_iter()
                .map(|kind| PossibleValue::new(kind.singular()).alias(kind.plural())),
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn kinds_in_every_spelling() {
        for (text, kind) in [("provider", Kind::Provider), ("api-keys", Kind::ApiKey)] {
            let cli = Cli::try_parse_from(["sluicegate", "describe", text, "n"]).unwrap();
            let Verb::Describe(args) = cli.verb else { panic!("describe") };
            assert_eq!(args.kind, kind);
        }
        let error = Cli::try_parse_from(["sluicegate", "describe", "modle", "n"]).unwrap_err();
        assert!(error.to_string().contains("model"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn secrets_have_no_option() {
        fn walk(command: &Command) {
            for arg in command.get_arguments() {
                let name = arg.get_long().unwrap_or_default();
                let secret = name.contains("token") || name.contains("password");
                let harmless = name.ends_with("-file") || name == "reset-admin-token";
                assert!(!secret || harmless, "--{name} puts a secret on the command line");
                assert!(arg.get_help().is_some(), "--{name} has no help");
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&Cli::command());
    }
}
