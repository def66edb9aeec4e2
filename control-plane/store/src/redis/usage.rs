//! Counters of usage in Redis: a hash for each day and each month, split by source so that each
//! cursor is on one server with the counters that move with it.

use std::collections::{BTreeMap, HashMap};

use ::redis::{Cmd, Pipeline, RedisResult, aio::MultiplexedConnection};

use super::scripts::Scripts;
use crate::ledger::{
    Day, UsageBatch, UsageCounts, UsageNames, UsageRow, check,
    usage::{COUNTERS, MOST, add, join, split},
};

/// Parts that sources are spread over.
const PARTITIONS: u8 = 16;
const DAY_MS: u64 = 86_400_000;
const CURSOR_KEPT_MS: u64 = 30 * DAY_MS;
const DAYS_KEPT_MS: u64 = 400 * DAY_MS;
const MONTHS_KEPT_MS: u64 = 800 * DAY_MS;
/// Hashes that are asked for at a time.
const AT_A_TIME: usize = 512;

/// What a counter is called in a hash, in the order of [`UsageCounts::to_array`].
const NAMES: [&str; COUNTERS] = ["n", "e", "i", "o", "c", "r", "u", "$"];

fn partition(source: &str) -> u8 {
    blake3::hash(source.as_bytes()).as_bytes()[0] % PARTITIONS
}

fn day_key(prefix: &str, partition: u8, day: Day) -> String {
    format!("{prefix}u:{{{partition}}}:d:{day}")
}

fn month_key(prefix: &str, partition: u8, day: Day) -> String {
    format!("{prefix}u:{{{partition}}}:m:{:04}-{:02}", day.year, day.month)
}

/// Calls the script for one batch.
pub(super) fn command(prefix: &str, scripts: &Scripts, batch: &UsageBatch) -> Cmd {
    let partition = partition(&batch.source);
    // Each hash once, with everything that goes into it.
    let mut hashes: BTreeMap<String, (u64, BTreeMap<String, u64>)> = BTreeMap::new();
    for row in &batch.rows {
        let joined = join(&row.names);
        for (key, kept) in [
            (day_key(prefix, partition, row.day), DAYS_KEPT_MS),
            (month_key(prefix, partition, row.day), MONTHS_KEPT_MS),
        ] {
            let (_, fields) = hashes.entry(key).or_insert_with(|| (kept, BTreeMap::new()));
            for (name, more) in NAMES.iter().zip(row.counts.to_array()) {
                if more > 0 {
                    let sum = fields.entry(format!("{joined}{name}")).or_default();
                    *sum = sum.saturating_add(more).min(MOST);
                }
            }
        }
    }
    hashes.retain(|_, (_, fields)| !fields.is_empty());
    let mut command = ::redis::cmd("EVALSHA");
    command.arg(scripts.count.get_hash()).arg(hashes.len() + 1);
    command.arg(format!("{prefix}u:{{{partition}}}:c:{}", batch.source));
    for key in hashes.keys() {
        command.arg(key);
    }
    command.arg(batch.first_seq).arg(batch.last_seq);
    command.arg(u8::from(batch.nothing_before)).arg(CURSOR_KEPT_MS);
    for (kept, fields) in hashes.values() {
        command.arg(*kept).arg(fields.len());
        for (field, more) in fields {
            command.arg(field).arg(*more);
        }
    }
    command
}

/// Reads the counters of these days, or of the months that begin with them.
pub(super) async fn totals(
    mut connection: MultiplexedConnection,
    prefix: &str,
    days: &[Day],
    monthly: bool,
) -> RedisResult<Vec<UsageRow>> {
    let mut sums: HashMap<(Day, UsageNames), [u64; COUNTERS]> = HashMap::new();
    let key = if monthly { month_key } else { day_key };
    let wanted: Vec<(Day, u8)> =
        days.iter().flat_map(|day| (0..PARTITIONS).map(move |part| (*day, part))).collect();
    for some in wanted.chunks(AT_A_TIME) {
        let mut pipeline = Pipeline::with_capacity(some.len());
        for (day, partition) in some {
            pipeline.cmd("HGETALL").arg(key(prefix, *partition, *day));
        }
        let hashes: Vec<HashMap<String, u64>> = pipeline.query_async(&mut connection).await?;
        for ((day, _), fields) in some.iter().zip(hashes) {
            for (field, count) in fields {
                let Some((names, name)) = split(&field) else { continue };
                let Some(place) = NAMES.iter().position(|known| *known == name) else { continue };
                let mut more = [0; COUNTERS];
                more[place] = count;
                let day = if monthly { check::month(*day) } else { *day };
                add(sums.entry((day, names)).or_default(), more);
            }
        }
    }
    let row =
        |((day, names), counts)| UsageRow { day, names, counts: UsageCounts::from_array(counts) };
    Ok(sums.into_iter().map(row).collect())
}
