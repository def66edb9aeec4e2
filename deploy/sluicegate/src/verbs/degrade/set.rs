//! `degrade set`, `degrade clear`.

use clap::Args;
use sluicegate_model::Kind;
use sluicegate_proto::resource::v1::{Degradation, DegradationByHand, resource::Spec};
use sluicegate_telemetry::clock::{self, format_unix_ms};

use crate::{
    change::{Put, Telling, WaitArgs},
    client::{Client, ClientOptions},
    failure::Failure,
    verbs::{get, limit::span_ms},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate degrade set memory 2 --for 10m --comment 'engine is being restarted' --wait 1.0
  sluicegate degrade set memory 0 --for 1h --comment 'the metric lies'

1 strips tools by name, 2 strips all tools, 3 answers with a maintenance reply; 0 takes nothing away,
whatever the conditions say. It ends by itself, on data planes also while no control plane is there.
It is in the history, and holds until it is undone, or until a watched file that declares the
degradation is saved or read anew: change the file, too.")]
pub(crate) struct SetArgs {
    /// Name of the degradation
    name: String,
    /// 0 to 3; one that it declares, or 0
    #[arg(value_parser = clap::value_parser!(u32).range(0..=3))]
    level: u32,
    /// How long, such as 90s, 10m, 12h
    #[arg(long = "for", value_name = "SPAN", value_parser = span_ms)]
    span: u64,
    /// Why, for those who look later
    #[arg(long, value_name = "TEXT")]
    comment: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate degrade clear memory

From then on the conditions say what the level is.")]
pub(crate) struct ClearArgs {
    /// Name of the degradation
    name: String,
    /// Shown in the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// Sets a level by hand.
///
/// # Errors
/// When there is no such degradation or level, or the control plane cannot be asked.
pub(super) async fn set(args: SetArgs) -> Result<(), Failure> {
    let manual = DegradationByHand {
        level: args.level,
        expires_at: format_unix_ms(clock::unix_ms().saturating_add(args.span)),
        comment: args.comment.clone(),
    };
    put(&args.name, Some(manual), args.comment, args.wait, &args.client).await
}

/// Takes back what was set by hand.
///
/// # Errors
/// When there is no such degradation, or the control plane cannot be asked.
pub(super) async fn clear(args: ClearArgs) -> Result<(), Failure> {
    put(&args.name, None, args.comment, args.wait, &args.client).await
}

async fn put(
    name: &str,
    manual: Option<DegradationByHand>,
    comment: String,
    wait: WaitArgs,
    options: &ClientOptions,
) -> Result<(), Failure> {
    let mut client = Client::connect(options).await?;
    let (found, _) = get::one(&mut client, Kind::Degradation, name).await?;
    let Some(Spec::Degradation(spec)) = found.resource.and_then(|resource| resource.spec) else {
        return Err(Failure::refused(format!("the control plane sent no degradation/{name}")));
    };
    if spec.manual.is_none() && manual.is_none() {
        options.output.note(&format!("{name} is not set by hand"));
        return Ok(());
    }
    let spec = Spec::Degradation(Degradation { manual, ..spec });
    let put = Put { spec, of: Some(found.version), comment, dry_run: false };
    let reply = put.send(&mut client, wait).await?;
    Telling { output: options.output, dry_run: false, wait, named: Some(1) }.tell(&reply)
}
