//! Checks for containers that cannot start, cannot become Ready, or keep a Job from completing.

use super::Context;
use super::probes::PortOwners;
use crate::core::container::{Container, Handler, Probe};
use crate::core::quit::is_local;
use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec, command_words};
use crate::order::declare::{container_annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::REWRITTEN_PATH;
use crate::order::plan::{ContainerPlan, Plan, Waiters};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const PROBES: [&str; 2] = ["startupProbe", "readinessProbe"];

pub(super) fn check(template: &Value, spec: &Spec<'_>, plan: &Plan, context: Context<'_>, findings: &mut Vec<Finding>) {
    for own in spec.containers.iter().chain(spec.natives()) {
        check_words(own, findings);
        check_hosts(own, spec, plan, findings);
    }
    check_ports(spec, plan, findings);
    check_job(template, spec, plan, context, findings);
}

/// Reports commands whose program has spaces in its name, including the commands of probes and hooks.
fn check_words(own: &ContainerRef<'_>, findings: &mut Vec<Finding>) {
    let place = Place::root();
    let hooks = ["postStart", "preStop"].map(|hook| place.to("lifecycle").to(hook).to("exec"));
    let probes = ["startupProbe", "readinessProbe", "livenessProbe"].map(|probe| place.to(probe).to("exec"));
    for at in [place.clone()].into_iter().chain(probes).chain(hooks).map(|place| place.to("command")) {
        let [Value::String(program), rest @ ..] = at.items(own.value) else { continue };
        if !program.contains(char::is_whitespace) {
            continue;
        }
        let what =
            format!("{} has no program with this name: the first item of a command is the program alone", own.name);
        let fix = match rest {
            [] => format!("write {}", command_words(program)),
            _ => "write each word as an item of its own".to_owned(),
        };
        findings.push(Finding::warning("command-not-split", own.place().join(&at).to(0), what).fix(fix));
    }
}

/// Reports probes and checks that use the name of a container as their host.
fn check_hosts(own: &ContainerRef<'_>, spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let at = container_annotation_place(keys::CHECK_PREFIX, own.name);
    let checks = plan.get(own.name).into_iter().flat_map(ContainerPlan::checks);
    let checks = checks.filter_map(|check| Some((at.clone(), Handler::from_check(check.clone())?)));
    let probes = PROBES.iter().filter_map(|field| Some((own.place().to(*field), own.probe(field)?.handler)));
    for (at, handler) in checks.chain(probes) {
        let (host, port) = match handler {
            Handler::HttpGet(http) => (http.host, http.port),
            Handler::TcpSocket(tcp) => (tcp.host, tcp.port),
            Handler::Exec(_) | Handler::Grpc(_) => continue,
        };
        let aliases = spec.value["hostAliases"].as_array().into_iter().flatten();
        let mut aliases = aliases.filter_map(|alias| alias["hostnames"].as_array()).flatten();
        let Some(host) = host.filter(|host| spec.has(host) && !aliases.any(|alias| *alias == **host)) else { continue };
        let port = serde_json::to_string(&port).unwrap_or_default().replace('"', "");
        let what = format!("{host} is a container of this Pod, and containers have no host names of their own");
        let fix = format!("use localhost:{port}; for a Service of this name, write {host}.NAMESPACE");
        findings.push(Finding::warning("host-is-container", at, what).fix(fix));
    }
}

/// Reports two containers that listen on the same port at the same time.
fn check_ports(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let mut owners = PortOwners::of(spec, plan).by_port;
    // A probe may use the port of another container. The containers that declare a port own that port. If no container
    // declares the port, the containers that probe the port own it.
    let declared: BTreeSet<u16> = owners.keys().copied().collect();
    for own in spec.containers.iter().chain(spec.natives()) {
        let container: Container = serde_json::from_value(own.value.clone()).unwrap_or_default();
        let probed = container.probes().filter(|probe| is_own(probe)).filter_map(|probe| container.probe_port(probe));
        for port in probed.filter(|port| !declared.contains(port)) {
            owners.entry(port).or_default().push(own.name);
        }
    }
    let waiters = Waiters::of(&plan.containers);
    let later = |own: &ContainerPlan| waiters.transitive_waiters(&own.name, WantedState::is_exit);
    let later: BTreeMap<&str, BTreeSet<&str>> =
        plan.containers.iter().map(|own| (own.name.as_str(), later(own))).collect();
    let awaits_exit = |one: &str, other: &str| later.get(other).is_some_and(|later| later.contains(one));
    let is_beside = |(one, other): &(&str, &str)| one != other && !awaits_exit(one, other) && !awaits_exit(other, one);
    for (port, names) in owners {
        let pairs = names.iter().enumerate().flat_map(|(at, one)| names[at + 1..].iter().map(|other| (*one, *other)));
        let Some((first, other)) = pairs.into_iter().find(is_beside) else { continue };
        let Some(other) = spec.get(other).or(spec.init(other)) else { continue };
        let what = format!("{first} and {} both use port {port}, but a Pod's containers share the ports", other.name);
        findings.push(Finding::warning("same-port", other.place(), what).fix("give one container another port"));
    }
}

/// Returns true if the probe reaches its own container, according to the probe's host and path.
fn is_own(probe: &Probe) -> bool {
    // Istio and Kuma (`/8080/healthz`) rewrite probes, so that the kubelet probes their proxies.
    let is_port = |part: &str| part.parse::<u16>().is_ok();
    let is_rewritten = |path: &str| path.starts_with(REWRITTEN_PATH) || path.split('/').nth(1).is_some_and(is_port);
    let path = if let Handler::HttpGet(http) = &probe.handler { http.path.as_deref() } else { None };
    is_local(probe.handler.host()) && !path.is_some_and(is_rewritten)
}

/// Reports containers of a Job that probably keep running after the Job's work is done.
fn check_job(template: &Value, spec: &Spec<'_>, plan: &Plan, context: Context<'_>, findings: &mut Vec<Finding>) {
    let owners = Place::metadata("ownerReferences");
    let is_job = context.workload.is_some() || owners.items(template).iter().any(|owner| owner["kind"] == "Job");
    if !spec.runs_to_completion() || !is_job {
        return;
    }
    let Waiters(waiters) = Waiters::of(&plan.containers);
    let is_server = |own: &&ContainerRef<'_>| {
        let wanted = waiters.get(own.name).map_or(&[][..], Vec::as_slice);
        let stops = plan.get(own.name).is_some_and(ContainerPlan::ends_last);
        let ready = plan.get(own.name).is_some_and(|planned| planned.ready.is_some());
        let listens = ["readinessProbe", "livenessProbe", "ports"].iter().any(|field| !own.value[field].is_null());
        !wanted.is_empty() && wanted.iter().all(|(_, want)| !want.is_exit()) && !stops && (ready || listens)
    };
    let servers: Vec<&ContainerRef<'_>> = spec.containers.iter().filter(is_server).collect();
    let Some(first) = servers.first() else { return };
    let names = servers.iter().map(|own| own.name).collect::<Vec<_>>().join(", ");
    let what = format!("the Job completes only when all its containers exit, but these probably keep running: {names}");
    let fix = format!("write =Completed if they exit, add {}: \"{names}\", or use native sidecars", keys::JOB_SIDECARS);
    findings.push(Finding::warning("job-never-completes", first.place(), what).fix(fix));
}
