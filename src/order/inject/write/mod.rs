//! Writes a plan into a template.

mod container;

use crate::core::container::Container;
use crate::core::container_list::parse_list;
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::spec::Spec;
use crate::order::declare::{Publish, keys};
use crate::order::dollars;
use crate::order::edit::{Edit, Editor, Op, Place, apply, mismatch};
use crate::order::finding::{Finding, has_errors};
use crate::order::inject::container_list::{self, VARIABLE_SIZE_MAX};
use crate::order::inject::existing::ExistingInjection;
use crate::order::inject::istio::{self, OriginalProbes};
use crate::order::inject::record::{Record, THIS_VERSION};
use crate::order::inject::{Injected, Options, by_hand, parts, preconditions, undo};
use crate::order::plan::{ContainerPlan, Plan, Waiters};
use crate::order::resources;
use crate::order::sidecar_settings::{METRICS_SETTING, SidecarSettings};
use serde_json::Value;

/// Writes `plan` into `template`, which has no injected parts. `injected_before` is the template with the parts of an
/// earlier injection. Returns `None` if the plan changes no container. Fails with all findings, at least one of them an
/// error.
pub(super) fn write(
    template: &Value,
    plan: &Plan,
    options: &Options,
    injected_before: Option<&Value>,
) -> Result<Option<Injected>, Vec<Finding>> {
    let findings = preconditions::check_template(template);
    if !findings.is_empty() {
        return Err(findings);
    }
    if !plan.containers.iter().any(ContainerPlan::is_modified) {
        return Ok(None);
    }
    let record = Record { version: THIS_VERSION.to_owned(), ..Record::default() };
    let (originals, editor) = (OriginalProbes::read(template), Editor::new(template.clone()));
    let (settings, findings) = (SidecarSettings::default(), Vec::new());
    let mut writer =
        Writer { template, plan, options, injected_before, originals, settings, editor, record, findings, expanded: 0 };
    writer.write_all()?;
    writer.finish().map(Some)
}

/// State while a plan is written into a template.
struct Writer<'a> {
    template: &'a Value,
    plan: &'a Plan,
    options: &'a Options,
    /// The template with the parts of an earlier injection, if any.
    injected_before: Option<&'a Value>,
    originals: OriginalProbes,
    settings: SidecarSettings,
    editor: Editor,
    record: Record,
    findings: Vec<Finding>,
    /// Length of all variables that podgate has expanded, in bytes.
    expanded: usize,
}

