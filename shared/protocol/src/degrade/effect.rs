//! What degradations come to for one request.

use sluicegate_model::resource::{
    Degradation,
    degradation::{Action, Level, ToolPattern},
};

/// What is done to a request, and by which degradations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<'a> {
    Nothing,
    /// Tools that one of the patterns matches are stripped.
    StripTools {
        by: Vec<&'a str>,
        patterns: Vec<&'a ToolPattern>,
    },
    StripAllTools {
        by: Vec<&'a str>,
    },
    /// It is answered with this.
    Reply {
        by: Vec<&'a str>,
        reply: &'a str,
    },
}

impl Effect<'_> {
    /// How much is taken away.
    pub fn level(&self) -> Level {
        match self {
            Self::Nothing => Level::Normal,
            Self::StripTools { .. } => Level::SomeTools,
            Self::StripAllTools { .. } => Level::AllTools,
            Self::Reply { .. } => Level::Maintenance,
        }
    }

    /// Names of the degradations that do it.
    pub fn by(&self) -> &[&str] {
        match self {
            Self::Nothing => &[],
            Self::StripTools { by, .. } | Self::StripAllTools { by } | Self::Reply { by, .. } => by,
        }
    }
}

/// What is done to a request for this model, by its public name, of a caller with these tenants, its
/// own and those above. Of several degradations the highest level holds; of several that strip by
/// name each does; of several replies the first is given.
pub fn effect<'a>(
    degradations: impl IntoIterator<Item = &'a Degradation>,
    model: &str,
    tenants: &[&str],
    level: impl Fn(&str) -> Level,
) -> Effect<'a> {
    let mut effect = Effect::Nothing;
    for degradation in degradations {
        let level = level(&degradation.name);
        if level == Level::Normal || !degradation.concerns(model, tenants.iter().copied()) {
            continue;
        }
        let Some(action) = degradation.action(level) else { continue };
        let name = degradation.name.as_str();
        if action.level() > effect.level() {
            effect = match action {
                Action::StripTools(patterns) => {
                    Effect::StripTools { by: vec![name], patterns: patterns.iter().collect() }
                }
                Action::StripAllTools => Effect::StripAllTools { by: vec![name] },
                Action::Reply(reply) => Effect::Reply { by: vec![name], reply },
            };
        } else if action.level() == effect.level() {
            match (&mut effect, action) {
                (Effect::StripTools { by, patterns }, Action::StripTools(more)) => {
                    by.push(name);
                    patterns.extend(more);
                }
                (Effect::StripAllTools { by } | Effect::Reply { by, .. }, _) => by.push(name),
                (Effect::Nothing | Effect::StripTools { .. }, _) => {}
            }
        }
    }
    effect
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_model::resource::{NamePattern, degradation::Step};

    use super::*;

    fn degradation(name: &str, model: &str, tenant: &str, actions: Vec<Action>) -> Degradation {
        let steps = actions.into_iter().map(|action| Step { action, conditions: None });
        Degradation {
            name: name.into(),
            models: NamePattern::parse(model).into_iter().collect(),
            tenants: Some(tenant.to_owned())
                .filter(|tenant| !tenant.is_empty())
                .into_iter()
                .collect(),
            steps: steps.collect(),
            sources: Vec::new(),
            tool_timeout_window: Duration::from_secs(1),
            manual: None,
        }
    }

    fn strip(pattern: &str) -> Action {
        Action::StripTools(ToolPattern::parse(pattern).into_iter().collect())
    }

    #[test]
    fn b4_the_highest_level_holds_and_names_add_up() {
        let all = [
            degradation("a", "m", "", vec![strip("shell")]),
            degradation("b", "*", "", vec![strip("web*"), Action::StripAllTools]),
            degradation("c", "m", "t", vec![Action::Reply("later".into())]),
        ];
        let told = |levels: [u32; 3], model: &str, tenants: &[&str]| {
            let level = |name: &str| {
                let index = ["a", "b", "c"].iter().position(|of| *of == name).unwrap();
                Level::of(levels[index]).unwrap()
            };
            let effect = effect(&all, model, tenants, level);
            (effect.level().number(), effect.by().join(","))
        };
        assert_eq!(told([0, 0, 0], "m", &["t"]), (0, String::new()));
        assert_eq!(told([1, 1, 0], "m", &[]), (1, "a,b".into()));
        assert_eq!(told([1, 1, 0], "x", &[]), (1, "b".into()));
        assert_eq!(told([1, 2, 0], "m", &[]), (2, "b".into()));
        assert_eq!(told([1, 2, 3], "m", &["u", "t"]), (3, "c".into()));
        assert_eq!(told([1, 2, 3], "m", &["u"]), (2, "b".into()));
        assert_eq!(told([3, 3, 0], "m", &[]), (2, "b".into()), "each does the most it declares");
        let Effect::StripTools { patterns, .. } = effect(&all, "m", &[], |_| Level::SomeTools)
        else {
            panic!("it strips by name")
        };
        assert_eq!(patterns.len(), 2);
    }
}
