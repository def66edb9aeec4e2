//! Limits that cannot be: refused whole, with the place, the reason and what to do.

use serde_json::json;

use crate::world::{World, chat};

const FILE: &str = r#"limits:
  - { name: good, scope: { key: "*" }, dimension: requests, amount: 1, window: month }
  - { name: a, scope: { key: "*" }, dimension: requests, rate: 5/fortnight }
  - { name: b, scope: {}, dimension: requests, rate: 5/minute }
  - name: c
    scope: { key: "*" }
    dimension: tokns
    rate: 5/minute
  - { name: d, scope: { key: "*" }, dimension: concurrency, amount: 1, window: day }
  - { name: e, scope: { key: "*" }, dimension: tokens, rate: 5/minute, strict: true, reserve: expected }
  - { name: f, scope: { key: "*" }, dimension: tokens, amount: 5, window: day, time_zone: Mars/Base }
  - { name: g, scope: { kee: "*" }, dimension: tokens, rate: 5/minute }
  - { name: h, scope: { key: "*" }, dimension: tokens, rate: 0/minute }
"#;

/// Where, what of it, and a word of the hint.
const FAULTS: [(&str, &str, &str); 8] = [
    (":3:", "limits[1].rate", "use second, minute"),
    (":4:", "limits[2].scope", "at least one part"),
    (":7:", "limits[3].dimension", "did you mean 'tokens'"),
    (":9:", "limits[4].window", "remove it"),
    (":10:", "limits[5].reserve", "strict"),
    (":11:", "limits[6].time_zone", "IANA"),
    (":12:", "limits[7].scope", "key"),
    (":13:", "limits[8].rate", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn a6_limits_that_cannot_be_are_refused_whole() {
    let world = World::limited(json!([])).await;
    // Shape first: an unknown field hides what is behind it.
    let output = world.try_apply(FILE, &[]).await;
    assert_eq!(output.status.code(), Some(1), "{}", output.said());
    let sound = FILE.replace("kee: ", "key: ");
    let rest = world.try_apply(&sound, &[]).await;
    assert_eq!(rest.status.code(), Some(1), "{}", rest.said());
    let said = output.said() + &rest.said();
    let lines: Vec<&str> = said.lines().collect();
    for (place, field, hint) in FAULTS {
        let at = lines.iter().position(|line| line.contains(place) && line.contains(field));
        let at = at.unwrap_or_else(|| panic!("nothing of {place} {field} in\n{said}"));
        let following = lines[at..].iter().take(2).copied().collect::<String>();
        assert!(following.contains(hint), "{hint:?} is not in {following}");
        assert!(lines[at].contains("applied.yaml"), "{}", lines[at]);
    }
    assert_eq!(world.book.meters("good").await.unwrap_err().code(), tonic::Code::NotFound);
    for _ in 0..3 {
        assert_eq!(world.ask(&chat("alice", "hi")).await.status, Some(200));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_an_override_that_does_not_fit_is_refused() {
    let limit =
        json!({"name": "rpm", "scope": {"key": "*"}, "dimension": "requests", "rate": "5/minute"});
    let world = World::limited(json!([limit])).await;
    for (arguments, hints) in [
        (["limit", "set", "rmp", "--for", "key=alice", "--rate", "1/minute"], ["rmp", "rpm"]),
        (["limit", "set", "rpm", "--for", "key=alice", "--rate", "1/hour"], ["rate", "3600 s"]),
        (["limit", "set", "rpm", "--for", "tenant=org", "--rate", "1/minute"], ["tenant", "scope"]),
        (["limit", "set", "rpm", "--for", "key=*", "--rate", "1/minute"], ["*", "name"]),
        (["limit", "set", "rpm", "--for", "key=alice", "--amount", "3"], ["amount", "rate"]),
    ] {
        let output = world.cli(&arguments).await;
        assert!(!output.status.success(), "{arguments:?}: {}", output.said());
        for hint in hints {
            assert!(output.stderr.contains(hint), "{hint}: {}", output.said());
        }
    }
    let overrides = world.cli(&["limit", "overrides", "-o", "json"]).await;
    assert!(!overrides.stdout.contains("alice"), "{}", overrides.said());
}
