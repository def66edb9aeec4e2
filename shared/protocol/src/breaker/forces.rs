//! What operators want of targets, as the configuration has it.

use std::collections::BTreeMap;

use sluicegate_model::resource::{Force, force::Forced as What};

use super::{Forced, TargetKey};

/// A force without an end is said anew before this time is over. Milliseconds.
const WITHOUT_END_MS: u64 = 31 * 86_400_000;

/// Every force that is for targets. Of several for one target the one that names the model holds, then
/// the last by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forces {
    /// Of a provider's model; `None`: of each of its models.
    of: BTreeMap<(String, Option<String>), Force>,
}

impl Forces {
    /// Those among these, in the order of their names, that are for targets.
    pub fn new<'a>(forces: impl IntoIterator<Item = &'a Force>) -> Self {
        let mut of = BTreeMap::new();
        for force in forces {
            if let What::Breaker { provider, model, .. } = &force.what {
                of.insert((provider.clone(), model.clone()), force.clone());
            }
        }
        Self { of }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The force that is for a target at this time, in milliseconds since the Unix epoch.
    pub fn of(&self, target: &TargetKey, unix_ms: u64) -> Option<&Force> {
        let provider = target.provider.clone();
        let lasting = |model: Option<String>| {
            let force = self.of.get(&(provider.clone(), model))?;
            force.expires_unix_ms.is_none_or(|end_ms| end_ms > unix_ms).then_some(force)
        };
        lasting(Some(target.model.clone())).or_else(|| lasting(None))
    }

    /// What that comes to.
    pub fn forced(&self, target: &TargetKey, unix_ms: u64) -> Option<Forced> {
        let force = self.of(target, unix_ms)?;
        let What::Breaker { open, .. } = force.what else { return None };
        let left_ms =
            force.expires_unix_ms.map_or(WITHOUT_END_MS, |end_ms| end_ms.saturating_sub(unix_ms));
        Some(Forced { open, left_ms, comment: force.comment.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn force(name: &str, model: Option<&str>, open: bool, end_ms: Option<u64>) -> Force {
        Force {
            name: name.to_owned(),
            what: What::Breaker { provider: "p".to_owned(), model: model.map(str::to_owned), open },
            expires_unix_ms: end_ms,
            comment: name.to_owned(),
        }
    }

    #[test]
    fn b3_the_force_that_names_the_model_holds_while_it_lasts() {
        let all = [
            force("a", None, true, None),
            force("b", Some("m"), false, Some(1_000)),
            Force { what: What::NoRetries, ..force("c", None, true, None) },
        ];
        let forces = Forces::new(&all);
        let check = |provider: &str, model: &str, unix_ms, expected: Option<(&str, bool, u64)>| {
            let forced = forces.forced(&TargetKey::new(provider, model), unix_ms);
            let seen = forced.as_ref().map(|it| (it.comment.as_str(), it.open, it.left_ms));
            assert_eq!(seen, expected);
        };
        check("p", "m", 999, Some(("b", false, 1)));
        check("p", "m", 1_000, Some(("a", true, WITHOUT_END_MS)));
        check("p", "n", 0, Some(("a", true, WITHOUT_END_MS)));
        check("q", "m", 0, None);
    }
}
