//! Reads the containers in the `spec` of a template.

use crate::core::container::{Container, Probe};
use crate::core::container_list::CONTAINERS_MAX;
use crate::core::names;
use crate::order::declare::grammar::quoted;
use crate::order::declare::nearest::did_you_mean;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

/// Name of podgate's own sidecar.
pub const SIDECAR_NAME: &str = "podgate";

/// Returns true if other products inject a container of this name. The user cannot move such a container.
pub(crate) fn is_foreign(name: &str) -> bool {
    matches!(name, "daprd" | "istio-proxy" | "linkerd-proxy" | "otc-container" | "vault-agent")
}

/// The `spec` of a template and its containers.
#[derive(Debug, Clone)]
pub struct Spec<'a> {
    /// The `spec` as JSON.
    pub value: &'a Value,
    /// Regular containers, in list order.
    pub containers: Vec<ContainerRef<'a>>,
    /// Init containers and native sidecars, by name.
    init: BTreeMap<&'a str, ContainerRef<'a>>,
    /// Index in `containers` by name. If two containers have the same name, the index of the first.
    by_name: BTreeMap<&'a str, usize>,
}

/// One container of a template.
#[derive(Debug, Clone, Copy)]
pub struct ContainerRef<'a> {
    /// Name of the container.
    pub name: &'a str,
    /// Field of the spec with the container's list: `containers` or `initContainers`.
    pub list: &'static str,
    /// Index of the container in the manifest's list.
    pub index: usize,
    /// The container as JSON.
    pub value: &'a Value,
}

impl<'a> ContainerRef<'a> {
    /// Returns the value of a list field such as `command` or `args`. `None` unless the value is a list of strings.
    pub fn string_list(&self, field: &str) -> Option<Vec<String>> {
        string_list(self.value.get(field))
    }

    /// Returns the probe in `field`, such as `readinessProbe`. `None` if the probe is absent or invalid.
    pub fn probe(&self, field: &str) -> Option<Probe> {
        let value = self.value.get(field).filter(|value| !value.is_null())?;
        serde_json::from_value(without_nulls(value)).ok()
    }

    /// Returns true if the container declares this port.
    pub fn declares_port(&self, port: u16) -> bool {
        items_of(self.value, "ports").any(|one| one["containerPort"] == port)
    }

    /// Returns the container's name, ports, startupProbe and readinessProbe.
    pub(crate) fn ports_and_probes(&self) -> Container {
        let ports = items_of(self.value, "ports");
        let ports = ports.filter_map(|port| serde_json::from_value(without_nulls(port)).ok()).collect();
        let [startup_probe, readiness_probe] = ["startupProbe", "readinessProbe"].map(|field| self.probe(field));
        Container { name: self.name.to_owned(), ports, startup_probe, readiness_probe, ..Container::default() }
    }

    /// Returns the ports that the container declares or probes.
    pub(crate) fn used_ports(&self) -> Vec<u16> {
        let own = self.ports_and_probes();
        let liveness = self.probe("livenessProbe");
        let probed = own.probes().chain(&liveness).filter_map(|probe| own.probe_port(probe));
        probed.chain(own.ports.iter().map(|port| port.container_port)).collect()
    }

    /// Returns the place of this container in the template.
    pub fn place(&self) -> Place {
        Place::spec(self.list).to(self.index)
    }

    /// Returns the kind of this init container, for messages.
    pub fn init_kind(&self) -> &'static str {
        if self.is_native() { "a native sidecar" } else { "an init container" }
    }

    /// Returns true for a native sidecar: an init container that keeps running.
    pub fn is_native(&self) -> bool {
        self.list == "initContainers" && self.value["restartPolicy"].as_str() == Some("Always")
    }

    /// Returns the container's own restart policy (Kubernetes 1.35), otherwise the Pod's restart policy.
    pub fn restart_policy(&self, spec: &'a Value) -> &'a str {
        let own = self.value["restartPolicy"].as_str();
        own.or_else(|| spec["restartPolicy"].as_str()).unwrap_or("Always")
    }
}

/// Returns the items of the list in `field` of `value`; none if there is no list.
pub fn items_of<'a>(value: &'a Value, field: &str) -> std::slice::Iter<'a, Value> {
    value[field].as_array().map_or(&[][..], Vec::as_slice).iter()
}

