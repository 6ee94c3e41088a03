//! Orders that were written for something else, as podgate's annotations: OpenKruise's launch priorities, a Compose file's
//! `depends_on`, a list of Tekton's steps.

mod compose;
mod kruise;
mod tekton;
#[cfg(test)]
mod tests;

use crate::order::declare::spec::Spec;
use crate::order::declare::{annotation, has_errors, keys};
use crate::order::edit::{Editor, Op, Place};
use crate::order::finding::Finding;
use crate::order::inject::Injected;
use serde_json::{Map, Value};

/// What the order was written for.
#[derive(Debug, Clone, PartialEq)]
pub enum From {
    /// OpenKruise: the order stands in the template itself.
    Kruise,
    /// A Compose file, whole, whose services have the names of the template's containers.
    Compose(Value),
    /// A Tekton Task, or a list of steps; without one, the template's own containers are the steps.
    Tekton(Option<Value>),
}

/// Gives `template` the annotations that say for podgate what `from` says. Each thing that can't be said is a finding, and so is
/// what has been understood.
///
/// # Errors
/// All findings, at least one of them an error: nothing is to be changed.
pub fn migrate(template: &Value, from: &From) -> Result<Injected, Vec<Finding>> {
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut findings);
    let is_declared = crate::order::declare::is_declared(template);
    if is_declared {
        let what = "the template declares an order for podgate already";
        let at = Place::root().to("metadata").to("annotations");
        findings.push(
            Finding::error("declared-already", at, what).mend("take those annotations out first, or leave --from away"),
        );
    }
    if has_errors(&findings) {
        return Err(findings);
    }
    let mut sheet = Sheet { spec: &spec, editor: Editor::new(template.clone()), findings };
    match from {
        From::Kruise => kruise::read(template, &mut sheet),
        From::Compose(file) => compose::read(file, &mut sheet),
        From::Tekton(steps) => tekton::read(steps.as_ref(), &mut sheet),
    }
    if has_errors(&sheet.findings) {
        return Err(sheet.findings);
    }
    let (value, edits) = sheet.editor.finish();
    Ok(Injected { value, edits, findings: sheet.findings })
}

/// What is being written.
struct Sheet<'a> {
    spec: &'a Spec<'a>,
    editor: Editor,
    findings: Vec<Finding>,
}

impl Sheet<'_> {
    /// Writes an annotation.
    fn annotate(&mut self, key: &str, value: &str) {
        for step in ["metadata", "annotations"] {
            let at = match step {
                "metadata" => Place::root().to("metadata"),
                _ => Place::root().to("metadata").to("annotations"),
            };
            if at.of(self.editor.value()).is_none_or(Value::is_null) {
                self.edit(at, Op::Set(Value::Object(Map::new())));
            }
        }
        self.edit(annotation(key), Op::Set(Value::String(value.to_owned())));
    }

    fn edit(&mut self, at: Place, op: Op) {
        if let Err(misfit) = self.editor.edit(at.clone(), op) {
            self.findings.push(Finding::error("bad-value", at, misfit.to_string()));
        }
    }

    /// Writes the whole order: steps of containers, each with the state that those after it wait for.
    fn order(&mut self, steps: &[Vec<String>]) {
        let steps: Vec<String> = steps.iter().map(|step| step.join(" & ")).collect();
        self.annotate(keys::ORDER, &steps.join(", "));
    }

    fn error(&mut self, at: Place, what: impl Into<String>, mend: impl Into<String>) {
        self.findings.push(Finding::error("nothing-to-migrate", at, what).mend(mend));
    }

    /// What can't be said for podgate, or not as it was.
    fn lost(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.findings.push(Finding::warning("not-migrated", Place::root().to("metadata"), what).mend(mend));
    }

    /// What has been understood.
    fn understood(&mut self, what: impl Into<String>) {
        self.findings.push(Finding::note("migrated", Place::root().to("metadata"), what));
    }

    /// The container that another file calls `name`: the same name, or that with hyphens for underscores and in small letters.
    fn container(&self, name: &str) -> Option<String> {
        let plain = name.to_lowercase().replace('_', "-");
        [name, &plain].into_iter().find_map(|name| self.spec.get(name)).map(|own| own.name.to_owned())
    }
}
