//! A plan, written into a template.

use crate::core::container::{Container, Mode, parse_list};
use crate::core::declare::keys;
use crate::core::edit::{Editor, Misfit, Op, Place};
use crate::core::finding::{Finding, Level};
use crate::core::inject::lines::{Own, span};
use crate::core::inject::record::Record;
use crate::core::inject::{Injected, Options, checks, hooks, parts, refuse, reorder, told, undo};
use crate::core::plan::{Plan, Planned, Publish, Sidecar};
use crate::core::until::{Until, Want};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

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
    let unchanged = Injected { value: template.clone(), edits: Vec::new(), findings: Vec::new() };
    let stayed = |name: &str| plan.containers.iter().any(|other| other.stays_for.iter().any(|stays| stays == name));
    let is_idle = |one: &Planned| one.mode == Mode::None && one.stays_for.is_empty() && !stayed(&one.name);
    if plan.containers.iter().all(is_idle) {
        let what = "nothing is declared that podgate would have to do";
        let note = Finding::note("nothing-to-do", Place::root().to("metadata"), what);
        return Ok(Injected { findings: vec![note], ..unchanged });
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

/// By what those that stay for a container see that it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// By a tether, which a gate holds anyway.
    Gate,
    /// By the tether of a postStart hook.
    Hook,
    /// By its port.
    Port(u16),
    /// By nothing.
    Unseen,
}

pub(super) fn strange(misfit: &Misfit) -> Vec<Finding> {
    vec![Finding::error("strange-type", misfit.0.clone(), misfit.to_string())]
}

