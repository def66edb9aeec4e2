//! `probe`: how a provider really behaves, and what the gateway makes up for.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_model::Kind;
use sluicegate_proto::{
    admin::v1::{
        ApplyReply, ProbeEvent, ProbeFinding, ProbeRequest, ProbeSubject, VersionedResource,
        probe_event::Event, probe_finding::Verdict,
    },
    resource::v1::{Profile, resource::Spec},
};
use tonic::{Status, Streaming};

use super::get;
use crate::{
    change::{Put, WaitArgs, revision},
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, clean, print, to_yaml},
};

/// Longest wait for the end of a probe. The control plane gives up before.
const LIMIT: Duration = Duration::from_secs(200);
/// Widths of the columns before the last.
const VERDICT_WIDTH: usize = 9;
const CHECK_WIDTH: usize = 21;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate probe openai
  sluicegate probe local --model qwen2.5-72b --save --wait 1.0
  sluicegate probe local -o json | jq .profile

The control plane makes about a dozen small calls, one after the other, with one of the provider's keys.
One of them has a wrong key, one a model that is not there, and one a prompt of 2 MiB, which costs what it
costs where a model takes it: leave that out with --no-oversized. A watched file owns what it names: put
a profile that you save into the file, too.

Exit code 1: the provider could not be reached, or answered nothing.")]
pub(crate) struct ProbeArgs {
    /// The provider
    provider: String,
    /// Model to ask for, as the provider calls it; without it that of the first model with a target there
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Key to use; without it the first that is not disabled
    #[arg(long, value_name = "NAME")]
    credential: Option<String>,
    /// Leave out the call with a prompt of 2 MiB
    #[arg(long)]
    no_oversized: bool,
    /// Write the profile into the provider
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    client: ClientOptions,
}

/// What a probe told.
#[derive(Debug, Default)]
struct Told {
    subject: ProbeSubject,
    findings: Vec<ProbeFinding>,
    profile: Option<Profile>,
}

/// What saving did.
#[derive(Debug)]
struct Saved {
    before: Option<Profile>,
    after: Option<Profile>,
    reply: ApplyReply,
}

/// Runs the verb.
///
/// # Errors
/// When the provider could not be reached or answered nothing, it changed meanwhile, or the control
/// plane cannot be asked.
pub(crate) async fn run(args: ProbeArgs) -> Result<(), Failure> {
    if args.wait.wait.is_some() && !args.save {
        return Err(Failure::usage("--wait waits for what --save changes: give both"));
    }
    let mut client = Client::connect(&args.client).await?;
    // Read before: what is saved then replaces what was probed, or nothing.
    let (resource, _) = get::one(&mut client, Kind::Provider, &args.provider).await?;
    let told = told(&mut client, &args).await?;
    let output = args.client.output;
    let is_table = output.format == Format::Table;
    if is_table {
        print(&summary(&told, output.quiet))?;
    }
    let saved = match &told.profile {
        Some(profile) if args.save => {
            Some(save(&mut client, &args, resource, profile.clone()).await)
        }
        _ => None,
    };
    match &saved {
        Some(Ok(saved)) if is_table => print(&saved.text())?,
        _ if is_table => {}
        saved => {
            let saved = saved.as_ref().and_then(|saved| saved.as_ref().ok());
            output.value(&value(&args.provider, &told, saved))?;
        }
    }
    if told.profile.is_none() {
        return Err(nothing_known(&args.provider, &told));
    }
    match saved {
        Some(saved) => args.wait.check(&saved?.reply),
        None => Ok(()),
    }
}

/// Probes; prints each finding as it comes, for people.
async fn told(client: &mut Client, args: &ProbeArgs) -> Result<Told, Failure> {
    let request = ProbeRequest {
        provider: args.provider.clone(),
        credential: args.credential.clone().unwrap_or_default(),
        model: args.model.clone().unwrap_or_default(),
        spare_oversized: args.no_oversized,
    };
    let opened = client.open(request, async |admin, request| admin.probe(request).await).await;
    let mut stream = opened.map_err(|status| client.failure(&status))?;
    let mut told = Told::default();
    let listening = listen(&mut stream, args, &mut told);
    match tokio::time::timeout(LIMIT, listening).await {
        Ok(Ok(Ok(()))) => Ok(told),
        Ok(Ok(Err(failure))) => Err(failure),
        Ok(Err(status)) => Err(client.failure(&status)),
        Err(_) => {
            Err(Failure::unreachable(format!("the probe did not end within {} s", LIMIT.as_secs())))
        }
    }
}

async fn listen(
    stream: &mut Streaming<ProbeEvent>,
    args: &ProbeArgs,
    told: &mut Told,
) -> Result<Result<(), Failure>, Status> {
    let output = args.client.output;
    let is_table = output.format == Format::Table;
    while let Some(event) = stream.message().await? {
        match event.event {
            Some(Event::Subject(subject)) => {
                if is_table && !output.quiet {
                    let heading = heading(&args.provider, &subject);
                    if let Err(failure) = print(&heading) {
                        return Ok(Err(failure));
                    }
                }
                told.subject = subject;
            }
            Some(Event::Finding(finding)) => {
                if is_table && let Err(failure) = print(&line(&finding)) {
                    return Ok(Err(failure));
                }
                told.findings.push(finding);
            }
            Some(Event::Profile(profile)) => told.profile = Some(profile),
            // Of a newer control plane.
            None => {}
        }
    }
    Ok(Ok(()))
}

