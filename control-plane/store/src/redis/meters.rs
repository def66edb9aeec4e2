//! Looking through all meters, for people.

use ::redis::{Pipeline, RedisResult, aio::MultiplexedConnection};

use crate::ledger::{
    MeterView,
    counter::{Counter, Counting},
};

/// Keys that the server looks at for one question.
const AT_A_TIME: usize = 1_000;

/// The text of a meter, and its numbers.
type Fields = (Option<String>, Option<String>);

/// Up to `most` meters whose text begins with `wanted`.
pub(super) async fn find(
    mut connection: MultiplexedConnection,
    prefix: &str,
    wanted: &str,
    most: usize,
) -> RedisResult<Vec<MeterView>> {
    let now_ms = now_ms(connection.clone()).await?;
    let pattern = format!("{}q:{{*}}:m", literally(prefix));
    let mut found: Vec<MeterView> = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let (next, keys): (u64, Vec<String>) = ::redis::cmd("SCAN")
            .arg(cursor)
            .arg("MATCH")
            .arg(&pattern)
            .arg("COUNT")
            .arg(AT_A_TIME)
            .query_async(&mut connection)
            .await?;
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for key in &keys {
            pipeline.cmd("HMGET").arg(key).arg("x").arg("n");
        }
        if !keys.is_empty() {
            let rows: Vec<Fields> = pipeline.query_async(&mut connection).await?;
            found.extend(rows.iter().filter_map(|row| view(row, wanted, now_ms)));
        }
        cursor = next;
        if cursor == 0 || found.len() >= most {
            break;
        }
    }
    // A scan may meet a key twice.
    found.sort_by(|a, b| a.meter.cmp(&b.meter));
    found.dedup_by(|a, b| a.meter == b.meter);
    found.truncate(most);
    Ok(found)
}

fn view((text, numbers): &Fields, wanted: &str, now_ms: u64) -> Option<MeterView> {
    let meter = text.as_deref().filter(|text| text.starts_with(wanted))?;
    Some(counter(numbers.as_deref()?)?.view(meter, now_ms))
}

/// Reads the numbers of a meter as the script writes them.
fn counter(numbers: &str) -> Option<Counter> {
    let parts: Vec<&str> = numbers.split(':').collect();
    let whole = |at: usize| parts.get(at)?.parse::<u64>().ok();
    Some(Counter {
        counting: Counting::from_letter(parts.first()?.chars().next()?),
        amount: whole(1)?,
        interval_ms: whole(2)?,
        capacity: whole(3)?,
        used: parts.get(4)?.parse().ok()?,
        previous: parts.get(5)?.parse().ok()?,
        reserved: whole(6)?,
        holders: u32::try_from(whole(7)?).ok()?,
        at_ms: whole(8)?,
        window: whole(9)?,
        window_end_ms: whole(10)?,
        due_ms: whole(11)?,
    })
}

/// The server's time in milliseconds.
pub(super) async fn now_ms(mut connection: MultiplexedConnection) -> RedisResult<u64> {
    let (seconds, micros): (u64, u64) = ::redis::cmd("TIME").query_async(&mut connection).await?;
    Ok(seconds * 1_000 + micros / 1_000)
}

/// A pattern that matches only this text.
fn literally(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