/// Converts a JSON list of strings. Returns `None` if `value` is absent or has another type.
pub(crate) fn string_list(value: Option<&Value>) -> Option<Vec<String>> {
    value?.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// Returns a command line as a list. A line with special characters of the shell becomes an argument of `/bin/sh -c`.
pub(crate) fn exec_form(line: &str) -> Value {
    match line.contains(['\'', '"', '\\', '$', '`', '|', '&', ';', '<', '>', '*']) {
        true => vec!["/bin/sh", "-c", line].into(),
        false => line.split_whitespace().collect::<Vec<_>>().into(),
    }
}

/// Returns the init container or regular container `name` of a template, and its place.
pub fn find_container<'a>(template: &'a Value, name: &str) -> Option<(Place, &'a Value)> {
    ["initContainers", "containers"].map(Place::spec).into_iter().find_map(|list| {
        let (at, own) = list.items(template).iter().enumerate().find(|(_, own)| own["name"] == name)?;
        Some((list.to(at), own))
    })
}

/// Returns the containers in the list `field` of `spec`. Omits containers without a name.
fn named_containers<'a>(spec: &'a Value, field: &'static str) -> Vec<ContainerRef<'a>> {
    let named = |(index, value): (usize, &'a Value)| {
        value["name"].as_str().map(|name| ContainerRef { name, list: field, index, value })
    };
    items_of(spec, field).enumerate().filter_map(named).collect()
}

impl<'a> Spec<'a> {
    /// Reads `template`, an object with `spec`. Adds errors in the number or the names of containers to `findings`.
    pub fn read(template: &'a Value, findings: &mut Vec<Finding>) -> Spec<'a> {
        let value = template.get("spec").unwrap_or(&Value::Null);
        let containers = named_containers(value, "containers");
        let by_name = containers.iter().enumerate().rev().map(|(at, own)| (own.name, at)).collect();
        let init = named_containers(value, "initContainers").into_iter().map(|own| (own.name, own)).collect();
        let spec = Spec { value, containers, init, by_name };
        spec.check_commands(findings);
        for list in ["containers", "initContainers"] {
            check_names(value, list, findings);
        }
        spec
    }

    /// Reports commands that are not lists of strings, which the API server rejects.
    fn check_commands(&self, findings: &mut Vec<Finding>) {
        for own in self.containers.iter().chain(self.init.values()) {
            for field in ["command", "args"] {
                let fix = match own.value.get(field) {
                    None | Some(Value::Null) => continue,
                    Some(Value::String(line)) => format!("write {field}: {}", exec_form(line)),
                    Some(Value::Array(items)) => match items.iter().find(|item| !item.is_string()) {
                        Some(item) => format!("write the item {item} as a string, in quotes"),
                        None => continue,
                    },
                    Some(_) => "write a list such as [\"/usr/bin/program\", \"argument\"]".to_owned(),
                };
                let what = format!("{field} must be a list of strings");
                findings.push(Finding::error("wrong-type", own.place().to(field), what).fix(fix));
            }
        }
    }

    /// Returns the Pod's grace period, 30 s by default.
    pub fn grace_period(&self) -> Duration {
        let seconds = self.value["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
        // The API accepts any int64, which may be too large for calculations.
        Duration::from_secs(seconds.min(365 * 24 * 60 * 60))
    }

    /// Returns true if the Pod's containers run to completion, as in a Job.
    pub fn runs_to_completion(&self) -> bool {
        matches!(self.value["restartPolicy"].as_str(), Some("Never" | "OnFailure"))
    }

    /// Returns the regular container `name`.
    pub fn regular(&self, name: &str) -> Option<&ContainerRef<'a>> {
        self.by_name.get(name).map(|at| &self.containers[*at])
    }

    /// Returns the init container or native sidecar `name`; `None` for podgate's own sidecar, and for a name that a
    /// regular container also has.
    pub fn init_or_native(&self, name: &str) -> Option<&ContainerRef<'a>> {
        self.init.get(name).filter(|_| self.regular(name).is_none() && name != SIDECAR_NAME)
    }

