//! The injection that a template already has.

use crate::core::container::{Container, Mode};
use crate::order::declare::{Publish, SidecarUse, keys};
use crate::order::dollars;
use crate::order::edit::{Editor, Place};
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, field_place};
use crate::order::inject::record::{Record, THIS_VERSION};
use crate::order::inject::{container_list, merge, undo};
use crate::order::plan::{ImageCommand, KnownFacts};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum number of podgate's volumes in a Pod, and of podgate's mounts in a container.
const OWN_VOLUMES_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct ExistingInjection<'a> {
    pub(super) template: &'a Value,
    pub(super) record: Record,
    /// The sidecar and its place; `None` if it was removed by hand or by another webhook.
    pub(super) sidecar: Option<(Place, &'a Value)>,
}

impl<'a> ExistingInjection<'a> {
    /// Reads the injection of `template`; `None` if the template has no record of an injection.
    pub(super) fn read(template: &'a Value) -> Result<Option<Self>, Finding> {
        let Some(record) = Record::read(template)? else { return Ok(None) };
        check_parts(template)?;
        Ok(Some(ExistingInjection { template, record, sidecar: parts::find_sidecar(template) }))
    }

    /// Reports injected parts that were changed by hand, because podgate then cannot restore the original.
    pub(super) fn manual_changes(&self) -> Vec<Finding> {
        let error = |at: Place, what: String| {
            Finding::error("injected-changed", at, what)
                .fix("make the change in the manifest from before the injection")
        };
        if parts::find_image(self.template).is_some() {
            // Each container that mounts podgate's image has a gate.
            let list = Place::spec("containers");
            let items = list.items(self.template).iter().enumerate();
            let has_mount = |item: &Value| Place::root().to("volumeMounts").items(item).iter().any(parts::is_own_item);
            let broken = items.filter(|(_, item)| has_mount(item) && parts::find_gate_separator(item).is_none());
            let what = "podgate's gate in the command is missing or was changed";
            return broken.map(|(at, _)| error(list.to(at).to("command"), what.to_owned())).collect();
        }
        let Some(listed) = self.sidecar.as_ref().and_then(|(_, sidecar)| container_list::from_sidecar(sidecar)) else {
            let place = self.sidecar.as_ref().map(|(at, _)| at.clone());
            let at = place.unwrap_or_else(|| parts::annotation_place(keys::INJECTION_RECORD));
            let what = "the Pod has the annotation of an injection, but podgate's sidecar is missing or has no valid PODGATE_CONTAINERS";
            return vec![error(at, what.to_owned())];
        };
        let listed: BTreeMap<&str, &Container> = listed.iter().map(|entry| (entry.name.as_str(), entry)).collect();
        let list = Place::spec("containers");
        let mut findings = Vec::new();
        for (at, item) in list.items(self.template).iter().enumerate() {
            // Skip containers that another webhook added.
            let Some(entry) = parts::item_name(item).and_then(|name| listed.get(name)) else { continue };
            let has_gate = parts::find_gate_separator(item).is_some();
            let has_hook = |short| parts::agent_line(item, short).is_some();
            let is_reported = entry.mode == Mode::PostStart || entry.reports_start && !has_hook("readinessProbe");
            for (is_expected, is_there, part, field) in [
                (entry.mode == Mode::Hold, is_held(item, &entry.name), "variable in the env", "env"),
                (entry.mode == Mode::Entrypoint, has_gate, "gate in the command", "command"),
                (is_reported, has_hook("postStart"), "postStart hook", "postStart"),
                (entry.pre_stop, has_hook("preStop"), "preStop hook", "preStop"),
            ] {
                if is_expected && !is_there {
                    let what = format!("podgate's {part} of {} is missing or was changed", entry.name);
                    findings.push(error(field_place(&list.to(at), field), what));
                }
            }
        }
        findings
    }

