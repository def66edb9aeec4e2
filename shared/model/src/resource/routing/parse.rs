//! Routing from its wire form.

use std::time::Duration;

use http::HeaderName;
use sluicegate_proto::resource::v1 as pb;

use super::{
    Check, Classifier, Escalation, HeaderMatch, Label, Lang, OFF, Routing, Rule, Script,
    TextPattern, When,
};
use crate::{
    name::near_miss,
    path::Path,
    violation::{Violation, Violations},
};

/// Most rules, labels and models of a ladder.
const MAX_RULES: usize = 256;

/// Headers that carry keys, and the one that overrides the rules.
const FORBIDDEN: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "x-auth-token",
    "x-sluicegate-route",
];

pub(super) fn routing(spec: &pb::Routing, model: &str, found: &mut Violations) -> Routing {
    let root = Path::root().field("routing");
    if spec.rules.is_empty() && spec.classifier.is_none() && spec.escalation.is_none() {
        add(found, root.clone(), "routes nothing", "give rules, or a classifier, or remove it");
    }
    let rules = rules(&spec.rules, &root.field("rules"), found);
    let last = rules.iter().find(|rule| rule.when == When::default());
    if let Some(last) = last {
        let what = format!("is never asked: rule '{}' matches always", last.name);
        let unasked =
            [("classifier", spec.classifier.is_some()), ("otherwise", !spec.otherwise.is_empty())];
        for (field, _) in unasked.into_iter().filter(|(_, given)| *given) {
            add(found, root.field(field), &what, "remove it, or the rule");
        }
    }
    let classifier =
        spec.classifier.as_ref().map(|one| classifier(one, &root.field("classifier"), found));
    let escalation =
        spec.escalation.as_ref().map(|one| escalation(one, &root.field("escalation"), found));
    let otherwise = Some(spec.otherwise.clone()).filter(|name| !name.is_empty() && name != model);
    let routing =
        Routing { rules, classifier, otherwise, escalation, may_override: !spec.no_override };
    for (index, rule) in routing.rules.iter().enumerate() {
        let path = root.field("rules").index(index).field("name");
        if rule.name == OFF {
            add(found, path, "is the word that turns routing off", "use another name");
        } else if rule.name != rule.model && (routing.names(&rule.name) || rule.name == model) {
            let what = format!("'{}' is a model, too, and not the one of the rule", rule.name);
            add(found, path, &what, "use another name: callers choose by either");
        }
    }
    routing
}

fn rules(specs: &[pb::RoutingRule], path: &Path, found: &mut Violations) -> Vec<Rule> {
    if specs.len() > MAX_RULES {
        let what = format!("has {} rules", specs.len());
        add(found, path.clone(), &what, &format!("use at most {MAX_RULES}"));
    }
    let mut rules: Vec<Rule> = Vec::new();
    for (index, spec) in specs.iter().take(MAX_RULES).enumerate() {
        let path = path.index(index);
        let before = found.0.len();
        let when = when(spec.when.as_ref(), &path.field("when"), found);
        if rules.iter().any(|other| other.name == spec.name) {
            add(found, path.field("name"), "is the name of an earlier rule", "use another");
        }
        let covering = rules.iter().find(|earlier| earlier.when.covers(&when));
        if let Some(earlier) = covering.filter(|_| found.0.len() == before) {
            let what = format!("can never match: rule '{}' takes all of it before", earlier.name);
            add(found, path, &what, "put it before that rule, or remove it");
        }
        rules.push(Rule { name: spec.name.clone(), when, model: spec.model.clone() });
    }
    rules
}

fn when(spec: Option<&pb::RoutingWhen>, path: &Path, found: &mut Violations) -> When {
    let spec = spec.cloned().unwrap_or_default();
    let bounds = |min: Option<u64>, max: Option<u64>| min.unwrap_or(0)..=max.unwrap_or(u64::MAX);
    let prompt_tokens = bounds(spec.min_prompt_tokens, spec.max_prompt_tokens);
    let messages = bounds(spec.min_messages.map(u64::from), spec.max_messages.map(u64::from));
    for (field, range) in [("max_prompt_tokens", &prompt_tokens), ("max_messages", &messages)] {
        if range.is_empty() {
            let what = format!("is less than {}, the least: it can never match", range.start());
            add(found, path.field(field), &what, "make it at least as much");
        }
    }
    let languages = languages(&spec.languages, &path.field("languages"), found);
    let scripts = scripts(&spec.scripts, &path.field("scripts"), found);
    let written = |script: &Script| languages.iter().any(|one| script.langs().contains(one));
    if !languages.is_empty() && !scripts.is_empty() && !scripts.iter().any(written) {
        let what = "none of the languages is written in these: it can never match";
        add(found, path.field("scripts"), what, "leave scripts out");
    }
    let keywords = (!spec.keywords.is_empty()).then(|| TextPattern::of_words(&spec.keywords));
    let pattern = (!spec.pattern.is_empty()).then(|| TextPattern::parse(&spec.pattern));
    When {
        prompt_tokens,
        messages,
        tools: spec.tools,
        images: spec.images,
        audio: spec.audio,
        json_schema: spec.json_schema,
        stream: spec.stream,
        languages,
        scripts,
        keywords: text(keywords, path.field("keywords"), "give some words", found),
        pattern: text(pattern, path.field("pattern"), "see docs.rs/regex for its syntax", found),
        headers: headers(&spec, &path.field("headers"), found),
        tenants: spec.tenants,
        keys: spec.keys,
    }
}

