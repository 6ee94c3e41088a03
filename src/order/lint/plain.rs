//! Checks that need no declared order: waits that Kubernetes does not keep, probes and hooks that never succeed, and Jobs
//! that never complete.

use super::Target;
use super::native::sidecar_startup_probe;
use super::shell::{awaited_ports, command_text, waits_for_local_port, words};
use crate::order::declare::spec::{ContainerRef, SIDECAR_NAME, Spec};
use crate::order::declare::{keys, limits};
use crate::order::finding::Finding;
use crate::order::helpers::is_helper;
use crate::order::plan::Plan;
use crate::order::suggest::{Address, Member, Mention, Rank, listens_on_loopback, local_mentions, port_servers};
use serde_json::{Value, json};

/// Maximum number of addresses in the later containers that podgate reads.
const ADDRESSES_MAX: usize = 1000;

/// Checks a template with or without an order; `plan` is the plan of its order.
pub fn check_plain(template: &Value, plan: Option<&Plan>, target: Target<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Ok(_) = limits::check(template, false) else { return findings };
    let spec = Spec::read(template, &mut Vec::new());
    check_native_sidecars(&spec, plan, &mut findings);
    for own in spec.native_sidecars_by_name().chain(spec.exiting_init_containers()).chain(&spec.containers) {
        check_loopback(own, &mut findings);
        check_hook(own, &mut findings);
    }
    if plan.is_none() {
        check_loops(&spec, &mut findings);
        super::startup::check_job(template, &spec, None, target, &mut findings);
    }
    findings
}

