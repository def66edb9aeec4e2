//! Reading what was used, added up as asked.

use std::{collections::BTreeMap, sync::Arc};

use sluicegate_model::{Violation, Violations, path::Path};
use sluicegate_proto::admin::v1 as pb;
use sluicegate_store::ledger::{Day, Ledger, TotalsQuery, UsageCounts, UsageNames, UsageRow};

use super::{add, days};
use crate::{error::CoreError, ledger_clock::LedgerClock};

/// Longest range, in days.
const MAX_DAYS: u64 = 1_200;

/// What rows may be told apart by.
const GROUPS: [&str; 7] = ["day", "month", "tenant", "key", "model", "provider", "credential"];

/// Reads totals.
#[derive(Debug)]
pub struct Totals {
    ledger: Arc<dyn Ledger>,
    clock: Arc<LedgerClock>,
}

impl Totals {
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<LedgerClock>) -> Self {
        Self { ledger, clock }
    }

    /// What was used in a range of days, added up by what the request names.
    ///
    /// # Errors
    /// Faults of the request; [`CoreError::Store`] when the ledger does not answer.
    pub async fn read(
        &self,
        request: &pb::QueryUsageRequest,
    ) -> Result<pb::QueryUsageReply, CoreError> {
        let given = check(request)?;
        let today = days::of(self.clock.now_ms().await?);
        let (from, to) = given.range(today)?;
        let by_day = given.by("day");
        let whole = from.day == 1 && (to == days::end_of_month(to) || to >= today);
        let monthly = !by_day && whole;
        let query = TotalsQuery { from, to, monthly };
        let rows = self.ledger.totals(&query).await?;
        Ok(pb::QueryUsageReply { totals: totals(&rows, request, &given) })
    }
}

/// What a request asks for.
#[derive(Debug)]
struct Given<'a> {
    from: Option<Day>,
    to: Option<Day>,
    groups: Vec<&'a str>,
}

impl Given<'_> {
    fn by(&self, group: &str) -> bool {
        self.groups.contains(&group)
    }

    /// The days that are meant: what is left out is today, or the other end.
    fn range(&self, today: Day) -> Result<(Day, Day), Violations> {
        let to = self.to.unwrap_or_else(|| self.from.map_or(today, |from| from.max(today)));
        let from = self.from.unwrap_or(to);
        let (field, what, hint) = match days::between(from, to) {
            Some(1..=MAX_DAYS) => return Ok((from, to)),
            Some(_) => ("from", "is too long ago", format!("ask for at most {MAX_DAYS} days")),
            None => ("to", "comes before from", "exchange them".to_owned()),
        };
        Err(Violation::new(Path::root().field(field), what).hint(hint).into())
    }
}

fn check(request: &pb::QueryUsageRequest) -> Result<Given<'_>, Violations> {
    let mut found = Violations::default();
    let mut day = |field: &str, text: &str| {
        let day = days::parse(text);
        if day.is_none() && !text.is_empty() {
            let violation = Violation::new(Path::root().field(field), "is not a day");
            found.0.push(violation.hint("write it as 2026-11-30"));
        }
        day
    };
    let (from, to) = (day("from", &request.from), day("to", &request.to));
    let groups: Vec<_> = request.group_by.iter().map(String::as_str).collect();
    for (index, group) in groups.iter().enumerate() {
        if !GROUPS.contains(group) {
            let path = Path::root().field("group_by").index(index);
            let violation = Violation::new(path, "names nothing to group by");
            found.0.push(violation.hint(format!("use {}", GROUPS.join(", "))));
        }
    }
    found.or(Given { from, to, groups })
}

fn totals(
    rows: &[UsageRow],
    request: &pb::QueryUsageRequest,
    given: &Given<'_>,
) -> Vec<pb::UsageTotal> {
    let mut sums: BTreeMap<(String, UsageNames), UsageCounts> = BTreeMap::new();
    for row in rows.iter().filter(|row| wanted(&row.names, request)) {
        let period = if given.by("day") {
            row.day.to_string()
        } else if given.by("month") {
            format!("{:04}-{:02}", row.day.year, row.day.month)
        } else {
            String::new()
        };
        let name = |group: &str, name: &String| {
            if given.by(group) { name.clone() } else { String::new() }
        };
        let names = UsageNames {
            tenant: name("tenant", &row.names.tenant),
            key: name("key", &row.names.key),
            model: name("model", &row.names.model),
            provider: name("provider", &row.names.provider),
            credential: name("credential", &row.names.credential),
        };
        add(sums.entry((period, names)).or_default(), &row.counts, u64::MAX);
    }
    sums.into_iter().map(|((period, names), counts)| total(period, names, &counts)).collect()
}

/// Does a row have the names that are asked for?
fn wanted(names: &UsageNames, request: &pb::QueryUsageRequest) -> bool {
    let pairs = [
        (&request.tenant, &names.tenant),
        (&request.key, &names.key),
        (&request.model, &names.model),
        (&request.provider, &names.provider),
        (&request.credential, &names.credential),
    ];
    pairs.into_iter().all(|(wanted, name)| wanted.is_empty() || wanted == name)
}

fn total(period: String, names: UsageNames, counts: &UsageCounts) -> pb::UsageTotal {
    pb::UsageTotal {
        period,
        tenant: names.tenant,
        key: names.key,
        model: names.model,
        provider: names.provider,
        credential: names.credential,
        requests: counts.requests,
        estimated: counts.estimated,
        input_tokens: counts.input_tokens,
        output_tokens: counts.output_tokens,
        cached_tokens: counts.cached_tokens,
        reasoning_tokens: counts.reasoning_tokens,
        micro_units: counts.micro_units,
        cost_nano: counts.cost_nano,
    }
}
