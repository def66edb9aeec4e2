//! What all the calls of a probe show together: the headers of limits, and whether connections are
//! kept.

use std::collections::BTreeSet;

use http::{Version, header};

use super::{
    finding::{Check, Finding, Verdict},
    heard::Head,
};

/// Most names of headers that are kept.
const MAX_NAMES: usize = 24;
/// What names of headers hold that speak of limits.
const LIMITS: [&str; 5] = ["ratelimit", "rate-limit", "retry-after", "should-retry", "quota"];

#[derive(Debug, Default)]
pub(super) struct Trail {
    limits: BTreeSet<String>,
    /// Answers, and those that closed their connection.
    answers: u32,
    closing: u32,
    /// Calls that went over a connection that had been used before.
    reused: u32,
    calls: u32,
}

impl Trail {
    /// Another answer.
    pub(super) fn note(&mut self, head: &Head) {
        let speaks = |name: &&str| LIMITS.iter().any(|limit| name.contains(limit));
        for name in head.headers.keys().map(|name| name.as_str()).filter(speaks) {
            if self.limits.len() < MAX_NAMES {
                self.limits.insert(name.chars().take(64).collect());
            }
        }
        self.answers += 1;
        let says_close = head.headers.get(header::CONNECTION).is_some_and(|value| {
            value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("close"))
        });
        self.closing += u32::from(says_close || head.version == Version::HTTP_10);
    }

    /// A call went over a connection that had been used before, or over a new one.
    pub(super) fn went(&mut self, reused: bool) {
        self.calls += 1;
        self.reused += u32::from(reused);
    }

    pub(super) fn limits(&self) -> Finding {
        let check = Check::LimitHeaders;
        if self.limits.is_empty() {
            return Finding::new(check, Verdict::Note, "none")
                .advise("how much is left is not told: a limit shows only when a call is refused");
        }
        let names: Vec<_> = self.limits.iter().map(String::as_str).collect();
        Finding::good(check, names.join(", "))
    }

    pub(super) fn kept(&self) -> Finding {
        let check = Check::KeptConnections;
        let Self { answers, closing, reused, calls, .. } = *self;
        if reused > 0 {
            let seen = format!("{reused} of {calls} calls went over a connection used before");
            return Finding::good(check, seen);
        }
        if calls < 2 {
            return Finding::skipped(check, "too few calls were answered");
        }
        let seen = if closing > 0 {
            format!("{closing} of {answers} answers close their connection")
        } else {
            format!("none of {calls} calls could use a connection again")
        };
        Finding::new(check, Verdict::Note, seen)
            .advise("each call pays for a connection of its own: look for a setting of the server or a proxy in between")
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode};

    use super::*;

    fn head(version: Version, names: &[&'static str]) -> Head {
        let mut headers = HeaderMap::new();
        for name in names {
            headers.append(*name, HeaderValue::from_static("close"));
        }
        Head { status: StatusCode::OK, version, headers }
    }

    #[test]
    fn a15_limit_headers_are_named() {
        let mut trail = Trail::default();
        assert_eq!(trail.limits().verdict, Verdict::Note);
        trail.note(&head(Version::HTTP_11, &["x-ratelimit-limit-requests", "date"]));
        trail.note(&head(Version::HTTP_11, &["retry-after", "x-ratelimit-limit-requests"]));
        assert_eq!(trail.limits().seen, "retry-after, x-ratelimit-limit-requests");
    }

    #[test]
    fn a15_connections_are_kept_or_not() {
        check(Version::HTTP_11, &[], &[false, true], Verdict::Good, "1 of 2 calls");
        check(Version::HTTP_11, &["connection"], &[false, false], Verdict::Note, "2 of 2 answers");
        check(Version::HTTP_10, &[], &[false, false], Verdict::Note, "2 of 2 answers");
        check(Version::HTTP_11, &[], &[false, false], Verdict::Note, "none of 2 calls");
        check(Version::HTTP_11, &[], &[false], Verdict::Skipped, "too few");

        #[track_caller]
        fn check(
            version: Version,
            names: &[&'static str],
            went: &[bool],
            verdict: Verdict,
            seen: &str,
        ) {
            let mut trail = Trail::default();
            for reused in went {
                trail.note(&head(version, names));
                trail.went(*reused);
            }
            let finding = trail.kept();
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.seen.contains(seen), "{finding:?}");
        }
    }
}
