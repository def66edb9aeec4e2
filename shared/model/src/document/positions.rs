//! From parsed YAML to plain values, remembering where each stood.

use std::collections::HashMap;

use saphyr::{MarkedYaml, Scalar, ScanError, YamlData};
use serde_json::{Map, Number, Value};

use crate::path::{Path, Step};

/// Line and column (from 1) of every value, by its path.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<Path, (usize, usize)>);

impl Positions {
    /// Where `path` stands, or the nearest enclosing value that does.
    pub(super) fn of(&self, path: &Path) -> (usize, usize) {
        let mut path = path.clone();
        loop {
            if let Some(position) = self.0.get(&path) {
                return *position;
            }
            if path.0.pop().is_none() {
                return (1, 1);
            }
        }
    }
}

/// YAML that has no meaning here.
pub(super) struct BadYaml {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) message: String,
    pub(super) hint: &'static str,
}

/// Line, column and text of a syntax error.
pub(super) fn load_error(error: &ScanError) -> (usize, usize, String) {
    (error.marker().line(), error.marker().col() + 1, error.info().to_owned())
}

/// The value of `root`, with positions. Field names stand at their own place, not their value's.
pub(super) fn convert(root: &MarkedYaml<'_>) -> Result<(Value, Positions), BadYaml> {
    let mut positions = Positions::default();
    let mut path = Vec::new();
    let value = node(root, &mut path, &mut positions)?;
    Ok((value, positions))
}

fn node(
    yaml: &MarkedYaml<'_>,
    path: &mut Vec<Step>,
    positions: &mut Positions,
) -> Result<Value, BadYaml> {
    let (line, column) = (yaml.span.start.line(), yaml.span.start.col() + 1);
    positions.0.entry(Path(path.clone())).or_insert((line, column));
    let bad = |message: &str, hint: &'static str| BadYaml {
        line,
        column,
        message: message.to_owned(),
        hint,
    };
    match &yaml.data {
        YamlData::Value(scalar) => scalar_value(scalar).ok_or_else(|| {
            bad("this number has no meaning here", "use a finite number, or quote it")
        }),
        YamlData::Sequence(items) => {
            let mut list = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                list.push(node(item, path, positions)?);
                path.pop();
            }
            Ok(Value::Array(list))
        }
        YamlData::Mapping(members) => {
            let mut object = Map::new();
            for (key, member) in members {
                let YamlData::Value(Scalar::String(name)) = &key.data else {
                    return Err(BadYaml {
                        line: key.span.start.line(),
                        column: key.span.start.col() + 1,
                        message: "a field name must be text".to_owned(),
                        hint: "quote it",
                    });
                };
                path.push(Step::Field(name.to_string()));
                let at = (key.span.start.line(), key.span.start.col() + 1);
                positions.0.insert(Path(path.clone()), at);
                object.insert(name.to_string(), node(member, path, positions)?);
                path.pop();
            }
            Ok(Value::Object(object))
        }
        YamlData::Tagged(..) => Err(bad("YAML tags have no meaning here", "remove the tag")),
        YamlData::Alias(_) | YamlData::BadValue | YamlData::Representation(..) => {
            Err(bad("this value cannot be read", "write it out plainly"))
        }
    }
}

fn scalar_value(scalar: &Scalar<'_>) -> Option<Value> {
    Some(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(flag) => Value::Bool(*flag),
        Scalar::Integer(number) => Value::Number((*number).into()),
        Scalar::FloatingPoint(number) => Value::Number(Number::from_f64(number.into_inner())?),
        Scalar::String(text) => Value::String(text.to_string()),
    })
}
