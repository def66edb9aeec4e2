//! Asking a provider again and again whether its models are well.

use std::time::Duration;

use http::uri::PathAndQuery;
use sluicegate_proto::resource::v1 as pb;

use crate::{
    path::Path,
    violation::{Violation, Violations},
};

/// Longest wait for an answer where nothing else is said. Milliseconds.
const USUAL_TIMEOUT_MS: u32 = 5_000;

/// How the models of a provider are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthProbe {
    /// What to get from the provider's host; `None`: a completion of one token.
    pub path: Option<PathAndQuery>,
    /// Between two probes of one model.
    pub interval: Duration,
    /// Longest wait for an answer; less than the interval.
    pub timeout: Duration,
    /// So many in a row that go well make it well.
    pub rise: u32,
    /// So many in a row that fail make it ill.
    pub fall: u32,
}

pub(super) fn parse(spec: Option<&pb::HealthProbe>, found: &mut Violations) -> Option<HealthProbe> {
    let spec = spec?;
    let root = Path::root().field("health");
    let interval_ms = spec.interval_ms.unwrap_or(10_000);
    let timeout_ms = spec.timeout_ms.unwrap_or(USUAL_TIMEOUT_MS.min(interval_ms / 2));
    if timeout_ms >= interval_ms {
        let what = format!(
            "{timeout_ms} is not less than interval_ms {interval_ms}: two probes of one model would \
             be under way at once"
        );
        found.0.push(Violation::new(root.field("timeout_ms"), what).hint("shorten it"));
    }
    Some(HealthProbe {
        path: Some(spec.path.as_str()).filter(|path| !path.is_empty()).and_then(|path| {
            let parsed = parse_path(path);
            if parsed.is_none() {
                let what = "is not a path of the provider's host";
                found.0.push(Violation::new(root.field("path"), what).hint(
                    "begin it with one slash, such as /health; the base URL's path is not added",
                ));
            }
            parsed
        }),
        interval: Duration::from_millis(interval_ms.into()),
        timeout: Duration::from_millis(timeout_ms.into()),
        rise: spec.rise.unwrap_or(2),
        fall: spec.fall.unwrap_or(3),
    })
}

/// Two slashes at the beginning are another host for some readers of URLs, and never meant.
fn parse_path(path: &str) -> Option<PathAndQuery> {
    let sound = path.starts_with('/') && !path.starts_with("//") && !path.contains('#');
    PathAndQuery::try_from(path).ok().filter(|_| sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(spec: &pb::HealthProbe) -> Result<HealthProbe, Vec<String>> {
        let mut found = Violations::default();
        let probe = parse(Some(spec), &mut found).unwrap();
        if found.0.is_empty() {
            return Ok(probe);
        }
        Err(found.0.iter().map(|one| one.path.to_string()).collect())
    }

    #[test]
    fn a12_what_is_not_said_has_a_sound_default() {
        let ms = Duration::from_millis;
        for (interval_ms, timeout_ms, expected) in [
            (None, None, (10_000, 5_000)),
            (Some(60_000), None, (60_000, 5_000)),
            (Some(1_000), None, (1_000, 500)),
            (Some(1_000), Some(999), (1_000, 999)),
        ] {
            let spec = pb::HealthProbe { interval_ms, timeout_ms, ..pb::HealthProbe::default() };
            let probe = parsed(&spec).unwrap();
            assert_eq!((probe.interval, probe.timeout), (ms(expected.0), ms(expected.1)));
            assert_eq!((probe.path, probe.rise, probe.fall), (None, 2, 3));
        }
        assert_eq!(parse(None, &mut Violations::default()), None);
    }

    #[test]
    fn a12_a_path_is_one_of_the_host_and_a_wait_is_over_before_the_next() {
        for path in ["/", "/health", "/v1/models?short=1"] {
            let spec = pb::HealthProbe { path: path.to_owned(), ..pb::HealthProbe::default() };
            assert_eq!(parsed(&spec).unwrap().path.unwrap(), path);
        }
        for path in
            ["health", "http://u/health", "//u/health", "user:key@u/h", "/a b", "/a#b", "?a", "*"]
        {
            let spec = pb::HealthProbe { path: path.to_owned(), ..pb::HealthProbe::default() };
            assert_eq!(parsed(&spec).unwrap_err(), ["health.path"], "{path}");
        }
        for (interval_ms, timeout_ms) in [(None, Some(10_000)), (Some(100), Some(600_000))] {
            let spec = pb::HealthProbe { interval_ms, timeout_ms, ..pb::HealthProbe::default() };
            assert_eq!(parsed(&spec).unwrap_err(), ["health.timeout_ms"]);
        }
    }
}
