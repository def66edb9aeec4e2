//! Configuration files of the command line: one or several, checked together.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use sluicegate_model::{
    Kind, Resource, ResourceRef, ResourceSet, Violation,
    document::{Declared, Document, FileFault, References},
};

use crate::{client::Faults, failure::Failure, output};

/// Files that parsed, in the order of the command line.
#[derive(Debug)]
pub(crate) struct Files(Vec<(String, Document)>);

impl Files {
    /// Reads and checks files; `-` is standard input. With [`References::Closed`] everything that
    /// they refer to must be in one of them.
    ///
    /// # Errors
    /// Every fault in every file.
    pub(crate) fn load(paths: &[PathBuf], references: References) -> Result<Self, Failure> {
        let mut files = Vec::new();
        let mut faults = Vec::new();
        // What one file alone refers to is checked with it, several are checked as one below.
        let within = if paths.len() == 1 { references } else { References::Open };
        for path in paths {
            let (name, text) = read(path)?;
            match Document::parse(&name, &text, within) {
                Ok(document) => files.push((name, document)),
                Err(found) => faults.extend(found.0),
            }
        }
        let files = Self(files);
        if faults.is_empty() && paths.len() > 1 {
            faults = files.check_together(references);
        }
        if faults.is_empty() { Ok(files) } else { Err(invalid(&faults, 0)) }
    }

    /// Everything that is declared.
    pub(crate) fn declared(&self) -> impl Iterator<Item = &Declared> {
        self.0.iter().flat_map(|(_, document)| &document.resources)
    }

    /// Name and number of resources of each file.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, document)| (name.as_str(), document.resources.len()))
    }

    /// The kinds that are declared, each once.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        Kind::ALL
            .into_iter()
            .filter(|kind| self.declared().any(|declared| declared.reference.kind == *kind))
            .collect()
    }

    /// The failure that faults found by the control plane make, each put where it belongs.
    pub(crate) fn invalid(&self, faults: &Faults) -> Failure {
        let located: Vec<_> = faults.named.iter().map(|fault| self.locate(fault)).collect();
        invalid(&located, faults.more)
    }

    fn locate(&self, violation: &Violation) -> FileFault {
        let owner = violation.subject.as_ref().and_then(|subject| self.owner(subject));
        let owner = owner.or_else(|| self.0.first().map(|(_, document)| document));
        match owner {
            Some(document) => document.locate(violation),
            None => unplaced(violation),
        }
    }

    fn owner(&self, subject: &ResourceRef) -> Option<&Document> {
        self.0.iter().map(|(_, document)| document).find(|one| one.declared(subject).is_some())
    }

    fn check_together(&self, references: References) -> Vec<FileFault> {
        let mut faults = Vec::new();
        for (index, (name, document)) in self.0.iter().enumerate() {
            for declared in &document.resources {
                let twice = |(_, other): &&(String, Document)| {
                    other.declared(&declared.reference).is_some()
                };
                if let Some((first, _)) = self.0.iter().take(index).find(twice) {
                    let violation = Violation::new(
                        sluicegate_model::path::Path::root(),
                        format!("{} is declared in {first} too", declared.reference),
                    )
                    .hint("declare it once")
                    .of(&declared.reference);
                    let mut fault = document.locate(&violation);
                    fault.file.clone_from(name);
                    faults.push(fault);
                }
            }
        }
        if references == References::Closed && faults.is_empty() {
            let parsed = self.declared().filter_map(|one| Resource::parse(&one.resource).ok());
            if let Err(violations) = ResourceSet::new(parsed) {
                faults.extend(violations.0.iter().map(|violation| self.locate(violation)));
            }
        }
        faults
    }
}

/// A file's name for messages, and its text.
fn read(path: &Path) -> Result<(String, String), Failure> {
    let standard_input = path == Path::new("-");
    let name = if standard_input { "stdin".to_owned() } else { path.display().to_string() };
    let text = if standard_input {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "; make one with 'sluicegate init'",
            _ => "",
        };
        Failure::not_so(format!("cannot read {name}: {error}{hint}"))
    })
    .map(|text| (name, text))
}

fn unplaced(violation: &Violation) -> FileFault {
    FileFault {
        file: String::new(),
        line: 0,
        column: 0,
        path: sluicegate_model::path::Path::root(),
        message: violation.message.clone(),
        hint: violation.hint.clone(),
    }
}

/// The failure that faults make, of which `more` are not told.
fn invalid(faults: &[FileFault], more: usize) -> Failure {
    let mut lines = vec![output::count(faults.len() + more, "fault")];
    lines.extend(faults.iter().map(show));
    lines.extend((more > 0).then(|| format!("... and {more} more")));
    Failure::not_so(lines.join("\n"))
}

/// `file:line:column: ...`, or without a place when it is in no file.
fn show(fault: &FileFault) -> String {
    if fault.line > 0 {
        return fault.to_string();
    }
    match &fault.hint {
        Some(hint) => format!("{}\n    hint: {hint}", fault.message),
        None => fault.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDERS: &str =
        "providers:\n  - { name: p, dialect: openai-chat, base_url: http://u, keyless: true }\n";
    const MODELS: &str = "models:\n  - name: m\n    targets:\n      - { provider: p }\n";

    fn load(texts: &[&str], references: References) -> Result<Files, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                let path = folder.path().join(format!("{index}.yaml"));
                fs::write(&path, text).unwrap();
                path
            })
            .collect();
        Files::load(&paths, references)
    }

    #[test]
    fn files_may_refer_to_each_other() {
        let files = load(&[PROVIDERS, MODELS], References::Closed).unwrap();
        assert_eq!(files.kinds(), [Kind::Provider, Kind::Model]);
        assert_eq!(files.sizes().map(|(_, size)| size).collect::<Vec<_>>(), [1, 1]);
        assert!(load(&[MODELS], References::Open).is_ok());

        let failure = load(&[MODELS], References::Closed).unwrap_err();
        assert!(
            failure.message.contains("0.yaml:4:11: models[0].targets[0].provider"),
            "{failure}"
        );
        let tenants = "tenants:\n  - { name: t }\n";
        let failure = load(&[tenants, MODELS], References::Closed).unwrap_err();
        assert!(
            failure.message.contains("1.yaml:4:11: models[0].targets[0].provider"),
            "{failure}"
        );
    }

    #[test]
    fn one_resource_stands_in_one_file() {
        let failure = load(&[PROVIDERS, PROVIDERS], References::Open).unwrap_err();
        assert!(failure.message.contains("1.yaml:2:5: providers[0]: provider/p"), "{failure}");
    }

    #[test]
    fn faults_of_the_control_plane_find_their_line() {
        let files = load(&[PROVIDERS, MODELS], References::Open).unwrap();
        let subject = ResourceRef::new(Kind::Model, "m");
        let path = sluicegate_model::path::Path::parse("targets[0].provider");
        let here = Violation::new(path.clone(), "does not exist").of(&subject);
        let elsewhere = Violation::new(path, "dangles").of(&ResourceRef::new(Kind::Model, "other"));
        let general = Violation::new(sluicegate_model::path::Path::root(), "too much");
        let message =
            files.invalid(&Faults { named: vec![here, elsewhere, general], more: 40 }).message;
        assert!(message.starts_with("43 faults\n"), "{message}");
        assert!(message.ends_with("\n... and 40 more"), "{message}");
        assert!(
            message.contains("1.yaml:4:11: models[0].targets[0].provider: does not"),
            "{message}"
        );
        assert!(message.contains("\nmodel/other: targets[0].provider: dangles"), "{message}");
        assert!(message.contains("\ntoo much"), "{message}");
    }
}
