//! The table: one JSON file an area, one object a case.
//!
//! A case says what is asked, what the upstream does and what must come of it. Its `variants` are
//! further runs, each with some members of the case replaced; members of `expect` are replaced one
//! by one. `then` lists exchanges that follow on the same cell.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sluicegate_testkit::client::ClientStep;

use crate::expect::Expect;
use crate::request::RequestSpec;
use crate::script::Script;

/// Every area, which is also the name of its file.
pub(crate) const AREAS: [&str; 11] = [
    "sse-framing",
    "stream-shape",
    "http-transport",
    "json-fidelity",
    "routing-auth",
    "errors",
    "retry-failover",
    "key-pool-breaker",
    "cancel-timeout",
    "usage-accounting",
    "quota-limits",
];

/// Longest name of a cell; names of providers are made of it.
const LONGEST_CELL: usize = 60;

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// What must hold, in one line.
    pub(crate) says: String,
    /// Why the case cannot be played yet. Such a case counts as neither passed nor failed.
    pub(crate) pending: Option<String>,
    /// Parts of the case that nothing asserts yet.
    pub(crate) open: Vec<String>,
    /// Whether nothing else may run meanwhile.
    pub(crate) alone: bool,
    /// Names of further checks; see [`crate::checks`].
    pub(crate) checks: Vec<String>,
    /// One for each variant, or a single one.
    pub(crate) cells: Vec<Cell>,
}

/// A case or variant with providers, models and a caller of its own, so that it disturbs no other.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Unique in the whole table; lower-case letters, digits and dashes.
    pub(crate) name: String,
    /// Name of the variant, or nothing.
    pub(crate) variant: String,
    pub(crate) setup: Setup,
    pub(crate) exchanges: Vec<Exchange>,
}

/// What the gateway is configured with for a cell.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Setup {
    /// In order of priority; by default `p1`.
    pub(crate) providers: BTreeMap<String, ProviderSpec>,
    /// By default `m1`.
    pub(crate) models: Vec<ModelSpec>,
    /// Models that the caller may use; by default all.
    pub(crate) allowed: Option<Vec<String>>,
    /// The `timeouts` of every provider.
    pub(crate) timeouts: Map<String, Value>,
    /// The `breaker` of every provider.
    pub(crate) breaker: Map<String, Value>,
    pub(crate) max_attempts: Option<u32>,
    /// Limits on the cell's caller by name, without name and scope.
    pub(crate) limits: BTreeMap<String, Map<String, Value>>,
    /// Further members of every model.
    pub(crate) model: Map<String, Value>,
    /// Whether the cell's upstream has a port of its own, so that no other cell's connections are
    /// used again for it.
    pub(crate) own_port: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderSpec {
    pub(crate) keys: Vec<String>,
    /// Those of them that an operator has taken out of use.
    pub(crate) disabled: Vec<String>,
    /// The path of the base URL, behind what selects the cell.
    pub(crate) base: String,
    /// Secret of the keys in place of one that names the cell.
    pub(crate) secret: Option<String>,
    /// Whether nothing listens at the base URL.
    pub(crate) down: bool,
    /// The provider's `key_pool`.
    pub(crate) key_pool: Map<String, Value>,
}

