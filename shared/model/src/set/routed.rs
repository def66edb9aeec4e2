//! What routing and degradations name must be there, and no route may come back.

use std::collections::BTreeSet;

use super::ResourceSet;
use crate::{
    name::{Kind, ResourceRef},
    path::Path,
    resource::{Degradation, Model, Resource},
    violation::Violation,
};

impl ResourceSet {
    pub(super) fn check_routing(&self, model: &Model) -> Vec<Violation> {
        let Some(routing) = &model.routing else { return Vec::new() };
        let classifier = Path::root().field("routing").field("classifier").field("model");
        let fault = |(path, used): (Path, ResourceRef)| {
            if path == classifier {
                if self.model(&used.name).is_some_and(|model| model.routing.is_some()) {
                    let what = format!("'{}' is routed itself", used.name);
                    let hint = "use a model without routing";
                    return Some(Violation::new(path, what).hint(hint));
                }
            } else if used.kind == Kind::Model && used.name == model.name {
                // Within its own routing a model is its own targets.
                return None;
            } else if used.kind == Kind::Model && self.routes_to(&used.name, &model.name) {
                let what = format!("'{}' comes back to this model", used.name);
                return Some(Violation::new(path, what).hint("break the cycle"));
            }
            self.dangling(path, used.kind, &used.name)
        };
        routing.references().into_iter().filter_map(fault).collect()
    }

    pub(super) fn check_degradation(&self, spec: &Degradation) -> Vec<Violation> {
        let references = spec.references().into_iter();
        references.filter_map(|(path, used)| self.dangling(path, used.kind, &used.name)).collect()
    }

    fn model(&self, name: &str) -> Option<&Model> {
        match self.resources.get(&ResourceRef::new(Kind::Model, name)) {
            Some(Resource::Model(model)) => Some(model),
            _ => None,
        }
    }

    /// Does a route lead from one model to the other, over others?
    fn routes_to(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut left = vec![from];
        while let Some(name) = left.pop() {
            let routing = self.model(name).and_then(|model| model.routing.as_ref());
            for (_, next) in routing.iter().flat_map(|routing| routing.named()) {
                if next == to {
                    return true;
                }
                if seen.insert(next) {
                    left.push(next);
                }
            }
        }
        false
    }
}
