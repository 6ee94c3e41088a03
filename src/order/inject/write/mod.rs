//! A plan, written into a template.

mod container;

use crate::core::container::Container;
use crate::core::containers::parse_list;
use crate::order::declare::keys;
use crate::order::edit::{Editor, Misfit, Op, Place};
use crate::order::finding::{Finding, Level};
use crate::order::inject::record::Record;
use crate::order::inject::{Injected, Options, parts, refuse, reorder, told, undo};
use crate::order::plan::{Plan, Planned, Sidecar};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Writes `plan` into `template`, which holds nothing of podgate's yet.
///
/// # Errors
/// All findings, at least one of them an error.
pub fn write(template: &Value, plan: &Plan, options: &Options) -> Result<Injected, Vec<Finding>> {
    let mut findings = refuse::template(template);
    if findings.is_empty() {
        findings = refuse::plan(template, plan);
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    if !plan.containers.iter().any(Planned::is_touched) {
        let what = "nothing is declared that podgate would have to do";
        let note = || vec![Finding::note("nothing-to-do", Place::root().to("metadata"), what)];
        let findings = if plan.findings.is_empty() { note() } else { plan.findings.clone() };
        return Ok(Injected { findings, ..Injected::unchanged(template) });
    }
    let mut writer = Writer {
        template,
        plan,
        options,
        editor: Editor::new(template.clone()),
        record: Record::new(),
        findings: Vec::new(),
    };
    writer.all()?;
    writer.finish()
}

struct Writer<'a> {
    template: &'a Value,
    plan: &'a Plan,
    options: &'a Options,
    editor: Editor,
    record: Record,
    findings: Vec<Finding>,
}

pub(super) fn strange(misfit: &Misfit) -> Vec<Finding> {
    vec![Finding::error("strange-type", misfit.0.clone(), misfit.to_string())]
}

impl<'a> Writer<'a> {
    fn all(&mut self) -> Result<(), Vec<Finding>> {
        let told = self.told()?;
        let mut list = Vec::new();
        for (at, told) in told.iter().enumerate() {
            list.push(self.container(at, told)?);
        }
        if self.findings.iter().any(|finding| finding.level == Level::Error) {
            return Err(std::mem::take(&mut self.findings));
        }
        self.order().map_err(|misfit| strange(&misfit))?;
        for volume in parts::volumes(self.plan.publish) {
            self.push(&parts::spec("volumes"), volume).map_err(|misfit| strange(&misfit))?;
        }
        let text = told::text(&list);
        if let Err(error) = parse_list(&text) {
            let what = format!("the containers can't start in this order: {error}");
            let mend = "change the order, or the modes";
            return Err(vec![Finding::error("order-broken", parts::spec("containers"), what).mend(mend)]);
        }
        let sidecar = parts::sidecar(self.plan.sidecar, self.plan.publish, &parts::escaped(&text), self.options);
        match self.plan.sidecar {
            Sidecar::Native => self.push_front(&parts::spec("initContainers"), sidecar),
            Sidecar::First => self.push_front(&parts::spec("containers"), sidecar),
        }
        .map_err(|misfit| strange(&misfit))
    }

    fn place(planned: &Planned) -> Place {
        parts::spec("containers").to(planned.index)
    }

