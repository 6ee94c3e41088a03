//! Orders that were written for something else, as podgate's annotations: OpenKruise's launch priorities, a Compose file's
//! `depends_on`, a list of Tekton's steps.

mod compose;
mod kruise;
mod migration;
mod tekton;
#[cfg(test)]
mod tests;

use crate::order::declare::spec::Spec;
use crate::order::edit::{Editor, Place};
use crate::order::finding::{Finding, has_errors};
use crate::order::inject::Injected;
use migration::Migration;
use serde_json::Value;

/// What the order was written for.
#[derive(Debug, Clone, PartialEq)]
pub enum MigrationSource {
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
pub fn migrate(template: &Value, from: &MigrationSource) -> Result<Injected, Vec<Finding>> {
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut findings);
    let is_declared = crate::order::declare::is_declared(template);
    if is_declared {
        let what = "the template declares an order for podgate already";
        let at = Place::root().to("metadata").to("annotations");
        findings.push(
            Finding::error("declared-already", at, what).fix("take those annotations out first, or leave --from away"),
        );
    }
    if has_errors(&findings) {
        return Err(findings);
    }
    let mut sheet = Migration { spec: &spec, editor: Editor::new(template.clone()), findings };
    match from {
        MigrationSource::Kruise => kruise::migrate(template, &mut sheet),
        MigrationSource::Compose(file) => compose::migrate(file, &mut sheet),
        MigrationSource::Tekton(steps) => tekton::migrate(steps.as_ref(), &mut sheet),
    }
    if has_errors(&sheet.findings) {
        return Err(sheet.findings);
    }
    let (value, edits) = sheet.editor.finish();
    Ok(Injected { value, edits, findings: sheet.findings, ..Injected::default() })
}