    /// Returns the native sidecars, sorted by name.
    pub fn native_sidecars_by_name(&self) -> impl Iterator<Item = &ContainerRef<'a>> {
        self.init.values().filter(|own| own.is_native())
    }

    /// Returns the regular containers in list order, then the native sidecars sorted by name.
    pub fn regular_and_native(&self) -> impl Iterator<Item = &ContainerRef<'a>> {
        self.containers.iter().chain(self.native_sidecars_by_name())
    }

    /// Returns the init containers that exit before the regular containers start.
    pub fn exiting_init_containers(&self) -> impl Iterator<Item = &ContainerRef<'a>> {
        self.init.values().filter(|own| !own.is_native())
    }

    /// Returns the regular container or native sidecar that declares this port; `None` if the port is free.
    pub(crate) fn container_declaring(&self, port: u16) -> Option<&ContainerRef<'a>> {
        self.regular_and_native().find(|own| own.declares_port(port))
    }

    /// Returns a port of the probes of `entry` that another container declares or probes, and that container's name.
    pub(crate) fn shared_port(&self, entry: &Container) -> Option<(u16, &'a str)> {
        let ports: Vec<u16> = entry.probes().filter_map(|probe| entry.probe_port(probe)).collect();
        let others = self.regular_and_native().filter(|own| own.name != entry.name);
        let mut used = others.flat_map(|own| own.used_ports().into_iter().map(|port| (port, own.name)));
        used.find(|(port, _)| ports.contains(port))
    }

    /// Returns true if a regular container, an init container or a native sidecar is called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.regular(name).or(self.init_or_native(name)).is_some()
    }

    /// Returns an error if no regular container is called `name`; `word` is the name's range in the annotation at `at`.
    pub fn check_regular_name(&self, name: &str, at: &Place, word: Option<Range<usize>>) -> Option<Finding> {
        if self.regular(name).is_some() {
            return None;
        }
        let finding = |rule, what: String| Finding { span: word, ..Finding::error(rule, at.clone(), what) };
        if name == SIDECAR_NAME {
            let what = format!("{name} is podgate's own sidecar, which always starts first");
            // Do not report podgate's sidecar as an unknown container, because no later webhook can add the sidecar.
            return Some(finding("condition-never-met", what).fix(format!("do not name {name} here")));
        }
        if let Some(init) = self.init_or_native(name) {
            let what = format!("{name} is {}, which podgate never changes or stops", init.init_kind());
            return Some(finding("init-container", what).fix("do not name it here, or move it to spec.containers"));
        }
        let known = self.containers.iter().map(|own| own.name).chain(self.init.keys().copied());
        let fix = did_you_mean(name, known).unwrap_or_else(|| {
            let some: Vec<&str> = self.containers.iter().map(|own| own.name).take(12).collect();
            let more = if self.containers.len() > some.len() { ", …" } else { "" };
            let hint =
                if is_foreign(name) { format!(", or write {name}? if a webhook adds it") } else { String::new() };
            format!("use one of {}{more}{hint}", some.join(", "))
        });
        Some(finding("unknown-container", format!("there is no container {name}")).fix(fix))
    }
}

/// Reports each container of the list if its name is missing, invalid, or the name of an earlier container.
fn check_names(spec: &Value, list: &str, findings: &mut Vec<Finding>) {
    let (list_at, mut seen) = (Place::spec(list), BTreeSet::new());
    for (index, item) in items_of(spec, list).take(CONTAINERS_MAX).enumerate() {
        let at = list_at.to(index);
        findings.push(match item["name"].as_str() {
            None => Finding::error("bad-container", at, "a container has no name").fix("give every container a name"),
            Some(name) if !names::is_container_name(name) => {
                let what = format!("{} is not a valid container name", quoted(name));
                let fix = "use at most 63 lowercase letters, digits and hyphens; start and end with a letter or digit";
                Finding::error("bad-container", at.to("name"), what).fix(fix)
            }
            Some(name) if !seen.insert(name) => {
                let what = format!("two containers are named {name}");
                Finding::error("doubled-container", at.to("name"), what).fix("give each container its own name")
            }
            Some(_) => continue,
        });
    }
}

/// Returns true if `/proc/1` in a container of the Pod with this `spec` is not a process of the container itself.
pub(crate) fn shares_processes(spec: &Value) -> bool {
    ["shareProcessNamespace", "hostPID"].iter().any(|field| spec[field] == true)
}

/// Returns `value` without null fields. The API treats null like an absent field.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
