//! Checks that need no declared order: waits that Kubernetes does not keep or that never end, and probes that never
//! pass.

use super::LintContext;
use super::native::sidecar_startup_probe;
use super::shell::{awaited_ports, is_loop, script, words};
use crate::order::declare::spec::{ContainerRef, SIDECAR_NAME, Spec};
use crate::order::declare::{keys, limits};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::helpers::is_helper;
use crate::order::plan::Plan;
use crate::order::suggest::{Address, Mention, argument_ports, listens_on_loopback, local_mentions};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of addresses in the later containers that podgate compares with each native sidecar.
const ADDRESSES_MAX: usize = 1000;

/// Checks a template with or without an order; `plan` is the plan of its order.
pub fn check_plain(template: &Value, plan: Option<&Plan>, context: LintContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if limits::check(template, false).is_err() {
        return findings;
    }
    let spec = Spec::read(template, &mut Vec::new());
    // The kubelet starts the containers in this order.
    let mut all: Vec<ContainerRef<'_>> =
        spec.native_sidecars().chain(spec.exiting_init_containers()).copied().collect();
    all.sort_by_key(|own| own.index);
    all.extend(&spec.containers);
    let servers = Servers::of(&spec);
    let ports = all.iter().flat_map(|own| awaited_ports(&script(own)).into_iter().map(move |port| (*own, port)));
    let waits =
        ports.filter_map(|(own, port)| Some(ScriptWait { own, port, needed: servers.find(&own, port)? })).collect();
    let pod = Pod { servers, plan, waits };
    pod.check_native_sidecars(&all, &mut findings);
    pod.check_loops(&mut findings);
    for own in &all {
        check_loopback(own, &mut findings);
        check_hook(own, template, context, &mut findings);
    }
    if plan.is_none() {
        super::startup::check_job(template, &spec, None, context, &mut findings);
    }
    findings
}

struct Pod<'a> {
    servers: Servers<'a>,
    plan: Option<&'a Plan>,
    /// Waits of scripts.
    waits: Vec<ScriptWait<'a>>,
}

/// Wait of a container's shell script for a port of another container.
struct ScriptWait<'a> {
    own: ContainerRef<'a>,
    port: u16,
    needed: ContainerRef<'a>,
}

/// Containers by port: those that declare or probe the port, and those that have it in their arguments.
struct Servers<'a>([BTreeMap<u16, Vec<ContainerRef<'a>>>; 2]);

