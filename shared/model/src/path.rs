//! Where a field is: `targets[1].provider`.

use std::fmt;

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A named member.
    Field(String),
    /// An element of a list, from 0.
    Index(usize),
}

/// Steps from the outside in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The value itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// This path and a member further.
    #[must_use]
    pub fn field(&self, name: impl Into<String>) -> Self {
        self.with(Step::Field(name.into()))
    }

    /// This path and an element further.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// `inner`, seen from where this path leads.
    #[must_use]
    pub fn join(&self, inner: &Path) -> Self {
        Self(self.0.iter().chain(&inner.0).cloned().collect())
    }

    /// Does it name the value itself?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads what [`fmt::Display`] writes. Text that no path writes comes out as one field.
    pub fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let Some((inner, after)) = inside.split_once(']') else { break };
                match inner.parse() {
                    Ok(index) => steps.push(Step::Index(index)),
                    Err(_) => steps.push(Step::Field(inner.trim_matches('"').to_owned())),
                }
                rest = after;
            } else {
                let plain = rest.strip_prefix('.').unwrap_or(rest);
                let end = plain.find(['.', '[']).unwrap_or(plain.len());
                let (name, after) = plain.split_at(end);
                steps.push(Step::Field(name.to_owned()));
                rest = after;
            }
        }
        Self(steps)
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Field(name) if name.contains(['.', '[', ']', ' ']) => {
                    write!(f, "[\"{name}\"]")?;
                }
                Step::Field(name) if position == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        check("targets[1].provider");
        check("headers[\"x.y\"]");
        check("name");
        check("");

        #[track_caller]
        fn check(text: &str) {
            assert_eq!(Path::parse(text).to_string(), text);
        }
    }
}
