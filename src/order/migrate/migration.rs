//! State of one migration: containers, edits and findings.

use crate::order::declare::spec::Spec;
use crate::order::declare::{annotation_place, keys};
use crate::order::edit::{Editor, Op, Place};
use crate::order::finding::Finding;
use serde_json::{Map, Value};

pub(super) struct Migration<'a> {
    pub(super) spec: &'a Spec<'a>,
    pub(super) editor: Editor,
    pub(super) findings: Vec<Finding>,
}

impl Migration<'_> {
    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let metadata = Place::root().to("metadata");
        for at in [metadata.clone(), metadata.to("annotations")] {
            if at.of(self.editor.value()).is_none_or(Value::is_null) {
                self.edit(at, Op::Set(Value::Object(Map::new())));
            }
        }
        self.edit(annotation_place(key), Op::Set(Value::String(value.to_owned())));
    }

    pub(super) fn edit(&mut self, at: Place, op: Op) {
        if let Err(error) = self.editor.edit(at.clone(), op) {
            self.findings.push(Finding::error("bad-value", at, error.to_string()));
        }
    }

    /// Writes `podgate.io/order`. Each step lists container names, with `=STATE` unless the state is the default.
    pub(super) fn write_order(&mut self, steps: &[Vec<String>]) {
        let steps: Vec<String> = steps.iter().map(|step| step.join(" & ")).collect();
        self.annotate(keys::ORDER, &steps.join(", "));
    }

    /// Adds an error about the whole order of the other tool.
    pub(super) fn reject(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add_error(Place::root().to("metadata"), what, fix);
    }

    pub(super) fn add_error(&mut self, at: Place, what: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding::error("nothing-to-migrate", at, what).fix(fix));
    }

    /// Adds a warning about a setting that podgate cannot express in the same way.
    pub(super) fn warn_not_migrated(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding::warning("not-migrated", Place::root().to("metadata"), what).fix(fix));
    }

    pub(super) fn note_migrated(&mut self, what: impl Into<String>) {
        self.findings.push(Finding::note("migrated", Place::root().to("metadata"), what));
    }

    /// Finds the container for a name from another tool. Tries the name itself, then the name in lowercase with hyphens
    /// instead of underscores.
    pub(super) fn find_container(&self, name: &str) -> Option<String> {
        [name, &plain_name(name)].into_iter().find_map(|name| self.spec.get(name)).map(|own| own.name.to_owned())
    }
    /// Returns true if the container `name` can have a gate in front of its command: the manifest has the command, and
    /// no annotation sets another mode.
    pub(super) fn may_have_gate(&self, name: &str) -> bool {
        let value = |key: String| annotation_place(&key).of(self.editor.value()).and_then(Value::as_str);
        let command = self.spec.get(name).and_then(|own| own.string_list("command"));
        let mode = value(format!("{}{name}", keys::MODE_PREFIX)).or_else(|| value(keys::MODE.to_owned()));
        let has_command = command.is_some_and(|words| !words.is_empty());
        (has_command || value(format!("{}{name}", keys::COMMAND_PREFIX)).is_some())
            && mode.is_none_or(|mode| ["auto", "entrypoint"].contains(&mode))
    }
}

/// Returns a name from another tool in lowercase, with hyphens instead of underscores.
pub(super) fn plain_name(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}