impl<'a> Servers<'a> {
    fn of(spec: &Spec<'a>) -> Servers<'a> {
        let mut found = [BTreeMap::<u16, Vec<_>>::new(), BTreeMap::new()];
        for own in spec.containers.iter().chain(spec.native_sidecars()) {
            for (ports, by_port) in
                [own.used_ports().into_iter().collect(), argument_ports(own)].into_iter().zip(&mut found)
            {
                ports.into_iter().for_each(|port| by_port.entry(port).or_default().push(*own));
            }
        }
        Servers(found)
    }

    /// Returns the other container that listens on `port`. `None` if several containers could listen there.
    fn find(&self, own: &ContainerRef<'_>, port: u16) -> Option<ContainerRef<'a>> {
        match self.0.iter().find_map(|by_port| by_port.get(&port))?[..] {
            [only] if only.name != own.name => Some(only),
            _ => None,
        }
    }
}

impl Pod<'_> {
    /// Returns true if the order already lets `own` wait for `needed`.
    fn is_ordered(&self, own: &ContainerRef<'_>, needed: &ContainerRef<'_>) -> bool {
        let planned = self.plan.and_then(|plan| plan.get(own.name));
        planned.is_some_and(|planned| planned.after.iter().any(|need| need.container == needed.name))
    }

    /// Reports native sidecars with a readinessProbe for which Kubernetes does not wait, although a later container
    /// names their address.
    fn check_native_sidecars(&self, all: &[ContainerRef<'_>], findings: &mut Vec<Finding>) {
        let is_there = |own: &ContainerRef<'_>, field: &str| own.value[field].is_object();
        // The kubelet waits for a postStart hook too.
        let is_unawaited = |own: &&ContainerRef<'_>| {
            let is_ready = is_there(own, "readinessProbe") && !is_there(own, "startupProbe");
            own.is_native_sidecar() && is_ready && !is_there(own, "lifecycle") && own.name != SIDECAR_NAME
        };
        let sidecars: Vec<&ContainerRef<'_>> = all.iter().filter(is_unawaited).collect();
        let Some(first) = sidecars.first() else { return };
        let clients = all.iter().filter(|own| own.list == "containers" || own.index > first.index);
        let named = clients.flat_map(|own| local_mentions(own).into_iter().map(move |mention| (own, mention)));
        let is_used = |(_, mention): &(_, Mention)| !mention.listens && !mention.is_later;
        let named: Vec<_> = named.filter(is_used).take(ADDRESSES_MAX).collect();
        for sidecar in sidecars {
            let waits = |own: &ContainerRef<'_>| {
                let mut waits = self.waits.iter().filter(|wait| wait.needed.name == sidecar.name);
                // A waiting init container also delays all later containers.
                waits.any(|wait| wait.own.name == own.name || wait.own.list != "containers")
                    || self.is_ordered(own, sidecar)
            };
            let client = named.iter().find(|(own, mention)| {
                let is_later = own.list == "containers" || own.index > sidecar.index;
                let Address::Port(port) = mention.address else { return false };
                let is_server = |needed: ContainerRef<'_>| needed.name == sidecar.name;
                is_later && self.servers.find(own, port).is_some_and(is_server) && !waits(own)
            });
            let (Some((own, mention)), Some(probe)) = (client, sidecar_startup_probe(sidecar)) else { continue };
            let what = format!(
                "Kubernetes does not wait for the readinessProbe of {0}: it starts {1} as soon as {0} runs, but {2} of {1} \
                 names {3}, a port of {0}",
                sidecar.name, own.name, mention.label, mention.shown
            );
            let fix = format!("give {} a startupProbe, for which Kubernetes waits: {probe}", sidecar.name);
            findings.push(Finding::warning("native-not-awaited", sidecar.place().to("readinessProbe"), what).fix(fix));
        }
    }