impl Writer<'_> {
    fn push(&mut self, list: &Place, item: Value) -> Result<(), Finding> {
        self.insert(list, None, item)
    }

    fn insert(&mut self, list: &Place, at: Option<usize>, item: Value) -> Result<(), Finding> {
        match list.of(self.editor.value()) {
            None | Some(Value::Null) => self.editor.edit(list.clone(), Op::Set(Value::Array(vec![item]))),
            Some(Value::Array(items)) => self.editor.edit(list.to(at.unwrap_or(items.len())), Op::Insert(item)),
            Some(_) => Err(mismatch(list)),
        }
    }

    fn write_all(&mut self) -> Result<(), Vec<Finding>> {
        if self.plan.has_sidecar {
            self.settings = self.sidecar_settings();
        }
        let policy = Place::spec("restartPolicy").of(self.template).and_then(Value::as_str);
        let (field, regular) = (Place::spec("containers"), self.plan.containers.iter());
        let regular = regular.map(|planned| (&*planned.name, field.to(planned.index))).collect();
        let containers = self.read_all(regular, policy)?;
        let field = Place::spec("initContainers");
        let natives = self.plan.init.iter().filter(|init| init.is_probed);
        let mut list = self.read_all(natives.map(|init| (&*init.name, field.to(init.index))).collect(), None)?;
        if !self.plan.has_sidecar {
            let regular = self.plan.containers.iter().zip(&containers);
            list.extend(regular.map(|(planned, container)| planned.list_entry(container.clone())));
            for (planned, container) in self.plan.containers.iter().zip(&containers) {
                let entry = |until: &WaitCondition| list.iter().find(|one| one.name == until.container).cloned();
                let predecessors: Vec<Container> = planned.after.iter().filter_map(entry).collect();
                self.write_container(planned, container, Some(&predecessors))?;
            }
            return Ok(self.push(&Place::spec("volumes"), parts::image_volume(self.options))?);
        }
        for (planned, container) in self.plan.containers.iter().zip(&containers) {
            list.push(self.write_container(planned, container, None)?);
        }
        self.write_order()?;
        // `config.seen` shows a restart of the kubelet, whose `ready` status is then not reliable.
        let needs_info = self.plan.publish == Publish::Api && list.iter().any(Container::uses_kubelet_ready);
        for volume in parts::volumes(self.plan, needs_info) {
            self.push(&Place::spec("volumes"), volume)?;
        }
        let text = container_list::render(&list);
        if let Err(error) = parse_list(&text) {
            let what = format!("the containers cannot start in this order: {error}");
            let fix = "change the order or the modes";
            return Err(vec![Finding::error("order-broken", Place::spec("containers"), what).fix(fix)]);
        }
        let text = dollars::escape(&text);
        if text.len() > VARIABLE_SIZE_MAX {
            let what = format!(
                "the sidecar's list of containers has {} bytes, but the limit is {VARIABLE_SIZE_MAX}",
                text.len()
            );
            let fix = "declare fewer waits, or shorten the probes";
            return Err(vec![Finding::error("template-too-large", Place::spec("containers"), what).fix(fix)]);
        }
        let default = || resources::default_for(self.template, &self.options.sidecar_resources);
        let resources = self.plan.sidecar_resources.clone().unwrap_or_else(default);
        let sidecar = parts::sidecar(self.plan, &text, needs_info, resources, &self.settings, self.options);
        Ok(self.insert(&Place::spec("initContainers"), Some(0), sidecar)?)
    }

    /// Returns the settings of podgate's programs. If another container uses the metrics port, removes it and warns.
    fn sidecar_settings(&mut self) -> SidecarSettings {
        let mut settings = self.options.sidecar_settings.clone();
        settings.0.extend(self.plan.sidecar_settings.0.clone());
        let spec = Spec::read(self.template, &mut Vec::new());
        if let Some(own) = settings.metrics_port().and_then(|port| spec.container_declaring(port)) {
            let (what, at) = (format!("because container {} uses the same port", own.name), own.place().to("ports"));
            let what = format!("podgate ignores the setting metrics, {what}");
            let fix = format!("remove the setting from {}, or write a free port", keys::SIDECAR_SETTINGS);
            self.findings.push(Finding::warning("unused-annotation", at, what).fix(fix));
            settings.0.remove(METRICS_SETTING);
        }
        settings
    }

    /// Reads the containers with these names and places, with their original probes.
    fn read_all(&mut self, all: Vec<(&str, Place)>, policy: Option<&str>) -> Result<Vec<Container>, Vec<Finding>> {
        let (mut list, mut findings, waiters) = (Vec::new(), Vec::new(), Waiters::of(&self.plan.containers));
        for (name, at) in all {
            match container_list::read_container(at.of(self.template).unwrap_or(&Value::Null), &at, policy) {
                Ok(mut container) => {
                    let unknown = self.originals.restore(&mut container).into_iter();
                    findings.extend(unknown.filter_map(|field| self.rewritten_probe(name, &at, field, &waiters)));
                    list.push(container);
                }
                Err(found) => findings.extend(found),
            }
        }
        if has_errors(&findings) {
            return Err(findings);
        }
        self.findings.extend(findings);
        Ok(list)
    }

    /// Reports a probe of the container `name` at `at` that Istio has rewritten. Does so only if the original probe is
    /// not known and a container waits for the probe.
    fn rewritten_probe(&self, name: &str, at: &Place, field: &str, waiters: &Waiters<'_>) -> Option<Finding> {
        let (planned, proxy) = (self.plan.get(name), istio::PROXY);
        if planned.is_some_and(|planned| planned.ready.is_some()) {
            return None;
        }
        let (waiter, _) = waiters.0.get(name)?.iter().find(|(_, want)| *want == WantedState::Ready)?;
        let waiter = self.plan.get(waiter)?;
        let what = format!(
            "{} waits for {name}, but Istio has rewritten the {field} of {name}. The variable {} of {proxy} does not \
             contain the original probe, so only {proxy} can answer the rewritten probe",
            waiter.name,
            istio::ORIGINALS_VARIABLE
        );
        let fix = "keep the probe with the annotation sidecar.istio.io/rewriteAppHTTPProbers: \"false\"";
        let waiters = waiters.transitive_waiters(name, |want| want == WantedState::Ready);
        let blocks = planned.is_some_and(ContainerPlan::has_blocking_hook);
        let mut later = self.plan.containers.iter().skip_while(|other| other.name != name);
        let (why, or) = if waiters.contains(proxy) && !waiter.continue_on_timeout {
            (format!("{proxy} starts only when {name} is Ready"), format!("do not let {proxy} wait for {name}"))
        } else if blocks && later.any(|other| other.name == proxy) {
            (format!("the hook of {name} holds {proxy} back"), format!("use entrypoint mode for {name}"))
        } else {
            return Some(Finding::warning("probe-rewritten", at.to(field), what).fix(fix));
        };
        let finding = Finding::error("probe-rewritten", at.to(field), format!("{what}, and {why}"));
        Some(finding.fix(format!("{fix}, or {or}")))
    }

    /// Puts the containers into the order in which the kubelet must start them.
    fn write_order(&mut self) -> Result<(), Finding> {
        let wanted: Vec<usize> = self.plan.containers.iter().map(|planned| planned.index).collect();
        let list = Place::spec("containers");
        let names = list.items(self.template).iter().filter_map(parts::item_name).map(str::to_owned);
        if wanted.first() != Some(&0)
            && parts::annotation_place(parts::DEFAULT_CONTAINER_KEY).of(self.template).is_none()
        {
            self.record.default_container = names.clone().next();
        }
        if !wanted.is_sorted() {
            self.record.order = names.collect();
            self.editor.reorder(&list, &wanted)?;
        }
        Ok(())
    }

    /// Writes the annotations, and checks that `uninject` can restore the original.
    fn finish(mut self) -> Result<Injected, Vec<Finding>> {
        if let Some(name) = &self.record.default_container {
            self.editor.annotate(parts::DEFAULT_CONTAINER_KEY, name)?;
        }
        let at = Place::metadata("annotations").to(keys::INJECTION_RECORD);
        self.editor.annotate(keys::INJECTION_RECORD, "")?;
        let is_reversible = undo::complete_record(&mut self.record, self.template, self.editor.value())?;
        // Replace the placeholder with the complete record.
        let (mut value, mut edits) = self.editor.finish();
        edits.pop();
        self.record.digest = by_hand::injected_parts_digest(&value);
        let record = serde_json::to_string(&self.record).unwrap_or_default();
        let last = Edit { at: at.clone(), op: Op::Set(record.into()) };
        apply(&mut value, &last)?;
        edits.push(last);
        let is_complete = ExistingInjection::read(&value)?
            .is_some_and(|written| written.record == self.record && written.manual_changes().is_empty());
        if !(is_reversible && is_complete) {
            // This should never happen. An error is better than an injection that cannot be undone.
            let what = "internal error: the injection could not be undone, so nothing was injected; please report this";
            return Err(vec![Finding::error("not-reversible", at, what)]);
        }
        Ok(Injected { value, edits, findings: self.findings, plan: None })
    }
}
