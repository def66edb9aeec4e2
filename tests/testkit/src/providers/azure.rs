//! Azure OpenAI: the OpenAI fake behind paths, versions and keys of its own.

pub(super) use super::openai::AZURE as ROWS;

use super::Dialect;
use super::openai::{operate, variant_of};
use super::read;
use super::rows::{self, ErrorRow};
use super::scene::Scene;
use crate::upstream::{Call, Step};

pub(super) fn play(scene: &Scene, call: &Call) -> Vec<Step> {
    let key = call.header("api-key").or_else(|| call.bearer());
    let row = match key {
        None => named("401.flat"),
        key => scene.turns_away(key),
    };
    if let Some(row) = row {
        return row.steps();
    }
    match operation(call) {
        Ok(operation) => operate(scene, variant_of(Dialect::Azure), call, operation),
        Err(row) => row.map_or_else(Vec::new, |row: &ErrorRow| row.steps()),
    }
}

/// What follows the base. The classic paths name the deployment and must name a version.
fn operation(call: &Call) -> Result<&str, Option<&'static ErrorRow>> {
    let path = read::path(call);
    if let Some(operation) = path.strip_prefix("/openai/v1") {
        return Ok(operation);
    }
    let rest = path.strip_prefix("/openai/deployments/").ok_or_else(|| named("404"))?;
    let (deployment, _) = rest.split_once('/').ok_or_else(|| named("404"))?;
    if !read::query(call, "api-version").is_some_and(|version| is_version(&version)) {
        return Err(named("404"));
    }
    if deployment.starts_with("missing") {
        return Err(named("DeploymentNotFound"));
    }
    rest.strip_prefix(deployment).ok_or_else(|| named("404"))
}

/// `2024-10-21`, or that with `-preview`.
fn is_version(version: &str) -> bool {
    let date = version.strip_suffix("-preview").unwrap_or(version);
    date.len() == 10 && date.split('-').all(|part| part.chars().all(|c| c.is_ascii_digit()))
}

fn named(name: &str) -> Option<&'static ErrorRow> {
    rows::named(Dialect::Azure, name)
}