    /// Reports shell loops that wait for another container of the Pod.
    fn check_loops(&self, findings: &mut Vec<Finding>) {
        for ScriptWait { own, port, needed } in &self.waits {
            let at = place_of(own, *port);
            let (name, other) = (own.name, needed.name);
            if own.list != "containers" && (needed.list == "containers" || needed.index > own.index) {
                // A declared order has its own rule, and a native sidecar does not delay the containers after it.
                if self.plan.is_none() && !own.is_native_sidecar() {
                    let what = format!(
                        "{name} waits for port {port} of {other}, but Kubernetes starts {other} only when {name} has \
                         exited: the wait never ends"
                    );
                    let fix = format!("let the container that needs {other} wait, not an init container");
                    findings.push(Finding::warning("readiness-needs-later", at, what).fix(fix));
                }
                continue;
            }
            if self.is_ordered(own, needed) {
                continue;
            }
            let default = || json!({"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 300});
            let probe = sidecar_startup_probe(needed).unwrap_or_else(default);
            let order = format!("{}: \"{other}, {name}\"", keys::ORDER);
            let fix = if needed.is_native_sidecar() {
                format!("remove the loop, and add to {other}: startupProbe: {probe}")
            } else if is_helper(needed) {
                format!(
                    "move {other} to initContainers, with restartPolicy: Always, startupProbe: {probe}; or add \
                     podgate's annotation {order}; then remove the loop"
                )
            } else {
                format!("add podgate's annotation {order}, and remove the loop")
            };
            let what = format!(
                "the command of {name} waits for port {port} of {other} in a loop, because Kubernetes does not let {name} \
                 wait until {other} is Ready"
            );
            findings.push(Finding::note("shell-wait", at, what).fix(fix));
        }
    }
}

/// Returns the place of the first word of the command line that contains `port`, otherwise the container's place.
fn place_of(own: &ContainerRef<'_>, port: u16) -> Place {
    let port = port.to_string();
    let fields = ["command", "args"]
        .into_iter()
        .flat_map(|field| list(own.value, field).enumerate().map(move |(index, word)| (field, index, word)));
    let mut found = fields.filter(|(.., word)| word.as_str().is_some_and(|word| word.contains(&port)));
    found.next().map_or_else(|| own.place(), |(field, index, _)| own.place().to(field).to(index))
}

/// Reports network probes of programs that listen on the loopback address only.
fn check_loopback(own: &ContainerRef<'_>, findings: &mut Vec<Finding>) {
    for field in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let Some(probe) = own.probe(field) else { continue };
        // With `hostNetwork`, the kubelet can reach a loopback address, if it is the probe's host.
        if ["httpGet", "tcpSocket"].iter().any(|action| own.value[field][*action]["host"].is_string()) {
            continue;
        }
        let port = own.container_entry().probe_port(&probe).filter(|port| listens_on_loopback(own, *port));
        let (Some(port), name) = (port, own.name) else { continue };
        let what = format!(
            "{name} listens on 127.0.0.1 only, but the kubelet sends the {field} to port {port} of the Pod's IP address"
        );
        let fix = format!(
            "let {name} listen on 0.0.0.0:{port}, or use an exec probe; in podgate's order, {}{name}: tcp://127.0.0.1:{port} \
             can replace the probe",
            keys::READY_PREFIX
        );
        findings.push(Finding::warning("probe-on-loopback", own.place().to(field), what).fix(fix));
    }
}

/// Reports a postStart hook that waits for the status of its own Pod.
fn check_hook(own: &ContainerRef<'_>, template: &Value, context: LintContext<'_>, findings: &mut Vec<Finding>) {
    let at = Place::root().to("lifecycle").to("postStart").to("exec").to("command");
    let line: Vec<&str> = at.items(own.value).iter().filter_map(Value::as_str).collect();
    let line = line.join(" ");
    let words = words(&line);
    let variables = list(own.value, "env").filter(|one| one["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name");
    let pod = template["metadata"]["name"].as_str().filter(|_| context.workload.is_none());
    let names: Vec<&str> =
        variables.filter_map(|one| one["name"].as_str()).chain(["HOSTNAME", "hostname"]).chain(pod).collect();
    // A variable is a word of its own, because `words` splits at `$`: `pod/$HOSTNAME`.
    let is_own = |word: &&str| names.contains(&word.rsplit('/').next().unwrap_or_default());
    let is_pod = |word: &&str| {
        matches!(word.trim_end_matches('/'), "po" | "pod" | "pods")
            || ["pod/", "pods/", "/pods/"].iter().any(|part| word.contains(part))
    };
    if !words.iter().any(is_own) || !words.iter().any(is_pod) {
        return;
    }
    let has = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
    let is_status = has(&["Ready", "Running", "status", "phase"]);
    let waits = words.windows(2).any(|two| two[0].ends_with("kubectl") && two[1] == "wait")
        || has(&["kubectl", "/api/v1/"]) && words.iter().any(|word| is_loop(word));
    let is_in_background = words.contains(&"&") || words.contains(&"nohup");
    if waits && is_status && !is_in_background && !has(&["PodScheduled", "for=delete"]) {
        let what = format!(
            "the postStart hook of {} waits for the status of its own Pod, but the kubelet updates this status only when the \
             hook has ended",
            own.name
        );
        let fix = "let the hook test the program itself, for example its port, or move the wait into the program";
        findings.push(Finding::warning("hook-awaits-itself", own.place().join(&at), what).fix(fix));
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}