    fn spec(&self, planned: &Planned) -> &'a Value {
        &parts::items(self.template, &parts::spec("containers"))[planned.index]
    }

    /// The containers as their specs have them, in the order of the plan.
    fn told(&self) -> Result<Vec<Container>, Vec<Finding>> {
        let policy = parts::spec("restartPolicy");
        let policy = policy.of(self.template).and_then(Value::as_str);
        let (mut list, mut findings) = (Vec::new(), Vec::new());
        for planned in &self.plan.containers {
            match told::read(self.spec(planned), &Self::place(planned), policy) {
                Ok(container) => list.push(container),
                Err(found) => findings.extend(found),
            }
        }
        if findings.is_empty() { Ok(list) } else { Err(findings) }
    }

    fn is_stayed_for(&self, name: &str) -> bool {
        self.plan.containers.iter().any(|other| other.stays_for.iter().any(|stays| stays == name))
    }

    /// The containers in the order in which the kubelet is to start them.
    fn order(&mut self) -> Result<(), Misfit> {
        let wanted: Vec<usize> = self.plan.containers.iter().map(|planned| planned.index).collect();
        let names = parts::items(self.template, &parts::spec("containers")).iter().filter_map(parts::name);
        let names: Vec<String> = names.map(str::to_owned).collect();
        let moved = !wanted.is_sorted();
        if moved {
            reorder(&mut self.editor, &parts::spec("containers"), &wanted)?;
            self.record.order.clone_from(&names);
        }
        let first_changes = wanted.first() != Some(&0) || self.plan.sidecar == Sidecar::First;
        let chosen = parts::annotation(parts::DEFAULT_CONTAINER);
        if first_changes && chosen.of(self.template).is_none() {
            self.record.default_container = names.first().cloned();
        }
        Ok(())
    }

    /// Makes an object of what is absent or null.
    fn object(&mut self, place: &Place) -> Result<(), Misfit> {
        match place.of(self.editor.value()) {
            None | Some(Value::Null) => self.editor.edit(place.clone(), Op::Set(Value::Object(Map::new()))),
            Some(_) => Ok(()),
        }
    }

    fn push(&mut self, list: &Place, item: Value) -> Result<(), Misfit> {
        self.insert(list, None, item)
    }

    fn push_front(&mut self, list: &Place, item: Value) -> Result<(), Misfit> {
        self.insert(list, Some(0), item)
    }

    fn insert(&mut self, list: &Place, at: Option<usize>, item: Value) -> Result<(), Misfit> {
        match list.of(self.editor.value()) {
            None | Some(Value::Null) => self.editor.edit(list.clone(), Op::Set(Value::Array(vec![item]))),
            Some(Value::Array(items)) => {
                let at = at.unwrap_or(items.len());
                self.editor.edit(list.to(at), Op::Insert(item))
            }
            Some(_) => Err(Misfit(list.clone())),
        }
    }

    /// Writes the annotations, and makes sure that all of it can be taken out again.
    fn finish(mut self) -> Result<Injected, Vec<Finding>> {
        let annotations = Place::root().to("metadata").to("annotations");
        self.object(&Place::root().to("metadata")).map_err(|misfit| strange(&misfit))?;
        self.object(&annotations).map_err(|misfit| strange(&misfit))?;
        if let Some(name) = &self.record.default_container {
            let at = annotations.to(parts::DEFAULT_CONTAINER);
            self.editor.edit(at, Op::Set(name.clone().into())).map_err(|misfit| strange(&misfit))?;
        }
        let at = annotations.to(keys::INJECTED);
        self.editor.edit(at.clone(), Op::Set(Value::Null)).map_err(|misfit| strange(&misfit))?;
        let comes_back = undo::complete(&mut self.record, self.template, self.editor.value());
        // The placeholder is not worth an edit of its own.
        let (mut value, mut edits) = self.editor.finish();
        edits.pop();
        let last = crate::order::edit::Edit { at: at.clone(), op: Op::Set(self.record.text().into()) };
        crate::order::edit::apply(&mut value, &last).map_err(|misfit| strange(&misfit))?;
        edits.push(last);
        let reads = Record::read(&value).is_ok_and(|record| record.as_ref() == Some(&self.record));
        if !(comes_back && reads && undo::changed(&value).is_empty()) {
            // Never to be seen; better than a template that can't be had back.
            let what = "podgate could not take out again what it has put in, so it puts in nothing; this is a fault of podgate's";
            return Err(vec![Finding::error("not-reversible", at, what)]);
        }
        let findings = [self.plan.findings.clone(), self.findings].concat();
        Ok(Injected { value, edits, findings })
    }
}

/// Names that are taken twice, by their place.
pub(super) fn doubled(items: &[Value], list: &Place) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let is_new = |(at, item): (usize, &Value)| {
        let name = parts::name(item)?;
        (!seen.insert(name.to_owned())).then(|| {
            Finding::error("name-twice", list.to(at).to("name"), format!("the name {name} stands here twice"))
                .mend("rename one")
        })
    };
    items.iter().enumerate().filter_map(is_new).collect()
}
