//! State while a plan is written into a template.

use crate::order::edit::{Editor, Op, Place, mismatch};
use crate::order::finding::Finding;
use crate::order::inject::istio::OriginalProbes;
use crate::order::inject::outcome::Options;
use crate::order::inject::record::{Record, VERSION};
use crate::order::plan::{ContainerPlan, Plan};
use crate::order::sidecar_settings::SidecarSettings;
use serde_json::Value;

pub(super) struct Writer<'a> {
    pub(super) template: &'a Value,
    pub(super) plan: &'a Plan,
    pub(super) options: &'a Options,
    /// The template with the parts of an earlier injection, if any.
    pub(super) found: Option<&'a Value>,
    pub(super) originals: OriginalProbes,
    pub(super) settings: SidecarSettings,
    pub(super) editor: Editor,
    pub(super) record: Record,
    pub(super) findings: Vec<Finding>,
    /// Length of all variables that podgate has expanded, in bytes.
    pub(super) expanded: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        template: &'a Value,
        plan: &'a Plan,
        options: &'a Options,
        found: Option<&'a Value>,
    ) -> Writer<'a> {
        let record = Record { version: VERSION.to_owned(), ..Record::default() };
        let (originals, editor) = (OriginalProbes::read(template), Editor::new(template.clone()));
        let (settings, findings) = (SidecarSettings::default(), Vec::new());
        Writer { template, plan, options, found, originals, settings, editor, record, findings, expanded: 0 }
    }

    pub(super) fn container_place(planned: &ContainerPlan) -> Place {
        Place::spec("containers").to(planned.index)
    }

    pub(super) fn push(&mut self, list: &Place, item: Value) -> Result<(), Finding> {
        self.insert(list, None, item)
    }

    pub(super) fn insert(&mut self, list: &Place, at: Option<usize>, item: Value) -> Result<(), Finding> {
        match list.of(self.editor.value()) {
            None | Some(Value::Null) => self.editor.edit(list.clone(), Op::Set(Value::Array(vec![item]))),
            Some(Value::Array(items)) => {
                let at = at.unwrap_or(items.len());
                self.editor.edit(list.to(at), Op::Insert(item))
            }
            Some(_) => Err(mismatch(list)),
        }
    }
}
