//! Converts orders of other tools to podgate's annotations: OpenKruise's launch priorities, a Compose file's
//! `depends_on`, and lists of Tekton steps.

mod compose;
mod kruise;
mod migration;
mod tekton;

use crate::order::declare::is_declared;
use crate::order::declare::spec::Spec;
use crate::order::edit::{Editor, Place};
use crate::order::finding::{Finding, has_errors};
use crate::order::inject::Injected;
use migration::Migration;
use serde_json::Value;

/// Tool from which an order is migrated.
#[derive(Debug, Clone, PartialEq)]
pub enum MigrationSource {
    /// OpenKruise. The template itself contains the order.
    Kruise,
    /// A Compose file. The services must have the same names as the template's containers.
    Compose(Value),
    /// A Tekton Task or a list of steps. If `None`, the template's containers are the steps.
    Tekton(Option<Value>),
}

/// Adds annotations to `template` that declare the order of `from`. The findings list the migrated and the ignored
/// parts of the order. Does not change a template that already declares an order. On failure, returns all findings. The
/// caller must then leave the template unchanged.
pub fn migrate(template: &Value, from: &MigrationSource) -> Result<Injected, Vec<Finding>> {
    if is_declared(template) {
        let what = "the template already declares an order for podgate, so --from has no effect on it";
        let at = Place::metadata("annotations");
        let note =
            Finding::note("declared-already", at, what).fix("to migrate it again, remove podgate's annotations first");
        return Ok(Injected { findings: vec![note], ..Injected::unchanged(template) });
    }
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let mut migration = Migration { spec: &spec, editor: Editor::new(template.clone()), findings };
    match from {
        MigrationSource::Kruise => kruise::migrate(template, &mut migration),
        MigrationSource::Compose(file) => compose::migrate(file, &mut migration),
        MigrationSource::Tekton(steps) => tekton::migrate(steps.as_ref(), &mut migration),
    }
    if has_errors(&migration.findings) {
        return Err(migration.findings);
    }
    let (value, edits) = migration.editor.finish();
    Ok(Injected { value, edits, findings: migration.findings, ..Injected::default() })
}
