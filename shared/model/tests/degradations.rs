//! What degradations may say.

use std::time::Duration;

use sluicegate_model::{
    Resource,
    document::{Document, References},
    name::Kind,
    resource::{
        Degradation,
        degradation::{Action, Level},
    },
};

const HEAD: &str = "providers:
  - { name: local, dialect: openai-chat, base_url: http://127.0.0.1:8000/v1, keyless: true }
models: [{ name: qwen, targets: [{ provider: local }] }]
tenants: [{ name: t }]
degradations:
";

fn document(degradation: &str) -> Result<Document, String> {
    let text = format!("{HEAD}{degradation}");
    Document::parse("f", &text, References::Closed).map_err(|error| error.to_string())
}

#[test]
fn b4_levels_with_conditions_are_read() {
    let document = document(
        r#"
  - name: memory
    models: [qwen, "llama*"]
    tenants: [t]
    tools: [shell, browser, calculator]
    sources: [{ provider: local, interval_ms: 1000 }]
    tool_timeout_window_ms: 30000
    manual: { level: 2, expires_at: "2027-01-31T00:00:00Z", comment: "bad day" }
    levels:
      - { level: 3, by_hand: true }
      - level: 1
        enter_when: max(vllm:gpu_cache_usage_perc{model_name="m"}) > 0.85 || tool_timeouts >= 2
        leave_when: max(vllm:gpu_cache_usage_perc{model_name="m"}) < 0.7 && tool_timeouts == 0
        for_ms: 5000
        strip_tools: [shell, "b*"]
      - { level: 2, enter_when: breaker_open > 0, strip_all_tools: true }
"#,
    );
    let document = document.unwrap();
    let mut all = document.resources.iter();
    let declared = all.find(|one| one.reference.kind == Kind::Degradation).unwrap();
    let Resource::Degradation(parsed) = Resource::parse(&declared.resource).unwrap() else {
        panic!("it is a degradation")
    };
    let Degradation { steps, sources, manual, .. } = &parsed;
    let levels: Vec<_> = steps.iter().map(|step| step.action.level()).collect();
    assert_eq!(levels, [Level::SomeTools, Level::AllTools, Level::Maintenance]);
    let Action::StripTools(tools) = &steps[0].action else { panic!("{steps:?}") };
    assert!(tools.iter().any(|tool| tool.matches("browser")));
    let conditions = steps[0].conditions.as_ref().unwrap();
    assert!(conditions.leave.is_some() && conditions.held_for == Duration::from_secs(5));
    assert!(steps[1].conditions.as_ref().is_some_and(|conditions| conditions.leave.is_none()));
    assert_eq!(steps[2].conditions, None);
    assert!(matches!(&steps[2].action, Action::Reply(reply) if !reply.is_empty()));
    assert_eq!((sources[0].path.as_str(), sources[0].interval.as_millis()), ("/metrics", 1000));
    assert_eq!(manual.as_ref().map(|manual| manual.level), Some(Level::AllTools));
    assert!(parsed.concerns("llama-3", ["t"]));
}

#[test]
fn b4_mistakes_in_degradations_name_field_and_cure() {
    let metric = "sources: [{ provider: local }]";
    for (text, message, hint) in [
        ("levels: []", "degradations[0].levels: is required", ""),
        ("levels: [{ level: 4, by_hand: true }]", "levels[0].level: 4 is out of range", "1 and 3"),
        (
            "levels: [{ level: 2, by_hand: true }, { level: 2, enter_when: tool_timeouts > 1 }]",
            "levels[1].level: level 2 is given twice",
            "||",
        ),
        ("levels: [{ level: 2 }]", "levels[0].enter_when: the level could never begin", "by_hand"),
        (
            "levels: [{ level: 2, enter_when: tool_timeouts > }]",
            "levels[0].enter_when: at character 16",
            "number",
        ),
        (
            "METRIC, levels: [{ level: 2, enter_when: max(x) > 0.85, leave_when: max(x) < 0.9 }]",
            "levels[0].leave_when: holds together with enter_when (max(x) = ",
            "enter_when does not",
        ),
        (
            "METRIC, levels: [{ level: 2, enter_when: max(x) > 1 && max(x) < 0 }]",
            "levels[0].enter_when: can never hold",
            "wider",
        ),
        (
            "levels: [{ level: 2, enter_when: tool_timeouts > 1, leave_when: breaker_open > 1 }]",
            "levels[0].leave_when: can never hold",
            "",
        ),
        (
            "levels: [{ level: 2, enter_when: tool_timeouts > 1, by_hand: true }]",
            "levels[0].enter_when: stands beside by_hand",
            "",
        ),
        ("levels: [{ level: 1, by_hand: true }]", "levels[0].strip_tools: names no tool", "*"),
        (
            "tools: [shell, web], levels: [{ level: 1, by_hand: true, strip_tools: [shel] }]",
            "levels[0].strip_tools[0]: 'shel' is none of the tools",
            "did you mean 'shell'",
        ),
        (
            "levels: [{ level: 1, by_hand: true, strip_tools: ['a b'] }]",
            "strip_tools[0]: is not the name of a tool",
            "",
        ),
        (
            "levels: [{ level: 2, by_hand: true, strip_tools: [shell] }]",
            "levels[0].strip_tools: is of level 1",
            "make this level 1",
        ),
        (
            "levels: [{ level: 3, by_hand: true, strip_all_tools: true }]",
            "strip_all_tools: is of level 2",
            "",
        ),
        ("levels: [{ level: 2, by_hand: true, reply: no }]", "levels[0].reply: is of level 3", ""),
        (
            "levels: [{ level: 2, enter_when: max(x) > 1 }]",
            "degradations[0].sources: is missing",
            "provider",
        ),
        (
            "METRIC, levels: [{ level: 2, enter_when: tool_timeouts > 1 }]",
            "sources: no condition reads a metric",
            "remove",
        ),
        (
            "sources: [{ provider: loc }], levels: [{ level: 2, enter_when: max(x) > 1 }]",
            "sources[0].provider: provider 'loc' does not exist",
            "local",
        ),
        (
            "sources: [{ provider: local, path: metrics }], levels: [{ level: 2, enter_when: max(x) > 1 }]",
            "sources[0].path: is not a path",
            "/metrics",
        ),
        (
            "sources: [{ provider: local }, { provider: local }], levels: [{ level: 2, enter_when: max(x) > 1 }]",
            "sources[1]: repeats an earlier source",
            "twice",
        ),
        ("tenants: [u], levels: [{ level: 2, by_hand: true }]", "tenants[0]: tenant 'u'", ""),
        (
            "models: [qwem], levels: [{ level: 2, by_hand: true }]",
            "models[0]: model 'qwem'",
            "qwen",
        ),
        (
            "levels: [{ level: 2, by_hand: true }], manual: { level: 3, comment: c, expires_at: '2027-01-31T00:00:00Z' }",
            "manual.level: level 3 is not declared",
            "0 or 2",
        ),
        (
            "levels: [{ level: 2, by_hand: true }], manual: { level: 2, comment: c }",
            "manual.expires_at: is required",
            "ends by itself",
        ),
    ] {
        let text = format!("  - {{ name: d, {} }}", text.replace("METRIC", metric));
        let error = document(&text).unwrap_err();
        assert!(error.contains(message) && error.contains(hint), "{text}: {error}");
        assert!(error.starts_with("f:6:"), "it has its place: {error}");
    }
}