impl Default for ProviderSpec {
    fn default() -> Self {
        Self {
            keys: vec!["k1".into()],
            disabled: Vec::new(),
            base: "/v1".into(),
            secret: None,
            down: false,
            key_pool: Map::new(),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSpec {
    pub(crate) name: String,
    /// Whether the name is used as it is, without the cell's name behind it.
    #[serde(default)]
    pub(crate) exact: bool,
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
}

/// A request and what must come of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Exchange {
    pub(crate) request: RequestSpec,
    pub(crate) client: Vec<ClientStep>,
    /// `None` keeps the script of the exchange before.
    pub(crate) upstream: Option<Arc<Script>>,
    pub(crate) expect: Expect,
    /// How often it is done; 0 means once.
    pub(crate) repeat: usize,
    /// Pause before it begins.
    pub(crate) after_ms: u64,
    /// Pause before each time but the first.
    pub(crate) pause_ms: u64,
    /// Whether the repetitions run at once.
    pub(crate) parallel: bool,
    /// Sends again until this key has been called: the choice among equals is the gateway's.
    pub(crate) until_called: Option<String>,
    /// Most resident memory that the gateway may need on top of what it had before.
    pub(crate) memory_growth_mb: Option<u64>,
}

impl Cell {
    /// The name under which callers know a model of the table.
    pub(crate) fn model(&self, name: &str) -> String {
        let exact = self.setup.models.iter().any(|model| model.exact && model.name == name);
        if exact { name.into() } else { format!("{name}-{}", self.name) }
    }

    /// The caller's key.
    pub(crate) fn caller_key(&self) -> String {
        format!("sk-cl-{}", self.name)
    }

    /// The secret of an upstream key. Its last part is the key's name.
    pub(crate) fn secret(&self, provider: &str, key: &str) -> String {
        let own = self.setup.providers.get(provider).and_then(|spec| spec.secret.clone());
        own.unwrap_or_else(|| format!("sk-up-{}-{provider}-{key}", self.name))
    }

    /// The name of a limit of the cell's.
    pub(crate) fn limit(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Replaces `{{key}}`, `{{KEY}}` and `{{name of a model}}`.
    pub(crate) fn fill(&self, text: &str) -> String {
        let key = self.caller_key();
        let mut filled =
            text.replace("{{key}}", &key).replace("{{KEY}}", &key.to_ascii_uppercase());
        while let Some((before, (name, after))) =
            filled.split_once("{{").and_then(|(b, rest)| Some((b, rest.split_once("}}")?)))
        {
            filled = format!("{before}{}{after}", self.model(name));
        }
        filled
    }
}

/// Reads the table of an area.
pub(crate) fn load(area: &str) -> anyhow::Result<Vec<Case>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(format!("{area}.json"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rows: Vec<Map<String, Value>> =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    rows.into_iter()
        .map(|row| {
            let id =
                row.get("id").and_then(Value::as_str).unwrap_or("a case without id").to_owned();
            case(row).with_context(|| format!("{id} in {}", path.display()))
        })
        .collect()
}

fn case(mut row: Map<String, Value>) -> anyhow::Result<Case> {
    let id: String = take(&mut row, "id")?.context("no id")?;
    let variants: Map<String, Value> = take(&mut row, "variants")?.unwrap_or_default();
    let mut case = Case {
        says: take(&mut row, "says")?.context("no says")?,
        pending: take(&mut row, "pending")?,
        open: take(&mut row, "open")?.unwrap_or_default(),
        alone: take(&mut row, "alone")?.unwrap_or_default(),
        checks: take(&mut row, "checks")?.unwrap_or_default(),
        cells: Vec::new(),
        id,
    };
    if case.pending.is_some() {
        return Ok(case);
    }
    if variants.is_empty() {
        case.cells.push(cell(&case.id, "", row)?);
        return Ok(case);
    }
    for (variant, changes) in variants {
        let Value::Object(changes) = changes else { bail!("variant {variant} is no object") };
        let cell = cell(&case.id, &variant, merged(row.clone(), changes));
        case.cells.push(cell.with_context(|| format!("variant {variant}"))?);
    }
    Ok(case)
}

fn cell(id: &str, variant: &str, mut row: Map<String, Value>) -> anyhow::Result<Cell> {
    let name = [id, variant].join("-").trim_end_matches('-').to_owned();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() > LONGEST_CELL || !name.chars().all(plain) {
        bail!("{name:?} is too long or not made of lower-case letters, digits and dashes");
    }
    let mut setup = Map::new();
    let members = [
        "providers",
        "models",
        "allowed",
        "timeouts",
        "breaker",
        "max_attempts",
        "limits",
        "model",
        "own_port",
    ];
    for member in members {
        setup.extend(row.remove_entry(member));
    }
    let mut setup: Setup = serde_json::from_value(setup.into())?;
    if setup.providers.is_empty() {
        setup.providers.insert("p1".into(), ProviderSpec::default());
    }
    if setup.models.is_empty() {
        setup.models.push(ModelSpec { name: "m1".into(), exact: false, aliases: Vec::new() });
    }
    let then: Vec<Exchange> = take(&mut row, "then")?.unwrap_or_default();
    let first: Exchange = serde_json::from_value(row.into())?;
    let exchanges = std::iter::once(first).chain(then).collect();
    Ok(Cell { name, variant: variant.into(), setup, exchanges })
}

/// Replaces members of `row`; those of `request` and `expect` one by one.
fn merged(mut row: Map<String, Value>, changes: Map<String, Value>) -> Map<String, Value> {
    for (name, change) in changes {
        match (row.get_mut(&name), change) {
            (Some(Value::Object(old)), Value::Object(new))
                if ["request", "expect"].contains(&name.as_str()) =>
            {
                old.extend(new);
            }
            (_, change) => drop(row.insert(name, change)),
        }
    }
    row
}

fn take<T: DeserializeOwned>(
    row: &mut Map<String, Value>,
    name: &str,
) -> anyhow::Result<Option<T>> {
    row.remove(name).map(serde_json::from_value).transpose().with_context(|| name.to_owned())
}