fn text(
    parsed: Option<Result<TextPattern, String>>,
    path: Path,
    hint: &str,
    found: &mut Violations,
) -> Option<TextPattern> {
    match parsed? {
        Ok(pattern) => Some(pattern),
        Err(what) => {
            add(found, path, &what, hint);
            None
        }
    }
}

fn languages(codes: &[String], path: &Path, found: &mut Violations) -> Vec<Lang> {
    let mut languages = Vec::with_capacity(codes.len());
    for (index, code) in codes.iter().enumerate() {
        match Lang::from_code(code.as_str()) {
            Some(language) => languages.push(language),
            None => {
                let named =
                    Lang::all().iter().find(|one| one.eng_name().eq_ignore_ascii_case(code));
                let known = || Lang::all().iter().map(|one| one.code());
                let hint = match named.map(|one| one.code()).or_else(|| near_miss(code, known())) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("known: {}", known().collect::<Vec<_>>().join(", ")),
                };
                let what = "is no language that is told apart";
                add(found, path.index(index), what, &hint);
            }
        }
    }
    languages
}

fn scripts(names: &[String], path: &Path, found: &mut Violations) -> Vec<Script> {
    let mut scripts = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        match Script::all().iter().find(|one| one.name().eq_ignore_ascii_case(name)) {
            Some(script) => scripts.push(*script),
            None => {
                let known: Vec<_> = Script::all().iter().map(Script::name).collect();
                let hint = format!("known: {}", known.join(", "));
                add(found, path.index(index), "is no script that is told apart", &hint);
            }
        }
    }
    scripts
}

fn headers(spec: &pb::RoutingWhen, path: &Path, found: &mut Violations) -> Vec<HeaderMatch> {
    let mut given: Vec<_> = spec.headers.iter().collect();
    given.sort_unstable();
    let mut headers = Vec::with_capacity(given.len());
    for (name, value) in given {
        let path = path.field(name);
        match HeaderName::try_from(name.as_str()) {
            Ok(header) if FORBIDDEN.contains(&header.as_str()) => {
                add(found, path, "is never looked at", "use a header without secrets, or keys");
            }
            Ok(header) => headers.push(HeaderMatch {
                name: header,
                value: Some(value.clone()).filter(|value| value != "*"),
            }),
            Err(_) => add(found, path, "is not a header name", "use a name such as x-task"),
        }
    }
    headers
}

fn classifier(spec: &pb::RoutingClassifier, path: &Path, found: &mut Violations) -> Classifier {
    let root = path.field("labels");
    if spec.labels.len() == 1 || spec.labels.len() > MAX_RULES {
        let what = format!("has {} labels", spec.labels.len());
        add(found, root.clone(), &what, &format!("give 2 to {MAX_RULES}"));
    }
    for (index, one) in spec.labels.iter().enumerate() {
        let same = |other: &pb::RoutingLabel| other.label.eq_ignore_ascii_case(&one.label);
        if spec.labels.iter().take(index).any(same) {
            let path = root.index(index).field("label");
            add(found, path, "is an earlier label", "labels differ in more than their case");
        }
    }
    let label = |one: &pb::RoutingLabel| Label {
        label: one.label.clone(),
        description: one.description.clone(),
        model: one.model.clone(),
    };
    Classifier {
        model: spec.model.clone(),
        prompt: Some(spec.prompt.clone()).filter(|prompt| !prompt.trim().is_empty()),
        labels: spec.labels.iter().map(label).collect(),
        deadline: Duration::from_millis(spec.deadline_ms.unwrap_or(800).into()),
        max_input_chars: spec.max_input_chars.unwrap_or(4_000) as usize,
    }
}

fn escalation(spec: &pb::RoutingEscalation, path: &Path, found: &mut Violations) -> Escalation {
    for (index, model) in spec.models.iter().enumerate() {
        if spec.models.iter().take(index).any(|earlier| earlier == model) {
            let path = path.field("models").index(index);
            add(found, path, "is named twice: it would go round", "keep one");
        }
    }
    let on: Vec<_> = Check::ALL
        .into_iter()
        .filter(|check| spec.on.iter().any(|of| of == check.name()))
        .collect();
    if !spec.refusal_phrases.is_empty() && !on.contains(&Check::Refusal) {
        let what = "is of refusals, which are not among 'on'";
        add(found, path.field("refusal_phrases"), what, "add refusal, or remove the phrases");
    }
    let phrases = spec.refusal_phrases.iter().map(|phrase| phrase.trim().to_lowercase());
    let phrases: Vec<_> = phrases.collect();
    if let Some(index) = phrases.iter().position(String::is_empty) {
        let path = path.field("refusal_phrases").index(index);
        add(found, path, "is empty: every answer begins with it", "remove it");
    }
    Escalation { on, models: spec.models.clone(), refusal_phrases: phrases }
}

fn add(found: &mut Violations, path: Path, what: &str, hint: &str) {
    found.0.push(Violation::new(path, what).hint(hint));
}
