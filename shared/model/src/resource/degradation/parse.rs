//! Degradations from their wire form.

use std::time::Duration;

use sluicegate_proto::resource::v1 as pb;

use super::{
    Action, ByHand, Conditions, Degradation, Level, MetricSource, REPLY, Step, ToolPattern,
};
use crate::{
    expression::{Expression, Together, possible, together},
    name::near_miss,
    path::Path,
    resource::{form, model::parse_patterns},
    violation::{Violation, Violations},
};

/// Most sources of one degradation.
const MAX_SOURCES: usize = 64;

pub(super) fn degradation(spec: &pb::Degradation, found: &mut Violations) -> Option<Degradation> {
    let root = Path::root();
    let before = found.0.len();
    let tools = patterns(&spec.tools, &root.field("tools"), found);
    let mut steps: Vec<Step> = Vec::new();
    for (index, level) in spec.levels.iter().enumerate() {
        let path = root.field("levels").index(index);
        let Some(step) = step(level, &tools, &path, found) else { continue };
        if steps.iter().any(|other| other.action.level() == step.action.level()) {
            let what = format!("level {} is given twice", level.level);
            add(found, path.field("level"), what, "join their conditions with ||");
        }
        steps.push(step);
    }
    steps.sort_by_key(|step| step.action.level());
    let sources = sources(spec, found);
    check_sources(spec, &steps, found);
    let manual = spec.manual.as_ref().and_then(|manual| by_hand(manual, &steps, found));
    let models = parse_patterns(&spec.models, "models", found);
    // What is wrong with a part is told; the whole is not used.
    (found.0.len() == before && !steps.is_empty()).then(|| Degradation {
        name: spec.name.clone(),
        models,
        tenants: spec.tenants.clone(),
        steps,
        sources,
        tool_timeout_window: ms(spec.tool_timeout_window_ms, 60_000),
        manual,
    })
}

fn step(
    spec: &pb::DegradationLevel,
    tools: &[ToolPattern],
    path: &Path,
    found: &mut Violations,
) -> Option<Step> {
    let action = action(spec, tools, path, found)?;
    let conditions = conditions(spec, path, found);
    Some(Step { action, conditions })
}

fn action(
    spec: &pb::DegradationLevel,
    tools: &[ToolPattern],
    path: &Path,
    found: &mut Violations,
) -> Option<Action> {
    // A number out of range is reported by its rule.
    let level = Level::of(spec.level).filter(|level| *level != Level::Normal)?;
    let foreign = |found: &mut Violations, field: &str, of: Level| {
        let what = format!("is of level {}", of.number());
        let hint = format!("remove it, or make this level {}", of.number());
        add(found, path.field(field), what, &hint);
    };
    if level != Level::SomeTools && !spec.strip_tools.is_empty() {
        foreign(found, "strip_tools", Level::SomeTools);
    }
    if level != Level::AllTools && spec.strip_all_tools {
        foreign(found, "strip_all_tools", Level::AllTools);
    }
    if level != Level::Maintenance && !spec.reply.is_empty() {
        foreign(found, "reply", Level::Maintenance);
    }
    match level {
        Level::Normal => None,
        Level::AllTools => Some(Action::StripAllTools),
        Level::Maintenance if spec.reply.is_empty() => Some(Action::Reply(REPLY.to_owned())),
        Level::Maintenance => Some(Action::Reply(spec.reply.clone())),
        Level::SomeTools => {
            let field = path.field("strip_tools");
            if spec.strip_tools.is_empty() {
                add(found, field, "names no tool".into(), "name some; * stands for any characters");
                return None;
            }
            let stripped = patterns(&spec.strip_tools, &field, found);
            check_known(&stripped, tools, &field, found);
            Some(Action::StripTools(stripped))
        }
    }
}

/// With the tools declared, each pattern must strip one of them.
fn check_known(
    stripped: &[ToolPattern],
    tools: &[ToolPattern],
    path: &Path,
    found: &mut Violations,
) {
    if tools.is_empty() {
        return;
    }
    for (index, pattern) in stripped.iter().enumerate() {
        if tools.iter().any(|tool| pattern.matches(tool.text())) {
            continue;
        }
        let known: Vec<_> = tools.iter().map(ToolPattern::text).collect();
        let hint = match near_miss(pattern.text(), known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("tools are: {}", known.join(", ")),
        };
        let what = format!("'{}' is none of the tools", pattern.text());
        add(found, path.index(index), what, &hint);
    }
}