/// Reports native sidecars that are not awaited despite a readinessProbe, if a later container names their address.
fn check_native_sidecars(spec: &Spec<'_>, plan: Option<&Plan>, findings: &mut Vec<Finding>) {
    let is_there = |own: &ContainerRef<'_>, field: &str| own.value[field].is_object();
    // An init container that waits also delays all later containers.
    let waiting = spec.exiting_init_containers().filter(|own| waits_for_local_port(own)).map(|own| own.index).max();
    let is_unawaited = |own: &&ContainerRef<'_>| {
        let is_ready = is_there(own, "readinessProbe") && !is_there(own, "startupProbe");
        // The kubelet waits for a postStart hook too.
        let is_awaited = is_there(own, "lifecycle") || waiting.is_some_and(|index| index > own.index);
        is_ready && !is_awaited && own.name != SIDECAR_NAME
    };
    let sidecars: Vec<&ContainerRef<'_>> = spec.native_sidecars_by_name().filter(is_unawaited).collect();
    let Some(first) = sidecars.first() else { return };
    let mut clients: Vec<_> = spec.native_sidecars_by_name().chain(spec.exiting_init_containers()).collect();
    clients.retain(|own| own.index > first.index);
    clients.sort_by_key(|own| own.index);
    clients.extend(&spec.containers);
    let servers: Vec<Member<'_>> = spec.regular_and_native().map(|own| Member::of(*own, local_mentions(own))).collect();
    let is_used = |one: &Mention| !(one.listens || one.is_later || one.is_implied || one.rank == Rank::Retries);
    let named = clients.iter().flat_map(|own| local_mentions(own).into_iter().map(move |mention| (*own, mention)));
    let with_server = |(own, mention): (_, Mention)| {
        let Address::Port(port) = mention.address else { return None };
        let [only] = port_servers(port, &servers).0[..] else { return None };
        Some((own, mention, only.name))
    };
    let named = named.filter(|(_, mention)| is_used(mention)).take(ADDRESSES_MAX);
    let named: Vec<(&ContainerRef<'_>, Mention, &str)> = named.filter_map(with_server).collect();
    for sidecar in sidecars {
        let is_ordered = |own: &ContainerRef<'_>| {
            let planned = plan.and_then(|plan| plan.get(own.name));
            planned.is_some_and(|planned| planned.after.iter().any(|need| need.container == sidecar.name))
        };
        let client = named.iter().find(|(own, _, server)| {
            let is_later = own.list == "containers" || own.index > sidecar.index;
            *server == sidecar.name && is_later && !is_ordered(own)
        });
        let (Some((own, mention, _)), Some(probe)) = (client, sidecar_startup_probe(sidecar)) else { continue };
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
fn check_loops(spec: &Spec<'_>, findings: &mut Vec<Finding>) {
    let all = || spec.regular_and_native().map(|own| Member::of(*own, local_mentions(own)));
    let waiting = spec.containers.iter().chain(spec.exiting_init_containers());
    for (own, port) in waiting.flat_map(|own| awaited_ports(own).into_iter().map(move |port| (own, port))) {
        let [needed] = port_servers(port, &all().collect::<Vec<_>>()).0[..] else { continue };
        let (name, other, is_native) = (own.name, needed.name, needed.is_native());
        // Kubernetes starts a regular container only when all init containers have exited.
        let can_end = own.list == "containers" || is_native && needed.index < own.index;
        if name == other || !can_end || is_native && needed.value["startupProbe"].is_object() {
            continue;
        }
        let tcp = json!({"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 300});
        let probe = sidecar_startup_probe(&needed).or(Some(tcp).filter(|_| !listens_on_loopback(&needed, port)));
        let order = format!("add podgate's annotation {}: \"{other}, {name}\"", keys::ORDER);
        let fix = match probe {
            Some(probe) if is_native => format!("give {other} the startupProbe {probe}"),
            Some(probe) if is_helper(&needed) => format!("make {other} a native sidecar with the startupProbe {probe}"),
            _ if needed.probe("readinessProbe").is_some() => order,
            _ => format!("{order}, {}{other}: \"tcp://127.0.0.1:{port}\"", keys::READY_PREFIX),
        };
        let what = format!("{name} polls port {port} of {other} in a loop, because Kubernetes does not let it wait");
        findings.push(Finding::note("shell-wait", own.place(), what).fix(format!("{fix}, and remove the loop")));
    }
}

/// Reports network probes of programs that listen on the loopback address only.
fn check_loopback(own: &ContainerRef<'_>, findings: &mut Vec<Finding>) {
    for field in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let Some(probe) = own.probe(field) else { continue };
        // With `hostNetwork`, the kubelet can reach a loopback address, if it is the probe's host.
        if ["httpGet", "tcpSocket"].iter().any(|action| own.value[field][*action]["host"].is_string()) {
            continue;
        }
        let port = own.ports_and_probes().probe_port(&probe).filter(|port| listens_on_loopback(own, *port));
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
fn check_hook(own: &ContainerRef<'_>, findings: &mut Vec<Finding>) {
    let text = command_text(&ContainerRef { value: &own.value["lifecycle"]["postStart"]["exec"], ..*own });
    // `pod/$HOSTNAME` becomes `pod HOSTNAME`.
    let line = words(&text.replace('/', " ")).join(" ") + " ";
    let has = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
    let variables = own.value["env"].as_array().into_iter().flatten();
    let variables = variables.filter(|one| one["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name");
    let mut names = variables.filter_map(|one| one["name"].as_str()).chain(["HOSTNAME", "hostname"]);
    let is_own = |name: &str| ["po", "pod", "pods"].iter().any(|kind| has(&[&format!(" {kind} {name} ")]));
    let waits = has(&["kubectl wait", "until ", "while "]) && has(&["Ready", "Running", "status", "phase"]);
    // The scheduler sets `PodScheduled`, and a command in the background does not delay the end of the hook.
    let can_end = has(&[" & ", "nohup", "PodScheduled", "Initialized", "for=delete"]);
    if waits && !can_end && names.any(is_own) {
        let what = "the hook waits for its own Pod's status, but the kubelet reports this container only when the hook has ended";
        let fix = "let the hook test the program itself, for example its port, or let the program wait";
        let at = own.place().to("lifecycle").to("postStart").to("exec").to("command");
        findings.push(Finding::warning("hook-awaits-itself", at, what).fix(fix));
    }
}
