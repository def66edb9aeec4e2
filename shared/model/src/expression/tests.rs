use proptest::prelude::*;

use super::*;

fn expression(text: &str) -> Expression {
    Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Readings by how they are written.
fn holds(text: &str, known: &[(&str, f64)]) -> Option<bool> {
    let read = |reading: &Reading| {
        let written = reading.to_string();
        known.iter().find(|(name, _)| *name == written).map(|(_, value)| *value)
    };
    expression(text).holds(&read)
}

#[test]
fn b4_conditions_hold_by_the_usual_rules() {
    let known = [
        ("breaker_open", 0.5),
        ("tool_timeouts", 2.0),
        ("max(vllm:gpu_cache_usage_perc)", 0.9),
        ("sum(q{model=\"m\",e!=\"1\"})", 7.0),
    ];
    for (text, expected) in [
        ("max(vllm:gpu_cache_usage_perc) > 0.85", true),
        ("max(\"vllm:gpu_cache_usage_perc\") > 0.85 && breaker_open > 0", true),
        ("tool_timeouts >= 2", true),
        ("tool_timeouts > 2 or breaker_open == 0.5", true),
        ("breaker_open > 0 || tool_timeouts > 2 && tool_timeouts < 0", true),
        ("(breaker_open > 0 || tool_timeouts > 2) && tool_timeouts < 0", false),
        ("not (breaker_open > 0) or !(tool_timeouts == 2)", false),
        ("1 - breaker_open * 2 - 1 <= -tool_timeouts + 1 and 3 - 1 - 1 == tool_timeouts - 1", true),
        ("sum(q{model='m', e!=\"1\"}) / 2 == 3.5", true),
        ("8 / 2 / 2 == tool_timeouts", true),
        ("2e0 != tool_timeouts", false),
    ] {
        assert_eq!(holds(text, &known), Some(expected), "{text}");
    }
}

#[test]
fn b4_what_is_missing_is_unknown_unless_the_rest_decides() {
    for (text, expected) in [
        ("max(x) > 1", None),
        ("max(x) > 1 || breaker_open > 0", Some(true)),
        ("max(x) > 1 && breaker_open > 0", None),
        ("max(x) > 1 && breaker_open == 0", Some(false)),
        ("!(max(x) > 1)", None),
        ("breaker_open / 0 > 1", None),
        ("tool_timeouts > 1 || max(x) == max(x)", None),
    ] {
        assert_eq!(holds(text, &[("breaker_open", 1.0), ("tool_timeouts", f64::NAN)]), expected);
    }
}

#[test]
fn b4_faults_tell_the_character_and_a_cure() {
    for (text, at, what, hint) in [
        ("", 1, "ends too early", "number"),
        ("max(x) >", 9, "ends too early", "number"),
        ("max(x)", 1, "neither true nor false", "compare"),
        ("vllm:gpu > 1", 1, "not one number", "max(vllm:gpu)"),
        ("breaker_opn > 1", 1, "not one number", "breaker_open"),
        ("max(x > 1", 7, "not expected", "')'"),
        ("max(x) = 1", 8, "does not compare", "=="),
        ("max(x) > 1 tool_timeouts", 12, "not expected", "operator"),
        ("median(x) > 1", 1, "not an aggregate", "max"),
        ("max(x{a=~\"b\"}) > 1", 8, "not expected", "= or !="),
        ("max(x{a=b}) > 1", 9, "not expected", "quotes"),
        ("max(x{a=\"b}) > 1", 9, "does not end", "mark"),
        ("max(x) > 1..2", 10, "not a number", "0.85"),
        ("max(x) > 1e999", 10, "not a number", ""),
        ("0 < max(x) < 1", 3, "do not follow", "&&"),
        ("1 < 2", 1, "reads nothing", "compare"),
        ("(max(x) > 1) > 2", 1, "not a number", "&&"),
        ("max(ü) > 1", 5, "'ü' has no meaning", ""),
        ("'é' > 1", 1, "many values", "max"),
        ("max('é') > 1 ?", 14, "'?' has no meaning", ""),
    ] {
        let error = Expression::parse(text).unwrap_err();
        assert!(error.what.contains(what) && error.hint.contains(hint), "{text}: {error:?}");
        assert_eq!(error.at, at, "{text}: {error:?}");
    }
}

#[test]
fn b4_size_and_depth_are_bounded() {
    let deep = format!("{}max(x){} > 1", "(".repeat(40), ")".repeat(40));
    assert!(Expression::parse(&deep).unwrap_err().what.contains("levels deep"));
    let long = format!("max(x) > 1{}", " + 1".repeat(40));
    assert!(Expression::parse(&long).unwrap_err().what.contains("levels deep"));
    let huge = format!("max(x) > 1{}", " ".repeat(MAX_TEXT));
    assert!(Expression::parse(&huge).unwrap_err().what.contains("bytes"));
    let wide = vec!["max(x) > 1"; 70].join(" || ");
    assert_eq!(holds(&wide, &[("max(x)", 2.0)]), Some(true));
}

#[test]
fn b4_what_begins_and_ends_at_once_is_seen() {
    for (enter, leave, expected) in [
        ("max(x) > 0.85", "max(x) < 0.7", Some(false)),
        ("max(x) > 0.85", "max(x) < 0.9", Some(true)),
        ("max(x) > 0.85", "max(x) <= 0.85", Some(false)),
        ("max(x) >= 0.85", "max(x) <= 0.85", Some(true)),
        ("max(x) > 0.85", "!(max(x) > 0.85)", Some(false)),
        ("0.85 < max(x)", "0.9 > max(x)", Some(true)),
        ("max(x) > 0.85 || tool_timeouts >= 2", "max(x) < 0.7 && tool_timeouts < 2", Some(false)),
        ("max(x) > 0.85 || tool_timeouts >= 2", "max(x) < 0.7", Some(true)),
        ("max(x) > 0.95 && breaker_open > 0", "breaker_open == 0", Some(false)),
        ("max(x) > 0.95", "breaker_open == 0", Some(true)),
        ("tool_timeouts > 1", "tool_timeouts < 2", Some(false)),
        ("tool_timeouts > 1", "tool_timeouts < 3", Some(true)),
        ("max(x) != 1", "max(x) == 1", Some(false)),
        ("max(x) > 1", "min(x) < 0.5", None),
        ("max(x) > max(y)", "max(x) < 1", None),
        ("max(x) * 2 > 1", "max(y) > 1", None),
    ] {
        let found = together(&expression(enter), &expression(leave));
        let said = match found {
            Together::Never => Some(false),
            Together::With(_) => Some(true),
            Together::Unclear => None,
        };
        assert_eq!(said, expected, "{enter} / {leave}: {found:?}");
    }
    assert!(!possible(&expression("max(x) > 1 && max(x) < 0")));
    assert!(!possible(&expression("breaker_open > 1")));
    assert!(!possible(&expression("max(x) > 1 && 1 > 2")));
    assert!(possible(&expression("max(x) > max(y)")));
}

#[test]
fn b4_labels_select_samples() {
    let Reading::Metric { selector, .. } =
        expression("max(x{a=\"1\",b!=\"2\",c=\"\"}) > 0").readings()[0].clone()
    else {
        panic!("it reads a metric")
    };
    let takes = |labels: &[(&str, &'static str)]| {
        let label = |name: &str| labels.iter().find(|(of, _)| *of == name).map(|(_, value)| *value);
        selector.takes("x", label)
    };
    assert!(takes(&[("a", "1")]) && takes(&[("a", "1"), ("b", "3")]));
    assert!(!takes(&[]) && !takes(&[("a", "1"), ("b", "2")]) && !takes(&[("a", "1"), ("c", "x")]));
    assert!(!selector.takes("y", |_| Some("1")));
}

fn sign() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="])
}

proptest! {
    #[test]
    fn b4_no_text_breaks_the_parser(text in "[a-z_:(){}<>=!&|+*/.,0-9\"' é-]{0,80}") {
        let _read = Expression::parse(&text).map(|found| (possible(&found), found.holds(&|_| Some(1.0))));
    }

    /// What is said of two thresholds agrees with trying values.
    #[test]
    fn b4_overlap_agrees_with_values(
        signs in (sign(), sign()),
        bounds in (0..6_i8, 0..6_i8),
        negated in any::<bool>(),
    ) {
        let one = expression(&format!("max(x) {} {}", signs.0, bounds.0));
        let not = if negated { "!" } else { "" };
        let other = expression(&format!("{not}(max(x) {} {})", signs.1, bounds.1));
        let tried = (-4..28).map(|quarter| f64::from(quarter) / 4.0);
        let both = tried.into_iter().any(|value| {
            one.holds(&|_| Some(value)) == Some(true) && other.holds(&|_| Some(value)) == Some(true)
        });
        prop_assert_eq!(together(&one, &other) != Together::Never, both);
    }

    #[test]
    fn b4_aggregates_agree_with_their_definitions(samples in prop::collection::vec(-1e6..1e6_f64, 1..20)) {
        let of = |aggregate: Aggregate| aggregate.of(samples.iter().copied()).unwrap();
        prop_assert!(samples.iter().all(|one| *one <= of(Aggregate::Max) && *one >= of(Aggregate::Min)));
        prop_assert!((of(Aggregate::Avg) * of(Aggregate::Count) - of(Aggregate::Sum)).abs() < 1e-3);
        prop_assert_eq!(Aggregate::Sum.of([]), None);
    }
}
