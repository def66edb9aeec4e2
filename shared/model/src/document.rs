//! The file form: YAML with plural lists, errors with line and column, several at once.

mod bounds;
mod expand;
mod positions;

use std::{collections::HashMap, fmt};

use saphyr::{LoadableYamlNode, MarkedYaml};
use serde_json::Value;
use sluicegate_proto::resource::v1 as pb;

use self::positions::Positions;
use crate::{
    name::{Kind, ResourceRef, near_miss},
    path::Path,
    resource, schema,
    set::check_references,
    violation::Violation,
};

/// A file's resources, each checked by itself and all checked against each other.
#[derive(Debug)]
pub struct Document {
    /// What the file declares, shorthands expanded, in file order.
    pub resources: Vec<Declared>,
    /// Where in `resources` each is declared first.
    index: HashMap<ResourceRef, usize>,
    positions: Positions,
    file: String,
}

/// One declared resource and where it stands.
#[derive(Debug, Clone)]
pub struct Declared {
    pub reference: ResourceRef,
    pub resource: pb::Resource,
    /// Where its entry is in the file: `providers[0]`.
    pub path: Path,
}

/// One fault in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    pub file: String,
    /// From 1; 0 when the place is not known.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// Path from the top of the file.
    pub path: Path,
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n    hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything wrong with a file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFaults(pub Vec<FileFault>);

impl std::error::Error for FileFaults {}

impl fmt::Display for FileFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

/// Whether names that a file refers to must be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum References {
    /// The file is the whole configuration.
    Closed,
    /// The file is a part; what it refers to may be in the control plane already.
    Open,
}

impl Document {
    /// Parses and checks `text`. `file` is its name for messages.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn parse(file: &str, text: &str, references: References) -> Result<Self, FileFaults> {
        let (root, positions) = load(file, text)?;
        let mut document =
            Self { resources: Vec::new(), index: HashMap::new(), positions, file: file.to_owned() };
        let mut faults = Vec::new();