/// When the level begins and ends; `None` where only an operator sets it, or something is wrong.
fn conditions(
    spec: &pb::DegradationLevel,
    path: &Path,
    found: &mut Violations,
) -> Option<Conditions> {
    let enter = condition(&spec.enter_when, &path.field("enter_when"), found);
    let leave = condition(&spec.leave_when, &path.field("leave_when"), found);
    if spec.by_hand {
        for (field, text) in [("enter_when", &spec.enter_when), ("leave_when", &spec.leave_when)] {
            if !text.is_empty() {
                let hint = "remove it, or remove by_hand: an operator can set every level";
                add(found, path.field(field), "stands beside by_hand".into(), hint);
            }
        }
        return None;
    }
    if spec.enter_when.is_empty() {
        let hint = "give a condition, or by_hand: true if only operators set it";
        add(found, path.field("enter_when"), "the level could never begin".into(), hint);
        return None;
    }
    let enter = enter?;
    if !possible(&enter) {
        add(found, path.field("enter_when"), "can never hold".into(), "make its bounds wider");
    }
    if let Some(leave) = &leave {
        let path = path.field("leave_when");
        if let Together::With(values) = together(&enter, leave) {
            let what = format!("holds together with enter_when ({values}): it would flap");
            add(found, path, what, "let it hold only where enter_when does not");
        } else if !possible(leave) {
            add(found, path, "can never hold".into(), "make its bounds wider");
        }
    }
    Some(Conditions { enter, leave, held_for: ms(spec.for_ms, 0) })
}

fn condition(text: &str, path: &Path, found: &mut Violations) -> Option<Expression> {
    if text.is_empty() {
        return None;
    }
    match Expression::parse(text) {
        Ok(condition) => Some(condition),
        Err(error) => {
            add(found, path.clone(), error.to_string(), &error.hint);
            None
        }
    }
}

fn sources(spec: &pb::Degradation, found: &mut Violations) -> Vec<MetricSource> {
    let root = Path::root().field("sources");
    if spec.sources.len() > MAX_SOURCES {
        let what = format!("has {} sources", spec.sources.len());
        add(found, root.clone(), what, &format!("use at most {MAX_SOURCES}"));
    }
    let mut sources: Vec<MetricSource> = Vec::new();
    for (index, one) in spec.sources.iter().take(MAX_SOURCES).enumerate() {
        let path = if one.path.is_empty() { "/metrics".to_owned() } else { one.path.clone() };
        let uri = path.parse::<http::uri::PathAndQuery>();
        if !path.starts_with('/') || uri.is_err() {
            let what = "is not a path".to_owned();
            add(found, root.index(index).field("path"), what, "use a form such as /metrics");
        }
        let source = MetricSource {
            provider: one.provider.clone(),
            path,
            interval: ms(one.interval_ms, 5_000),
        };
        let same =
            |other: &MetricSource| other.provider == source.provider && other.path == source.path;
        if sources.iter().any(same) {
            let what = "repeats an earlier source".to_owned();
            add(found, root.index(index), what, "its samples would count twice; keep one");
        }
        sources.push(source);
    }
    sources
}

/// Conditions over metrics need a source, and a source needs such conditions.
fn check_sources(spec: &pb::Degradation, steps: &[Step], found: &mut Violations) {
    let reads = |step: &Step| {
        let conditions = step.conditions.iter();
        let mut both = conditions.flat_map(|one| std::iter::once(&one.enter).chain(&one.leave));
        both.any(Expression::reads_metrics)
    };
    let reads = steps.iter().any(reads);
    let path = Path::root().field("sources");
    if reads && spec.sources.is_empty() {
        let hint = "name the provider whose server has them";
        add(found, path, "is missing: conditions read metrics".into(), hint);
    } else if !reads && !spec.sources.is_empty() && found.0.is_empty() {
        add(found, path, "no condition reads a metric".into(), "remove the sources");
    }
}

fn by_hand(spec: &pb::DegradationByHand, steps: &[Step], found: &mut Violations) -> Option<ByHand> {
    let level = Level::of(spec.level)?;
    if level != Level::Normal && !steps.iter().any(|step| step.action.level() == level) {
        let known: Vec<_> =
            steps.iter().map(|step| step.action.level().number().to_string()).collect();
        let path = Path::root().field("manual").field("level");
        let hint = format!("declare it among the levels, or use 0 or {}", known.join(", "));
        add(found, path, format!("level {} is not declared", level.number()), &hint);
    }
    // A text that is no time is reported by its form.
    let expires_unix_ms = form::time(&spec.expires_at).ok()?;
    Some(ByHand { level, expires_unix_ms, comment: spec.comment.clone() })
}

fn patterns(texts: &[String], path: &Path, found: &mut Violations) -> Vec<ToolPattern> {
    let mut patterns = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match ToolPattern::parse(text) {
            Some(pattern) => patterns.push(pattern),
            None => {
                let hint = "use 1 to 128 printable characters without spaces";
                add(found, path.index(index), "is not the name of a tool".into(), hint);
            }
        }
    }
    patterns
}

fn ms(value: Option<u32>, default: u32) -> Duration {
    Duration::from_millis(value.unwrap_or(default).into())
}

fn add(found: &mut Violations, path: Path, what: String, hint: &str) {
    found.0.push(Violation::new(path, what).hint(hint));
}
