//! Writes the gate, hooks and mounts of one container.

use super::Writer;
use crate::core::container::{Container, Handler, Probe};
use crate::core::names;
use crate::core::until::WantedState;
use crate::order::declare::spec::{Spec, shares_processes};
use crate::order::declare::{container_annotation_place, keys};
use crate::order::dollars;
use crate::order::edit::{Op, Place};
use crate::order::finding::Finding;
use crate::order::inject::command_lines::CommandLines;
use crate::order::inject::container_list::VARIABLE_SIZE_MAX;
use crate::order::inject::parts;
use crate::order::inject::user_hooks;
use crate::order::plan::{ContainerPlan, GatePlan, PlannedMode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

impl Writer<'_> {
    /// Writes podgate's parts into one container. Returns the container's entry in the sidecar's list.
    pub(super) fn write_container(
        &mut self,
        planned: &ContainerPlan,
        container: &Container,
        predecessors: Option<&[Container]>,
    ) -> Result<Container, Vec<Finding>> {
        let place = Place::spec("containers").to(planned.index);
        let spec = place.of(self.template).unwrap_or(&Value::Null);
        let mut found = Place::spec("containers").items(self.injected_before.unwrap_or(&Value::Null)).iter();
        let found = found.find(|item| parts::item_name(item) == Some(&planned.name));
        let startup_probe = self.expand(container.startup_probe.clone(), spec)?;
        let readiness_probe = self.expand(container.readiness_probe.clone(), spec)?;
        let own_container = Container { startup_probe, readiness_probe, ..container.clone() };
        let settings = self.settings.clone();
        let own = CommandLines { planned, container: &own_container, spec, found, settings: &settings, predecessors };
        let mut entry = planned.list_entry(container.clone());
        match &planned.mode {
            PlannedMode::Entrypoint(gate) => {
                self.write_gate(&own, gate, &place)?;
                if predecessors.is_some() {
                    let from = json!({"fieldRef": {"fieldPath": "status.podIP"}});
                    self.push(&place.to("env"), json!({"name": names::POD_IP_VARIABLE, "valueFrom": from}))?;
                    // The image volume has the agent at the same path as the board.
                    self.push(&place.to("volumeMounts"), parts::program_mount())?;
                    return Ok(entry);
                }
                // The sidecar runs the startupProbe for the gate.
                let startup_probe = container.startup_probe.as_ref().filter(|probe| !probe.is_exec());
                let startup_probe = startup_probe.filter(|_| planned.has_closed_gate());
                entry.startup_probe = entry.startup_probe.or_else(|| startup_probe.cloned());
            }
            PlannedMode::Hold => {
                self.push(&place.to("env"), parts::hold_variable(&planned.name))?;
                self.push(&place.to("volumeMounts"), parts::held_container_mount())?;
                let seconds = planned.timeout.as_secs() + u64::from(planned.timeout.subsec_nanos() > 0);
                entry.timeout_seconds = Some(seconds.try_into().unwrap_or(u32::MAX));
                entry.continue_on_timeout = planned.continue_on_timeout;
            }
            PlannedMode::PostStart(_) | PlannedMode::None => {}
        }
        if planned.has_hook() {
            let at = parts::field_place(&place, "postStart");
            let hook = own.spec.pointer("/lifecycle/postStart");
            let then = user_hooks::then_command(hook, own.container, ("postStart", "own-post-start"), &at)?;
            self.write_hook(&place, "postStart", &own.post_start(then))?;
        }
        if let Some(probe) = &planned.wrapped_probe {
            self.wrap_probe(&own, probe, &place.to("readinessProbe"))?;
        }
        entry.pre_stop = self.write_pre_stop(&own, &place)?;
        if planned.entrypoint_gate().is_some() || planned.has_hook() || entry.reports_start || entry.pre_stop {
            for mount in parts::mounts(&planned.name, planned.has_blocking_hook()) {
                self.push(&place.to("volumeMounts"), mount)?;
            }
        }
        Ok(entry)
    }

    fn write_gate(&mut self, own: &CommandLines<'_>, gate: &GatePlan, place: &Place) -> Result<(), Vec<Finding>> {
        let command = place.to("command");
        let written = parts::string_list(own.spec.get("command")).unwrap_or_default();
        let line = own.gate(gate);
        if written.is_empty() || line.len() > parts::WORDS_EDITED_SINGLY_MAX {
            let words = if written.is_empty() { self.full_command(own, gate, place)? } else { written };
            self.editor.edit(command, Op::Set(json!([line, words].concat())))?;
        } else {
            for (at, word) in line.into_iter().enumerate() {
                self.editor.edit(command.to(at), Op::Insert(word.into()))?;
            }
        }
        if !own.planned.has_closed_gate() {
            return Ok(());
        }
        let name = &own.planned.name;
        if !self.is_unready_while_closed(own, gate) {
            self.editor.edit(place.to("startupProbe"), Op::Set(own.gate_startup_probe()))?;
        }
        if own.spec.pointer("/lifecycle/postStart").is_some_and(|hook| !hook.is_null()) {
            let at = parts::field_place(place, "postStart");
            let what = format!("the postStart hook of {name} runs while its gate waits, before its command starts");
            let fix = "do not let the hook wait for the command, or move the hook's work into the command";
            self.findings.push(Finding::warning("post-start-before-gate", at, what).fix(fix));
        }
        Ok(())
    }

    /// Returns true if a closed gate needs no startupProbe, and so no `exec`: the container's only probe is an `httpGet`
    /// or `grpc` readinessProbe of its own port, which fails while the gate waits. A `tcpSocket` probe can pass, because
    /// the proxy of a service mesh accepts each connection. The kubelet counts `initialDelaySeconds` from the start of
    /// the gate. For other conditions than Ready, `status` needs the startupProbe if no states are published.
    fn is_unready_while_closed(&self, own: &CommandLines<'_>, gate: &GatePlan) -> bool {
        let fails = |probe: &Probe| {
            matches!(probe.handler, Handler::HttpGet(_) | Handler::Grpc(_))
                && probe.handler.host().is_none()
                && probe.initial_delay_seconds == 0
        };
        gate.checks.is_empty()
            && own.planned.after.iter().all(|until| until.want == WantedState::Ready)
            && own.container.startup_probe.is_none()
            && own.spec["livenessProbe"].is_null()
            && own.container.readiness_probe.as_ref().is_some_and(fails)
            && self.template["spec"]["hostNetwork"] != true
            && Spec::read(self.template, &mut Vec::new()).shared_port(own.container).is_none()
    }

    /// Returns the command to write into a container without `command` in the manifest. Removes the container's `args`
    /// from the manifest, unless the known command ends with the same words.
    fn full_command(&mut self, own: &CommandLines<'_>, gate: &GatePlan, place: &Place) -> Result<Vec<String>, Finding> {
        let args = parts::string_list(own.spec.get("args")).unwrap_or_default();
        let whole = &gate.command;
        let words = whole.strip_suffix(args.as_slice()).unwrap_or(whole).to_vec();
        let name = &own.planned.name;
        let is_given = container_annotation_place(keys::COMMAND_PREFIX, name).of(self.template).is_some();
        if !is_given && let Some(image) = own.spec["image"].as_str() {
            self.record.containers.entry(name.clone()).or_default().image = Some(image.to_owned());
        }
        if !args.is_empty() && !whole.ends_with(&args) {
            self.editor.edit(place.to("args"), Op::Remove)?;
        }
        Ok(words)
    }

    /// Puts `podgate probe` in front of the command of an exec readinessProbe. That process waits until the command
    /// passes, so this function raises `timeoutSeconds`. It also moves the initial delay to a flag.
    fn wrap_probe(&mut self, own: &CommandLines<'_>, probe: &Probe, place: &Place) -> Result<(), Finding> {
        // In a shared process namespace, the agent does not know the container's age, so it cannot apply a delay.
        let delay = if shares_processes(&self.template["spec"]) { 0 } else { probe.initial_delay_seconds };
        let (line, limit) = own.probe_prefix(&Probe { initial_delay_seconds: delay, ..probe.clone() });
        for (at, word) in line.into_iter().enumerate() {
            self.editor.edit(place.to("exec").to("command").to(at), Op::Insert(word.into()))?;
        }
        self.editor.edit(place.to("timeoutSeconds"), Op::Set(limit.into()))?;
        if delay > 0 {
            self.editor.edit(place.to("initialDelaySeconds"), Op::Set(0.into()))?;
        }
        Ok(())
    }

    /// Writes the container's preStop hook, if it needs one. Returns true if the hook was written.
    fn write_pre_stop(&mut self, own: &CommandLines<'_>, place: &Place) -> Result<bool, Vec<Finding>> {
        let planned = own.planned;
        let at = parts::field_place(place, "preStop");
        let mut outlives: &[String] = &planned.outlives;
        let mut grace = planned.pre_stop_limit;
        if grace.is_zero() {
            outlives = &[];
            grace = self.plan.grace.saturating_sub(Duration::from_secs(1));
        }
        // The other preStop hooks detect the stop of the Pod from the start of this hook.
        if outlives.is_empty() && (!planned.is_outlived || grace.is_zero()) {
            return Ok(false);
        }
        let own_hook = self.originals.pre_stop(&planned.name, own.spec);
        let then = user_hooks::then_command(own_hook, own.container, ("preStop", "own-pre-stop"), &at)?;
        let logs = !shares_processes(&self.template["spec"]);
        let takes = user_hooks::sleep_seconds(own_hook).map(Duration::from_secs);
        self.write_hook(place, "preStop", &own.pre_stop(outlives, then, takes, grace, logs))?;
        Ok(true)
    }

    fn write_hook(&mut self, place: &Place, field: &str, words: &[String]) -> Result<(), Finding> {
        self.editor.add_object_if_absent(&place.to("lifecycle"))?;
        self.editor.edit(parts::field_place(place, field), Op::Set(json!({"exec": {"command": words}})))
    }

    /// Expands the command of an `exec` probe as the kubelet does. Otherwise, Kubernetes would not expand the command
    /// in a hook, and would expand the JSON text of a gate's check.
    fn expand(&mut self, mut probe: Option<Probe>, spec: &Value) -> Result<Option<Probe>, Finding> {
        let Some(Probe { handler: Handler::Exec(exec), .. }) = &mut probe else { return Ok(probe) };
        let env = Place::root().to("env").items(spec);
        let pair = |one| Some((parts::item_name(one)?, one["value"].as_str().unwrap_or_default()));
        let values: BTreeMap<&str, &str> = env.iter().filter_map(pair).collect();
        for word in &mut exec.command {
            *word = dollars::expand(word, |name| {
                let text = *values.get(name)?;
                self.expanded = self.expanded.saturating_add(text.len());
                Some(text).filter(|_| self.expanded <= VARIABLE_SIZE_MAX)
            });
        }
        if self.expanded > VARIABLE_SIZE_MAX {
            let what = format!("the variables in the Pod's exec probes expand to more than {VARIABLE_SIZE_MAX} bytes");
            let fix = "let the probes run scripts that use the variables";
            return Err(Finding::error("template-too-large", Place::spec("containers"), what).fix(fix));
        }
        Ok(probe)
    }
}
