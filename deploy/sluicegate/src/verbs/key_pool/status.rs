//! `key-pool status`: which provider keys are in use, and why others are not.

use std::{collections::HashMap, time::Duration};

use clap::Args;
use serde_json::{Value, json};
use sluicegate_proto::{
    admin::v1::{CredentialStatus, PoolStatusReply, PoolStatusRequest},
    pool::v1::{Cell, CellState},
};

use crate::{
    client::{Client, ClientOptions},
    failure::Failure,
    output::{Format, Table, clean, duration_ms, print},
};

const COLUMNS: [&str; 8] =
    ["credential", "provider", "model", "state", "left", "strikes", "by", "reason"];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluicegate key-pool status
  sluicegate key-pool status openai/prod
  sluicegate key-pool status -o json | jq -r '.credentials[] | select(.state != \"up\") | .credential'

A row for each key, and one for each model that a key may not be used with. A key in 'trial' has
rested long enough, and the next request finds out whether it works again.")]
pub(crate) struct StatusArgs {
    /// Only this credential
    credential: Option<String>,
    /// Only keys of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

/// How credentials stand, by name.
pub(crate) type Statuses = HashMap<String, CredentialStatus>;

/// Asks how every credential stands.
///
/// # Errors
/// When the control plane cannot be asked.
pub(crate) async fn statuses(client: &mut Client) -> Result<Statuses, Failure> {
    let reply = ask(client, PoolStatusRequest::default()).await?;
    let named = reply.credentials.into_iter().map(|status| (status.credential.clone(), status));
    Ok(named.collect())
}

/// Runs the verb.
///
/// # Errors
/// When there is no such credential or provider, or the control plane cannot be asked.
pub(super) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    let request = PoolStatusRequest {
        credential: args.credential.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
    };
    let reply = ask(&mut client, request).await?;
    let output = args.client.output;
    match output.format {
        Format::Table => {
            let mut table = Table::new(&COLUMNS, output.quiet);
            for status in &reply.credentials {
                rows(status).into_iter().for_each(|row| table.row(row));
            }
            if table.is_empty() {
                output.note("there are no provider keys");
            } else {
                print(&table.render())?;
            }
            if reply.health != "ready" {
                output.note(&clean(&format!("the ledger is {}", reply.health)));
            }
            Ok(())
        }
        Format::Json | Format::Yaml => {
            let credentials: Vec<_> = reply.credentials.iter().map(value).collect();
            output.value(&json!({ "health": reply.health, "credentials": credentials }))
        }
    }
}

async fn ask(client: &mut Client, request: PoolStatusRequest) -> Result<PoolStatusReply, Failure> {
    client
        .call(request, Duration::ZERO, async |admin, request| admin.pool_status(request).await)
        .await
}

/// One for the key as a whole unless a cell says that, and one for each cell.
fn rows(status: &CredentialStatus) -> Vec<[String; 8]> {
    let known: Vec<_> = status.cells.iter().filter(|cell| cell.left_ms > 0).collect();
    let whole = known.iter().any(|cell| cell.model.is_empty());
    let of_cell = |cell: &&Cell| {
        [
            status.credential.clone(),
            status.provider.clone(),
            if cell.model.is_empty() { "all".to_owned() } else { clean(&cell.model) },
            state(cell).to_owned(),
            duration_ms(cell.left_ms),
            cell.strikes.to_string(),
            clean(&cell.by),
            clean(&cell.reason),
        ]
    };
    let mut rows: Vec<_> = known.iter().map(of_cell).collect();
    if !whole || status.state == "disabled" {
        let own = if status.model.is_empty() { status.state.as_str() } else { "up" };
        let mut row = std::array::from_fn(|_| String::new());
        let first = [&status.credential, &status.provider, "all", own];
        row.iter_mut().zip(first).for_each(|(cell, text)| text.clone_into(cell));
        rows.insert(0, row);
    }
    rows
}

/// The form for programs.
pub(crate) fn value(status: &CredentialStatus) -> Value {
    let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let cells = status.cells.iter().map(|cell| {
        json!({
            "model": named(&cell.model),
            "operator": cell.operator,
            "state": state(cell),
            "left_ms": cell.left_ms,
            "strikes": cell.strikes,
            "age_ms": cell.age_ms,
            "reason": cell.reason,
            "by": cell.by,
        })
    });
    json!({
        "credential": status.credential,
        "provider": status.provider,
        "account": named(&status.account),
        "state": status.state,
        "left_ms": status.left_ms,
        "reason": named(&status.reason),
        "model": named(&status.model),
        "cells": cells.collect::<Vec<_>>(),
    })
}

fn state(cell: &Cell) -> &'static str {
    match cell.state() {
        CellState::Unspecified => "unknown",
        CellState::Resting => "resting",
        CellState::Exhausted => "exhausted",
        CellState::Refused => "refused",
        CellState::Suspended | CellState::ModelMissing => "suspended",
    }
}