fn heading(provider: &str, subject: &ProbeSubject) -> String {
    let key = match subject.credential.as_str() {
        "" => "no key".to_owned(),
        name => format!("key {name}"),
    };
    format!(
        "{}\n{:<VERDICT_WIDTH$}{:<CHECK_WIDTH$}SEEN\n",
        clean(&format!("provider/{provider}, model {}, {key}", subject.model)),
        "VERDICT",
        "CHECK"
    )
}

fn line(finding: &ProbeFinding) -> String {
    let verdict = verdict(finding);
    let (check, seen) = (clean(&finding.check), clean(&finding.seen));
    format!("{verdict:<VERDICT_WIDTH$}{check:<CHECK_WIDTH$}{seen}\n")
}

fn verdict(finding: &ProbeFinding) -> &'static str {
    match finding.verdict() {
        Verdict::Good => "good",
        Verdict::Note => "note",
        Verdict::Bad => "bad",
        Verdict::Skipped => "skipped",
        Verdict::Unspecified => "-",
    }
}

/// The profile and what to know, for people.
fn summary(told: &Told, quiet: bool) -> String {
    let mut text = String::new();
    if let Some(profile) = &told.profile {
        text.push('\n');
        text.push_str(&to_yaml(&json!({ "profile": profile_value(profile) })));
        if !quiet && is_default(profile) {
            text.push_str("There is nothing to make up for.\n");
        }
    }
    let advice: Vec<_> =
        told.findings.iter().filter(|finding| !finding.advice.is_empty()).collect();
    if !quiet && !advice.is_empty() {
        text.push_str("\nWorth knowing:\n");
        for finding in advice {
            let (check, advice) = (clean(&finding.check), clean(&finding.advice));
            text.push_str(&format!("  {check}: {advice}\n"));
        }
    }
    text
}

/// Does it say what would be so without it?
fn is_default(profile: &Profile) -> bool {
    let end = profile.stream_end.as_str();
    profile.ask_usage.is_none() && !profile.fill_usage && matches!(end, "" | "finish")
}

/// Writes the profile into the provider, if it is still the one that was probed.
async fn save(
    client: &mut Client,
    args: &ProbeArgs,
    resource: VersionedResource,
    profile: Profile,
) -> Result<Saved, Failure> {
    let version = resource.version;
    let Some(Spec::Provider(mut spec)) = resource.resource.and_then(|resource| resource.spec)
    else {
        return Err(Failure::refused("the control plane sent no provider"));
    };
    let before = spec.profile.take();
    let after = Some(profile).filter(|profile| !is_default(profile));
    spec.profile.clone_from(&after);
    let comment = format!("probe of {}", args.provider);
    let put = Put { spec: Spec::Provider(spec), of: Some(version), comment, dry_run: false };
    let reply = put.send(client, args.wait).await?;
    Ok(Saved { before, after, reply })
}

impl Saved {
    /// What changed, for people.
    fn text(&self) -> String {
        let at = revision(&self.reply);
        if self.reply.differences.is_empty() {
            return format!("\nThe provider says so already; revision stays {at}.\n");
        }
        let default = Profile::default();
        let (before, after) = (
            profile_value(self.before.as_ref().unwrap_or(&default)),
            profile_value(self.after.as_ref().unwrap_or(&default)),
        );
        let changed = ["ask_usage", "fill_usage", "stream_end"].into_iter().filter_map(|name| {
            let shown = |value: &Value| match &value[name] {
                Value::Null => "unset".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let (before, after) = (shown(&before), shown(&after));
            (before != after).then(|| format!("{name} {before} -> {after}"))
        });
        let changed: Vec<_> = changed.collect();
        if changed.is_empty() {
            return format!("\nSaved at revision {at}; it means what was there before.\n");
        }
        format!("\nSaved at revision {at}: {}.\n", changed.join(", "))
    }
}

fn profile_value(profile: &Profile) -> Value {
    let end = match profile.stream_end.as_str() {
        "" => "finish",
        end => end,
    };
    let mut value = json!({ "fill_usage": profile.fill_usage, "stream_end": end });
    if let Some(ask) = profile.ask_usage {
        value["ask_usage"] = ask.into();
    }
    value
}

fn value(provider: &str, told: &Told, saved: Option<&Saved>) -> Value {
    let finding = |finding: &ProbeFinding| {
        json!({
            "check": finding.check,
            "verdict": verdict(finding),
            "seen": finding.seen,
            "advice": finding.advice,
        })
    };
    let mut value = json!({
        "provider": provider,
        "credential": told.subject.credential,
        "model": told.subject.model,
        "findings": told.findings.iter().map(finding).collect::<Vec<_>>(),
        "profile": told.profile.as_ref().map(profile_value),
    });
    if let Some(saved) = saved {
        value["saved"] = json!({
            "revision": revision(&saved.reply),
            "changed": !saved.reply.differences.is_empty(),
            "before": saved.before.as_ref().map(profile_value),
            "after": saved.after.as_ref().map(profile_value),
        });
    }
    value
}

fn nothing_known(provider: &str, told: &Told) -> Failure {
    let is_reached = told
        .findings
        .iter()
        .any(|finding| finding.check == "reachable" && finding.verdict() == Verdict::Good);
    let what = if is_reached { "answered nothing" } else { "could not be reached" };
    Failure::not_so(format!("provider '{provider}' {what}; there is no profile of it"))
}