impl Writer<'_> {
    fn all(&mut self) -> Result<(), Vec<Finding>> {
        let told = self.told()?;
        let gone: Vec<Gone> = (0..told.len()).map(|at| self.gone(at, &told[at])).collect();
        let mut list = Vec::new();
        for (at, told) in told.iter().enumerate() {
            list.push(self.container(at, told, &gone)?);
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

    fn spec(&self, planned: &Planned) -> &Value {
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

    /// By what it will be seen that the container at `at` of the plan is gone.
    fn gone(&self, at: usize, told: &Container) -> Gone {
        let waits = |one: &Planned| one.mode == Mode::Entrypoint && !one.until.is_empty();
        match self.plan.containers[at].mode {
            Mode::Entrypoint => Gone::Gate,
            Mode::PostStart => Gone::Hook,
            // No hook may stand behind a gate that waits.
            Mode::None if !self.plan.containers[..at].iter().any(waits) => Gone::Hook,
            Mode::None => {
                let port = told.probes().find_map(|probe| told.probe_port(probe)).filter(|port| *port != 0);
                port.map_or(Gone::Unseen, Gone::Port)
            }
        }
    }

    /// Writes what one container needs; what the sidecar is to know of it.
    fn container(&mut self, at: usize, told: &Container, gone: &[Gone]) -> Result<Container, Vec<Finding>> {
        let planned = &self.plan.containers[at];
        let place = Self::place(planned);
        let spec = self.spec(planned).clone();
        let own = Own { planned, told, spec: &spec };
        let is_stayed_for = self.is_stayed_for(&planned.name);
        let mut entry = Container { mode: planned.mode, ..told.clone() };
        match planned.mode {
            Mode::Entrypoint => {
                entry.until = planned.until.clone();
                self.gate(&own, &place)?;
            }
            Mode::PostStart => {
                entry.until = planned.until.clone();
                self.post_start(&own, &place, is_stayed_for)?;
            }
            Mode::None if is_stayed_for && gone[at] == Gone::Hook => {
                entry.mode = Mode::PostStart;
                entry.until = vec![Until { container: planned.name.clone(), want: Want::Started }];
                self.post_start(&own, &place, true)?;
            }
            Mode::None => {}
        }
        entry.pre_stop = self.pre_stop(&own, &place, is_stayed_for, gone)?;
        if entry.mode != Mode::None || entry.pre_stop {
            for mount in parts::mounts(&planned.name) {
                self.push(&place.to("volumeMounts"), mount).map_err(|misfit| strange(&misfit))?;
            }
        }
        Ok(entry)
    }

    fn gate(&mut self, own: &Own<'_>, place: &Place) -> Result<(), Vec<Finding>> {
        let command = place.to("command");
        let written = parts::strings(own.spec.get("command")).unwrap_or_default();
        let gate = own.gate();
        if written.is_empty() {
            let words = [gate, self.whole(own, place)?].concat();
            self.editor.edit(command, Op::Set(json!(words))).map_err(|misfit| strange(&misfit))?;
        } else {
            for (at, word) in gate.into_iter().enumerate() {
                self.editor.edit(command.to(at), Op::Insert(word.into())).map_err(|misfit| strange(&misfit))?;
            }
        }
        if own.planned.until.is_empty() {
            return Ok(());
        }
        self.editor.edit(place.to("startupProbe"), Op::Set(own.opened())).map_err(|misfit| strange(&misfit))?;
        if let Some(probe) = &own.told.startup_probe {
            let (at, mend) = (place.to("startupProbe"), "make it a plain httpGet, a tcpSocket or an exec");
            let said = match checks::of(own.told, probe) {
                checks::Asked::Same(_) => None,
                checks::Asked::Port(port, why) => Some(format!(
                    "behind the gate the kubelet asks only whether port {port} listens, instead of this startupProbe: {why}"
                )),
                checks::Asked::Nothing(why) => {
                    Some(format!("behind the gate the kubelet does not make this startupProbe any more: {why}"))
                }
            };
            self.findings.extend(said.map(|what| Finding::warning("startup-probe-weaker", at, what).mend(mend)));
        }
        if hooks::own(own.spec.pointer("/lifecycle/postStart")) != hooks::Own::None {
            let what = "the container's own postStart hook runs when its gate begins to wait, before its command does";
            let mend = "let it not wait for the command, or do its work in the command";
            self.findings.push(
                Finding::warning("post-start-before-gate", place.to("lifecycle").to("postStart"), what).mend(mend),
            );
        }
        Ok(())
    }

    /// The command of a container whose manifest has none, as it is to be written out; `args` go on standing behind it where they
    /// belong to it.
    fn whole(&mut self, own: &Own<'_>, place: &Place) -> Result<Vec<String>, Vec<Finding>> {
        let name = &own.planned.name;
        let args = parts::strings(own.spec.get("args")).unwrap_or_default();
        let whole = own.planned.command.clone().unwrap_or_default();
        let words = whole.strip_suffix(args.as_slice()).unwrap_or(&whole).to_vec();
        if words.is_empty() && args.is_empty() || whole.is_empty() {
            let what = format!("the command of container {name} is not known, and an entrypoint gate needs it");
            return Err(vec![Finding::error("command-unknown", place.to("command"), what).mend(format!(
                "write it out as command, or give it by the annotation {}{name}, or choose mode.podgate.io/{name}: post-start",
                keys::COMMAND_PREFIX
            ))]);
        }
        let is_given = parts::annotation(&format!("{}{name}", keys::COMMAND_PREFIX)).of(self.template).is_some();
        if !is_given && let Some(image) = own.spec.get("image").and_then(Value::as_str) {
            self.record.containers.entry(name.clone()).or_default().image = Some(image.to_owned());
        }
        if !args.is_empty() && !whole.ends_with(&args) {
            self.editor.edit(place.to("args"), Op::Remove).map_err(|misfit| strange(&misfit))?;
        }
        Ok(words)
    }

    fn post_start(&mut self, own: &Own<'_>, place: &Place, is_stayed_for: bool) -> Result<(), Vec<Finding>> {
        let at = place.to("lifecycle").to("postStart");
        let then =
            hooks::then_post_start(hooks::own(own.spec.pointer("/lifecycle/postStart")), &at).map_err(|e| vec![e])?;
        let expands =
            |field: &str| parts::exec_words(own.spec.get(field)).is_some_and(|w| w.iter().any(|w| w.contains("$(")));
        if own.waits_for_itself()
            && let Some(field) = ["startupProbe", "readinessProbe"].into_iter().find(|field| expands(field))
        {
            let what = "Kubernetes expands $(VARIABLE) in the command of a probe, but not in that of a hook, and podgate's hook has to \
                        run this command";
            let mend =
                "let a shell do it: [\"sh\", \"-c\", \"… $VARIABLE …\"], or give this container an entrypoint gate";
            return Err(vec![Finding::error("probe-expands", place.to(field), what).mend(mend)]);
        }
        let words = own.post_start(is_stayed_for, then);
        self.hook(place, "postStart", &words)
    }

    /// Writes the preStop hook, if one is needed.
    fn pre_stop(
        &mut self,
        own: &Own<'_>,
        place: &Place,
        is_stayed_for: bool,
        gone: &[Gone],
    ) -> Result<bool, Vec<Finding>> {
        let planned = own.planned;
        let at = place.to("lifecycle").to("preStop");
        let mut stays = Vec::new();
        for name in &planned.stays_for {
            let index = self.plan.containers.iter().position(|other| other.name == *name);
            match index.map(|index| gone[index]) {
                Some(Gone::Gate | Gone::Hook) => stays.push(("--until", name.clone())),
                Some(Gone::Port(port)) => stays.push(("--check-closed", checks::tcp(port))),
                Some(Gone::Unseen) | None => {
                    let what = format!(
                        "container {} can't stay for {name}: nothing tells when that one is gone, which has neither a gate nor a hook \
                         nor a probe with a port",
                        planned.name
                    );
                    let mend = format!(
                        "write the command of {name} out, so that it gets a gate, or give it a readinessProbe with a port"
                    );
                    self.findings.push(Finding::warning("end-unseen", place.clone(), what).mend(mend));
                }
            }
        }
        // Without the API, a hook that stays knows of the Pod's end by the hooks of those that it stays for.
        let is_sign = is_stayed_for && self.plan.publish == Publish::Board;
        let mut grace = planned.stop_grace;
        if grace.is_zero() {
            stays.clear();
            grace = self.plan.grace.saturating_sub(Duration::from_secs(1));
        }
        if stays.is_empty() && (!is_sign || grace.is_zero()) {
            return Ok(false);
        }
        let own_hook = hooks::own(own.spec.pointer("/lifecycle/preStop"));
        let (mut then, note) = hooks::then_pre_stop(own_hook, own.told, &at).map_err(|e| vec![e])?;
        self.findings.extend(note);
        if stays.is_empty() && then.is_none() {
            then = Some(hooks::nothing());
        }
        // Process 1 is the container's own only where it has a process namespace of its own.
        let shared = ["shareProcessNamespace", "hostPID"];
        let logs = !shared.iter().any(|field| parts::spec(field).of(self.template) == Some(&json!(true)));
        let takes = then.as_ref().and_then(|then| then.takes).unwrap_or_default();
        if takes >= grace && !stays.is_empty() {
            let what = format!(
                "the container's own preStop hook takes {}, which leaves no time to stay for others: podgate's hook has {} in all",
                span(takes),
                span(grace)
            );
            let mend = "give the Pod a longer terminationGracePeriodSeconds";
            self.findings.push(Finding::warning("pre-stop-too-long", at, what).mend(mend));
        }
        let words = own.pre_stop(&stays, then, grace, logs);
        self.hook(place, "preStop", &words)?;
        Ok(true)
    }

    fn hook(&mut self, place: &Place, field: &str, words: &[String]) -> Result<(), Vec<Finding>> {
        let hook = json!({"exec": {"command": words}});
        self.object(&place.to("lifecycle")).map_err(|misfit| strange(&misfit))?;
        self.editor.edit(place.to("lifecycle").to(field), Op::Set(hook)).map_err(|misfit| strange(&misfit))
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
        undo::complete(&mut self.record, self.template, self.editor.value());
        // The placeholder is not worth an edit of its own.
        let (mut value, mut edits) = self.editor.finish();
        edits.pop();
        let last = crate::core::edit::Edit { at: at.clone(), op: Op::Set(self.record.text().into()) };
        crate::core::edit::apply(&mut value, &last).map_err(|misfit| strange(&misfit))?;
        edits.push(last);
        match undo::undo(&value) {
            Ok(Some(back)) if back.value() == self.template => {}
            // Never to be seen; better than a template that can't be had back.
            _ => {
                let what = "podgate could not take out again what it has put in, so it puts in nothing; this is a fault of podgate's";
                return Err(vec![Finding::error("not-reversible", at, what)]);
            }
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
