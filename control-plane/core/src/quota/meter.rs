//! What the ledger is told of a limit's window: the text that names its meter, and its rules.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use sluicegate_model::{
    resource::{
        Limit,
        limit::{Algorithm, Window},
    },
    scope::Subject,
};
use sluicegate_store::ledger::{CalendarWindow, MeterKind, MeterSpec, OnExpiry};

/// How long a lease lives without being refreshed, in milliseconds.
pub(super) const TTL_MS: u64 = 15_000;
/// Longest name of a meter, in bytes.
const MAX_METER: usize = 1024;

/// `limit|tag|subject`. A subject that is too long is named by its digest, `#` and 64 digits.
pub(super) fn text(limit: &Limit, window: &Window, subject: &Subject) -> String {
    let mut text = format!("{}|{}|", limit.name, limit.tag(window));
    let start = text.len();
    if write!(text, "{subject}").is_err() || text.len() > MAX_METER {
        text.truncate(start);
        text.push('#');
        text.push_str(&hex::encode(Sha256::digest(subject.to_string())));
    }
    text
}

/// Limit, tag and subject of a meter's text; `None` when it is none.
pub(super) fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (limit, rest) = text.split_once('|')?;
    let (tag, subject) = rest.split_once('|')?;
    Some((limit, tag, subject))
}

/// The rules of a window, at this time of the ledger. `None`: no calendar has that time.
pub(super) fn spec(limit: &Limit, window: &Window, now_ms: u64) -> Option<MeterSpec> {
    let kind = match window {
        Window::Rate { amount, window_s, algorithm: Algorithm::Bucket, .. } => {
            MeterKind::Bucket { amount: *amount, window_ms: u64::from(*window_s) * 1000 }
        }
        Window::Rate { window_s, algorithm: Algorithm::Sliding, .. } => {
            MeterKind::Sliding { window_ms: u64::from(*window_s) * 1000 }
        }
        Window::Calendar { period, time_zone, .. } => {
            let around = |ms| {
                let (start_ms, end_ms) = period.around(time_zone, ms)?;
                Some(CalendarWindow { id: (start_ms / 1000).max(1), start_ms, end_ms })
            };
            let present = around(now_ms)?;
            MeterKind::Calendar { windows: [present, around(present.end_ms)?] }
        }
        Window::Slots { .. } => MeterKind::Slots,
    };
    let hold = limit.strict || matches!(window, Window::Calendar { .. });
    Some(MeterSpec {
        kind,
        capacity: window.capacity(),
        on_expiry: if hold { OnExpiry::Hold } else { OnExpiry::Return },
        ttl_ms: TTL_MS,
    })
}

/// As people call a window.
pub(super) fn window_name(window: &Window) -> String {
    match window {
        Window::Rate { window_s, .. } => match window_s {
            1 => "second".to_owned(),
            60 => "minute".to_owned(),
            3_600 => "hour".to_owned(),
            86_400 => "day".to_owned(),
            other => format!("{other}s"),
        },
        Window::Calendar { period, .. } => period.name().to_owned(),
        Window::Slots { .. } => "at once".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use sluicegate_model::{calendar::Period, resource::limit::Dimension};
    use sluicegate_proto::resource::v1::LimitScope;

    use super::*;

    fn of(key: &str, user: &str) -> Subject {
        Subject::from_proto(&LimitScope {
            key: key.into(),
            user: user.into(),
            ..LimitScope::default()
        })
    }

    fn slots() -> Limit {
        Limit { name: "l".into(), dimension: Dimension::Concurrency, ..limit() }
    }

    #[test]
    fn texts_come_back() {
        let window = Window::Slots { amount: 1 };
        for user in ["bob", "a,key=b|c%2Cd%", "é|"] {
            let subject_was = of("alice", user);
            let text = text(&slots(), &window, &subject_was);
            let (limit, tag, rest) = split(&text).unwrap();
            assert_eq!((limit, tag), ("l", "concurrency:n"));
            assert_eq!(Subject::parse(rest), Some(subject_was), "{text}");
        }
    }

    #[test]
    fn long_subjects_are_named_by_a_digest() {
        let window = Window::Slots { amount: 1 };
        let long = |end: char| format!("{}{end}", "x".repeat(1100));
        let one = text(&slots(), &window, &of("", &long('a')));
        assert!(one.starts_with("l|concurrency:n|#") && one.len() == 17 + 64, "{one}");
        assert_ne!(one, text(&slots(), &window, &of("", &long('b'))));
        assert_eq!(one, text(&slots(), &window, &of("", &long('a'))));
        let (_, _, rest) = split(&one).unwrap();
        assert_eq!(Subject::parse(rest), None);
    }

    /// The day on which summer time ends has 25 hours, and the next window begins where it ends.
    #[test]
    fn a13_windows_follow_the_calendar() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let window = Window::Calendar { amount: 5, period: Period::Day, time_zone: berlin };
        let at: jiff::Timestamp = "2026-10-25T12:00:00Z".parse().unwrap();
        let limit = Limit { strict: false, ..limit() };
        let spec = spec(&limit, &window, at.as_millisecond().unsigned_abs()).unwrap();
        let MeterKind::Calendar { windows: [one, two] } = spec.kind else { panic!("{spec:?}") };
        assert_eq!(one.end_ms - one.start_ms, 25 * 3_600_000);
        assert_eq!((two.start_ms, two.end_ms - two.start_ms), (one.end_ms, 24 * 3_600_000));
        assert_eq!((one.id, two.id), (one.start_ms / 1000, two.start_ms / 1000));
        assert_eq!((spec.capacity, spec.on_expiry, spec.ttl_ms), (5, OnExpiry::Hold, 15_000));
    }

    fn limit() -> Limit {
        use sluicegate_model::Resource;
        use sluicegate_proto::resource::v1 as pb;
        let spec = pb::Limit {
            name: "l".into(),
            scope: Some(LimitScope { key: "*".into(), ..LimitScope::default() }),
            dimension: "requests".into(),
            rate: "1/s".into(),
            ..pb::Limit::default()
        };
        let wire = pb::Resource { spec: Some(pb::resource::Spec::Limit(spec)) };
        let Resource::Limit(limit) = Resource::parse(&wire).unwrap() else { panic!("a limit") };
        limit
    }
}
