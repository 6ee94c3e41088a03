//! What is written into one container.

use super::writer::Writer;
use crate::core::container::{Container, Mode};
use crate::order::declare::{Publish, annotation_of, keys};
use crate::order::edit::{Misfit, Op, Place};
use crate::order::finding::Finding;
use crate::order::inject::lines::{Own, span};
use crate::order::inject::{checks, hooks, parts};
use crate::order::plan::Planned;
use serde_json::{Value, json};
use std::time::Duration;

impl Writer<'_> {
    /// Writes what one container needs; what the sidecar is to know of it.
    pub(super) fn container(&mut self, planned: &Planned, told: &Container) -> Result<Container, Vec<Finding>> {
        let place = Self::place(planned);
        let own = Own { planned, told, spec: self.spec(planned) };
        let mut entry = Container { mode: planned.mode, until: planned.until.clone(), ..told.clone() };
        match planned.mode {
            Mode::Entrypoint => self.gate(&own, &place)?,
            Mode::PostStart => self.post_start(&own, &place)?,
            Mode::None => {}
        }
        entry.pre_stop = self.pre_stop(&own, &place)?;
        if entry.mode != Mode::None || entry.pre_stop {
            for mount in parts::mounts(&planned.name) {
                self.push(&place.to("volumeMounts"), mount)?;
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
            self.editor.edit(command, Op::Set(json!(words)))?;
        } else {
            for (at, word) in gate.into_iter().enumerate() {
                self.editor.edit(command.to(at), Op::Insert(word.into()))?;
            }
        }
        if own.planned.until.is_empty() {
            return Ok(());
        }
        self.editor.edit(place.to("startupProbe"), Op::Set(own.opened()))?;
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
            let at = parts::field(place, "postStart");
            let what = "the container's own postStart hook runs when its gate begins to wait, before its command does";
            let mend = "let it not wait for the command, or do its work in the command";
            self.findings.push(Finding::warning("post-start-before-gate", at, what).mend(mend));
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
        let is_given = annotation_of(keys::COMMAND_PREFIX, name).of(self.template).is_some();
        if !is_given && let Some(image) = own.spec.get("image").and_then(Value::as_str) {
            self.record.containers.entry(name.clone()).or_default().image = Some(image.to_owned());
        }
        if !args.is_empty() && !whole.ends_with(&args) {
            self.editor.edit(place.to("args"), Op::Remove)?;
        }
        Ok(words)
    }

    fn post_start(&mut self, own: &Own<'_>, place: &Place) -> Result<(), Vec<Finding>> {
        let at = parts::field(place, "postStart");
        let then = hooks::then_post_start(hooks::own(own.spec.pointer("/lifecycle/postStart")), &at)?;
        let expands =
            |field: &str| parts::exec_words(own.spec.get(field)).is_some_and(|w| w.iter().any(|w| w.contains("$(")));
        if own.waits_for_itself()
            && let Some(field) = ["startupProbe", "readinessProbe"].into_iter().find(|field| expands(field))
        {
            let what = "Kubernetes expands $(VARIABLE) in the command of a probe, but not in that of a hook, and podgate's hook has to \
                        run this command";
            let mend = r#"let a shell do it: ["sh", "-c", "… $VARIABLE …"], or give this container an entrypoint gate"#;
            return Err(Finding::error("probe-expands", place.to(field), what).mend(mend).into());
        }
        let words = own.post_start(then);
        Ok(self.hook(place, "postStart", &words)?)
    }

    /// Writes the preStop hook, if one is needed.
    fn pre_stop(&mut self, own: &Own<'_>, place: &Place) -> Result<bool, Vec<Finding>> {
        let planned = own.planned;
        let at = parts::field(place, "preStop");
        let mut stays: &[String] = &planned.stays_for;
        // Without the API, a hook that stays knows of the Pod's end by the hooks of those that it stays for.
        let is_sign = planned.is_stayed_for && self.plan.publish == Publish::Board;
        let mut grace = planned.stop_grace;
        if grace.is_zero() {
            stays = &[];
            grace = self.plan.grace.saturating_sub(Duration::from_secs(1));
        }
        if stays.is_empty() && (!is_sign || grace.is_zero()) {
            return Ok(false);
        }
        let own_hook = hooks::own(own.spec.pointer("/lifecycle/preStop"));
        let (mut then, note) = hooks::then_pre_stop(own_hook, own.told, &at)?;
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
        let words = own.pre_stop(stays, then, grace, logs);
        self.hook(place, "preStop", &words)?;
        Ok(true)
    }

    fn hook(&mut self, place: &Place, field: &str, words: &[String]) -> Result<(), Misfit> {
        self.object(&place.to("lifecycle"))?;
        self.editor.edit(parts::field(place, field), Op::Set(json!({"exec": {"command": words}})))
    }
}