        let sections = match root {
            Value::Object(sections) => sections,
            Value::Null => serde_json::Map::new(),
            _ => {
                let fault = Violation::new(Path::root(), "expected a mapping of resource lists")
                    .hint("start with a line such as 'providers:'");
                return Err(FileFaults(vec![document.fault(fault.path.clone(), &fault)]));
            }
        };
        for (section, entries) in &sections {
            document.read_section(section, entries, &mut faults);
        }
        document.index_resources(&mut faults);
        if references == References::Closed && faults.is_empty() {
            let resources: Vec<_> =
                document.resources.iter().map(|declared| declared.resource.clone()).collect();
            faults.extend(
                check_references(&resources).iter().map(|violation| document.locate(violation)),
            );
        }
        if faults.is_empty() {
            Ok(document)
        } else {
            faults.sort_by_key(|fault| (fault.line, fault.column));
            Err(FileFaults(faults))
        }
    }

    /// Puts a violation that was found elsewhere (by the control plane, say) where it belongs in
    /// this file; line 0 when the file does not declare the resource.
    pub fn locate(&self, violation: &Violation) -> FileFault {
        let declared = violation.subject.as_ref().and_then(|subject| self.declared(subject));
        match declared {
            Some(declared) => self.fault(declared.path.join(&violation.path), violation),
            None => FileFault {
                file: self.file.clone(),
                line: 0,
                column: 0,
                path: Path::root(),
                message: match &violation.subject {
                    Some(_) => format!("{}: {}", violation.location(), violation.message),
                    None => violation.message.clone(),
                },
                hint: violation.hint.clone(),
            },
        }
    }

    /// The entry that declares a resource; the first one when there are several.
    pub fn declared(&self, reference: &ResourceRef) -> Option<&Declared> {
        self.index.get(reference).and_then(|index| self.resources.get(*index))
    }

    fn read_section(&mut self, section: &str, entries: &Value, faults: &mut Vec<FileFault>) {
        let path = Path::root().field(section);
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.plural() == section) else {
            let known = Kind::ALL.map(Kind::plural);
            let hint = match near_miss(section, known) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("known lists: {}", known.join(", ")),
            };
            let violation =
                Violation::new(path.clone(), format!("unknown list '{section}'")).hint(hint);
            faults.push(self.fault(path, &violation));
            return;
        };
        let entries = match entries {
            Value::Array(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => {
                let violation = Violation::new(path.clone(), "expected a list")
                    .hint("begin each entry with '- name: ...'");
                faults.push(self.fault(path, &violation));
                return;
            }
        };
        for (index, entry) in entries.iter().enumerate() {
            self.read_entry(kind, entry, &path.index(index), faults);
        }
    }

    fn read_entry(&mut self, kind: Kind, entry: &Value, path: &Path, faults: &mut Vec<FileFault>) {
        let message = schema::descriptor(kind);
        let shape = schema::check_structure(entry, &message, &Path::root());
        if !shape.is_empty() {
            faults.extend(
                shape.iter().map(|violation| self.fault(path.join(&violation.path), violation)),
            );
            return;
        }
        let resource = match schema::from_json(entry, message)
            .and_then(|message| resource::from_dynamic(kind, &message))
        {
            Ok(resource) => resource,
            Err(violation) => {
                faults.push(self.fault(path.clone(), &violation));
                return;
            }
        };
        for declared in expand::expand(kind, resource, path) {
            if let Err(violations) = resource::Resource::parse(&declared.resource) {
                let at = &declared.path;
                faults.extend(
                    violations
                        .0
                        .iter()
                        .map(|violation| self.fault(at.join(&violation.path), violation)),
                );
            }
            self.resources.push(declared);
        }
    }

    /// Fills the index; what is declared a second time is a fault.
    fn index_resources(&mut self, faults: &mut Vec<FileFault>) {
        let mut index = HashMap::with_capacity(self.resources.len());
        for (number, declared) in self.resources.iter().enumerate() {
            let first = *index.entry(declared.reference.clone()).or_insert(number);
            let Some(first) = self.resources.get(first).filter(|_| first != number) else {
                continue;
            };
            let (line, _) = self.positions.of(&first.path);
            let violation =
                Violation::new(Path::root(), format!("{} is declared twice", declared.reference))
                    .hint(format!("the first is on line {line}; give one another name"));
            faults.push(self.fault(declared.path.clone(), &violation));
        }
        self.index = index;
    }

    fn fault(&self, path: Path, violation: &Violation) -> FileFault {
        let (line, column) = self.positions.of(&path);
        FileFault {
            file: self.file.clone(),
            line,
            column,
            path,
            message: violation.message.clone(),
            hint: violation.hint.clone(),
        }
    }
}

/// The file's one document as a value, and where everything in it stands.
fn load(file: &str, text: &str) -> Result<(Value, Positions), FileFaults> {
    let fault = |line: usize, column: usize, message: String, hint: Option<&str>| {
        FileFaults(vec![FileFault {
            file: file.to_owned(),
            line,
            column,
            path: Path::root(),
            message,
            hint: hint.map(str::to_owned),
        }])
    };
    // Building and walking the tree recurse, and aliases copy: both only within bounds.
    bounds::check(text).map_err(|bad| fault(bad.line, bad.column, bad.message, Some(bad.hint)))?;
    let documents = MarkedYaml::load_from_str(text).map_err(|error| {
        let (line, column, message) = positions::load_error(&error);
        fault(line, column, format!("not valid YAML: {message}"), None)
    })?;
    let mut documents = documents.into_iter();
    let root = documents.next();
    if documents.next().is_some() {
        let hint = "put everything into one document";
        return Err(fault(1, 1, "the file holds several YAML documents".into(), Some(hint)));
    }
    match root {
        None => Ok((Value::Null, Positions::default())),
        Some(root) => positions::convert(&root)
            .map_err(|bad| fault(bad.line, bad.column, bad.message, Some(bad.hint))),
    }
}
