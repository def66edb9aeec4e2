//! `deferred`: requests that are kept for later.

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use sluicegate_proto::{
    admin::v1::{CancelDeferredRequest, DeferredRequest, GetDeferredRequest, ListDeferredRequest},
    deferred::v1::State,
};

use crate::{
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Table, clean, count, duration_ms, print},
};

const COLUMNS: [&str; 8] = ["id", "model", "tenant", "key", "status", "begun", "age", "left"];
/// Requests on one page.
const PAGE: u32 = 500;

#[derive(Debug, Subcommand)]
pub(crate) enum DeferredVerb {
    /// List requests that are kept: whose they are and how they stand, the oldest first
    List(ListArgs),
    /// Show one
    Get(GetArgs),
    /// End one without a result, unless it has ended
    Cancel(CancelArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate deferred list
  sluicegate deferred list --model gpt-4o --status queued
  sluicegate deferred list -o json | jq -r '.requests[] | select(.attempts > 3) | .id'

What is in a request, and what it was answered, only its caller sees.")]
pub(crate) struct ListArgs {
    /// Only requests of this model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Only requests that stand so
    #[arg(long, value_name = "STATUS")]
    status: Option<Status>,
    /// Requests at most
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Id of the request
    id: String,
    #[command(flatten)]
    client: ClientOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Id of the request
    id: String,
    #[command(flatten)]
    client: ClientOptions,
}

/// How a request stands, in the words that callers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Status {
    Queued,
    Running,
    Done,
    Cancelled,
    Expired,
}

impl Status {
    fn state(self) -> State {
        match self {
            Self::Queued => State::Waiting,
            Self::Running => State::Running,
            Self::Done => State::Done,
            Self::Cancelled => State::Cancelled,
            Self::Expired => State::Expired,
        }
    }
}

/// Runs the verb.
///
/// # Errors
/// When there is no such request, or the control plane cannot be asked.
pub(crate) async fn run(verb: DeferredVerb) -> Result<(), Failure> {
    match verb {
        DeferredVerb::List(args) => list(args).await,
        DeferredVerb::Get(args) => get(args).await,
        DeferredVerb::Cancel(args) => cancel(args).await,
    }
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    // One that changes meanwhile may be on two pages.
    let mut found = BTreeMap::new();
    let mut request = ListDeferredRequest {
        model: args.model.unwrap_or_default(),
        state: args.status.map_or(State::Unspecified, Status::state).into(),
        page_size: PAGE,
        page_token: String::new(),
    };
    let mut more = true;
    while more && found.len() < args.limit {
        let page = client
            .call(request.clone(), Duration::ZERO, async |admin, request| {
                admin.list_deferred(request).await
            })
            .await?;
        found.extend(page.requests.into_iter().map(|request| (request.id.clone(), request)));
        more = !page.next_page_token.is_empty();
        request.page_token = page.next_page_token;
    }
    let mut found: Vec<DeferredRequest> = found.into_values().collect();
    found.sort_by_key(|request| std::cmp::Reverse(request.age_ms));
    more |= found.len() > args.limit;
    found.truncate(args.limit);
    let output = args.client.output;
    match output.format {
        Format::Table => {
            if found.is_empty() {
                output.note("there are no such deferred requests");
                return Ok(());
            }
            let mut table = Table::new(&COLUMNS, output.quiet);
            found.iter().for_each(|request| table.row(row(request)));
            print(&table.render())?;
            if more {
                let shown = count(found.len(), "request");
                output.note(&format!("{shown} of more; see --limit, --model and --status"));
            }
            Ok(())
        }
        Format::Json | Format::Yaml => {
            let requests: Vec<_> = found.iter().map(value).collect();
            output.value(&json!({ "requests": requests, "more": more }))
        }
    }
}

async fn get(args: GetArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let request = GetDeferredRequest { id: args.id };
    let found = client
        .call(request, Duration::ZERO, async |admin, request| admin.get_deferred(request).await)
        .await?;
    let mut shown = value(&found);
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("ahead".into(), found.ahead.into());
        let status = (found.status > 0).then_some(found.status);
        shown.insert("status_code".into(), status.into());
    }
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let mut table = Table::new(&COLUMNS, output.quiet);
            table.row(row(&found));
            print(&table.render())?;
            if found.status > 0 {
                output.note(&format!("it was answered with {}", found.status));
            }
            Ok(())
        }
        Format::Json | Format::Yaml => output.value(&shown),
    }
}

async fn cancel(args: CancelArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let request = CancelDeferredRequest { id: args.id.clone() };
    let reply = client
        .call(request, Duration::ZERO, async |admin, request| admin.cancel_deferred(request).await)
        .await?;
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let id = clean(&args.id);
            output.note(&if reply.cancelled {
                format!("{id} is cancelled")
            } else {
                format!("{id} had ended before")
            });
            Ok(())
        }
        Format::Json | Format::Yaml => {
            output.value(&json!({ "id": args.id, "cancelled": reply.cancelled }))
        }
    }
}

fn row(request: &DeferredRequest) -> [String; 8] {
    let caller = request.caller.clone().unwrap_or_default();
    [
        clean(&request.id),
        clean(&request.model),
        clean(&caller.tenant),
        clean(&caller.key),
        status(request.state()).to_owned(),
        request.attempt.to_string(),
        duration_ms(request.age_ms),
        duration_ms(request.left_ms),
    ]
}

/// The form for programs.
fn value(request: &DeferredRequest) -> Value {
    let caller = request.caller.clone().unwrap_or_default();
    json!({
        "id": request.id,
        "model": request.model,
        "tenant": Some(caller.tenant).filter(|tenant| !tenant.is_empty()),
        "key": caller.key,
        "status": status(request.state()),
        "attempts": request.attempt,
        "age_ms": request.age_ms,
        "left_ms": request.left_ms,
    })
}

fn status(state: State) -> &'static str {
    match state {
        State::Unspecified => "unknown",
        State::Waiting => "queued",
        State::Running => "running",
        State::Done => "done",
        State::Cancelled => "cancelled",
        State::Expired => "expired",
    }
}