    /// Removes the injected parts that the template still has, and restores the original fields.
    pub(super) fn remove_parts(&self) -> Result<Editor, Finding> {
        undo::restore(&self.record, self.sidecar.as_ref(), self.template)
            .map_err(|error| cannot_undo(parts::annotation_place(keys::INJECTION_RECORD), &error.message))
    }

    /// Adds facts of this injection to `known`: the target for states, and the image commands of containers with an
    /// unchanged image. The webhook thus keeps commands that the command line has read from a registry.
    pub(super) fn add_facts(&self, known: &KnownFacts) -> KnownFacts {
        let mut known = known.clone();
        let arguments = self.sidecar.as_ref().and_then(|(_, sidecar)| sidecar["args"].as_array());
        let is_off = arguments.is_some_and(|list| list.starts_with(&parts::PUBLISH_NONE.map(Value::from)));
        known.publish = known.publish.or(is_off.then_some(Publish::None));
        let is_lean = parts::find_image(self.template).is_some();
        known.sidecar = known.sidecar.or(is_lean.then_some(SidecarUse::Auto));
        for item in Place::spec("containers").items(self.template) {
            let Some(name) = parts::item_name(item) else { continue };
            let Some(image) = self.record.containers.get(name).and_then(|of| of.image.as_deref()) else { continue };
            let words = parts::string_list(item.get("command")).unwrap_or_default();
            if item["image"].as_str() == Some(image)
                && let Some(end) = words.iter().position(|word| word == "--")
            {
                let entrypoint = words[end + 1..].iter().map(|word| dollars::unescape(word)).collect();
                known.images.entry(name.to_owned()).or_insert(ImageCommand { entrypoint, ..ImageCommand::default() });
            }
        }
        known
    }

    /// Returns [`image`](Self::image), which another webhook may have changed; `None` if another version has injected.
    pub(super) fn image_of_this_version(&self) -> Option<&str> {
        self.image().filter(|_| self.record.version == THIS_VERSION).map(|(image, _)| image)
    }

    /// Returns the image of the sidecar or of the image volume, and its pull policy.
    pub(super) fn image(&self) -> Option<(&str, Option<&str>)> {
        let image = |(_, own): &(Place, &'a Value)| Some((own["image"].as_str()?, own["imagePullPolicy"].as_str()));
        self.sidecar.as_ref().and_then(image).or_else(|| parts::find_image(self.template))
    }
}

/// Returns true if the container `name` has the variable that makes the kubelet hold it. Accepts additional fields of
/// the variable, because the API server adds defaults. From Kubernetes 1.38 on, an optional variable holds nothing: the
/// kubelet skips it while the file is missing.
pub(in crate::order) fn is_held(container: &Value, name: &str) -> bool {
    let wanted = parts::hold_variable(name);
    let is_optional = |one: &Value| one["valueFrom"]["fileKeyRef"]["optional"] == true;
    Place::root().to("env").items(container).iter().any(|one| merge::covers(one, &wanted) && !is_optional(one))
}

/// Checks the number of the injected parts of a template, so that a forged Pod cannot overload the webhook.
/// `Record::read` has already checked the size of the template.
fn check_parts(template: &Value) -> Result<(), Finding> {
    let too_many = |list: &Place, item: &Value| {
        let own = list.items(item).iter().filter(|item| parts::is_own_item(item));
        own.take(OWN_VOLUMES_MAX + 1).count() > OWN_VOLUMES_MAX
    };
    let volumes = Place::spec("volumes");
    if too_many(&volumes, template) {
        return Err(cannot_undo(volumes, "the Pod has too many podgate volumes"));
    }
    let list = Place::spec("containers");
    for (at, item) in list.items(template).iter().enumerate() {
        if ["volumeMounts", "env"].iter().any(|field| too_many(&Place::root().to(*field), item)) {
            return Err(cannot_undo(list.to(at), "the container has too many podgate volume mounts or variables"));
        }
    }
    Ok(())
}

fn cannot_undo(at: Place, why: &str) -> Finding {
    let what = format!("the injection cannot be undone: {why}");
    Finding::error("injected-changed", at, what).fix("use the manifest from before the injection")
}
