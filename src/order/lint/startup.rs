//! Checks for containers that cannot start, cannot become Ready, or keep a Job from completing.

use super::Target;
use super::native::{NativeSidecar, advice, sidecar_startup_probe};
use super::shell::{never_ends, waits_for_local_port};
use crate::core::argv::Check;
use crate::core::container::Handler;
use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec, exec_form, is_foreign, items_of, shares_processes};
use crate::order::declare::{container_annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::helpers::{known_quit_line, runs_known_daemon};
use crate::order::plan::{ContainerPlan, Plan, Waiters};
use crate::order::suggest::{ConfigMaps, Edge, Rank, suggest};
use serde_json::Value;
use std::cell::LazyCell;

const PROBES: [&str; 2] = ["startupProbe", "readinessProbe"];

pub(super) fn check(template: &Value, spec: &Spec<'_>, plan: &Plan, target: Target<'_>, findings: &mut Vec<Finding>) {
    for own in spec.regular_and_native() {
        check_words(own, findings);
        check_hosts(own, spec, plan, findings);
    }
    check_job(template, spec, Some(plan), target, findings);
    check_mounts(spec, plan, findings);
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
            [] => format!("write {}", exec_form(program)),
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
        let mut aliases = items_of(spec.value, "hostAliases").flat_map(|alias| items_of(alias, "hostnames"));
        let Some(host) = host.filter(|host| spec.has(host) && !aliases.any(|alias| *alias == **host)) else { continue };
        let port = serde_json::to_string(&port).unwrap_or_default().replace('"', "");
        let what = format!("{host} is a container of this Pod, and containers have no host names of their own");
        let fix = format!("use localhost:{port} in a check, no host in a probe; for a Service, write {host}.NAMESPACE");
        findings.push(Finding::warning("host-is-container", at, what).fix(fix));
    }
}

/// Reports containers of a Job that probably keep running after the Job's work is done.
pub(super) fn check_job(
    template: &Value,
    spec: &Spec<'_>,
    plan: Option<&Plan>,
    target: Target<'_>,
    findings: &mut Vec<Finding>,
) {
    let owners = Place::metadata("ownerReferences");
    let is_job = target.workload.is_some() || owners.items(template).iter().any(|owner| owner["kind"] == "Job");
    if !spec.runs_to_completion() || !is_job {
        return;
    }
    let Waiters(waiters) = plan.map_or_else(|| Waiters::of(&[]), |plan| Waiters::of(&plan.containers));
    let planned = |own: &ContainerRef<'_>| plan.and_then(|plan| plan.get(own.name));
    // Another container, or a wrapper of the server's command, may end the server.
    let is_ended = LazyCell::new(|| {
        let lists = spec.containers.iter().flat_map(|own| ["command", "args"].map(|field| own.string_list(field)));
        let text = lists.flatten().flatten().collect::<Vec<_>>().join(" ");
        let ends = |word: &str| "kill pkill quit shutdown validate".split(' ').any(|end| word.starts_with(end));
        shares_processes(spec.value) || text.split(|c: char| !c.is_alphanumeric()).any(ends)
    });
    let is_server = |own: &&ContainerRef<'_>| {
        let wanted = waiters.get(own.name).map_or(&[][..], Vec::as_slice);
        let ready = planned(own).is_some_and(|planned| planned.ready.is_some());
        let listens = ["readinessProbe", "livenessProbe", "ports"].iter().any(|field| !own.value[field].is_null());
        let is_needed = !wanted.is_empty() && wanted.iter().all(|(_, want)| !want.is_exit()) && (ready || listens);
        is_needed || (runs_known_daemon(own) || never_ends(own)) && !*is_ended
    };
    let stops = |own: &ContainerRef<'_>| planned(own).is_some_and(ContainerPlan::is_ended_with_job);
    let servers: Vec<&ContainerRef<'_>> = spec.containers.iter().filter(is_server).collect();
    let is_alone = servers.len() == spec.containers.len();
    let servers: Vec<&ContainerRef<'_>> = servers.into_iter().filter(|own| !stops(own)).collect();
    let Some(first) = servers.first().filter(|_| !is_alone) else { return };
    let names = servers.iter().map(|own| own.name).collect::<Vec<_>>().join(", ");
    let what = format!("the Job completes only when all its containers exit, but these probably keep running: {names}");
    let quit = servers.iter().find_map(|own| known_quit_line(own)).filter(|_| plan.is_some());
    let line = quit.unwrap_or_else(|| format!("{}: \"{names}\"", keys::JOB_SIDECARS));
    let native = servers.iter().map(|own| NativeSidecar {
        name: own.name.to_owned(),
        startup_probe: sidecar_startup_probe(own).unwrap_or_default(),
    });
    let native = advice(&native.collect::<Vec<_>>()).fix.replace(", startupProbe: null", "");
    let exits = plan.map_or("", |_| "write =Completed if they exit, or ");
    let fix = format!("{native}; or {exits}add the annotation {line}");
    findings.push(Finding::warning("job-never-completes", first.place(), what).fix(fix));
}

/// Reports containers that the order starts before a container whose address they name, unless they retry.
pub fn check_reversed(template: &Value, plan: &Plan) -> Vec<Finding> {
    let (spec, after) = (Spec::read(template, &mut Vec::new()), Waiters::of(&plan.containers));
    let found = suggest(template, &ConfigMaps::new());
    let reversed = |own: &ContainerRef<'_>| {
        let later = after.transitive_waiters(own.name, |want| want != WantedState::Started);
        let is_late = |one: &&Edge| one.waiter == own.name && one.rank == Rank::Fails && later.contains(&*one.needed);
        let Edge { needed, finding, .. } = found.edges.iter().filter(|one| !is_foreign(&one.needed)).find(is_late)?;
        let what = format!("the order starts {} before {needed}, but {}", own.name, finding.message);
        let fix = format!("start {needed} first, as in {}: \"{}\"", keys::ORDER, found.order.as_ref()?);
        Some(Finding::warning("order-reversed", finding.at.clone(), what).fix(fix))
    };
    spec.containers.iter().filter(|own| !waits_for_local_port(own)).filter_map(reversed).collect()
}

/// Reports `mount://` conditions of containers that cannot see the mounts of others in a shared volume.
fn check_mounts(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    for (number, planned) in plan.containers.iter().enumerate() {
        let Some(own) = spec.regular(&planned.name) else { continue };
        for check in planned.checks() {
            let Check::Mount(path) = check else { continue };
            let depth = |mount: &Value| {
                let directory = mount["mountPath"].as_str()?.trim_end_matches('/');
                path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')).then_some(directory.len())
            };
            let mounts = items_of(own.value, "volumeMounts").enumerate();
            let innermost = mounts.filter_map(|(index, mount)| Some((depth(mount)?, index, mount)));
            let Some((_, index, mount)) = innermost.max_by_key(|(depth, ..)| *depth) else { continue };
            if matches!(mount["mountPropagation"].as_str(), Some("HostToContainer" | "Bidirectional")) {
                continue;
            }
            // The mount may have existed in the volume before the Pod, or a container that was created earlier may have
            // made the mount.
            let is_same = |one: &Value| one["name"] == mount["name"];
            let is_empty = items_of(spec.value, "volumes").any(|one| is_same(one) && one["emptyDir"].is_object());
            let makes_mounts = |own: &Value| {
                items_of(own, "volumeMounts").any(|one| is_same(one) && one["mountPropagation"] == "Bidirectional")
            };
            let earlier = plan.containers[..number].iter().filter_map(|planned| spec.regular(&planned.name));
            let mut earlier = items_of(spec.value, "initContainers").chain(earlier.map(|earlier| earlier.value));
            let what = format!(
                "{} waits for {check}, but mounts the volume without mountPropagation, so it sees only mounts that exist \
                 when it starts",
                own.name
            );
            let at = own.place().to("volumeMounts").to(index);
            // After a time-out, the gate exits. The restarted container then sees the mount.
            let is_last = own.restart_policy(spec.value) == "Never" && !planned.continue_on_timeout;
            let finding = match is_empty && is_last && !earlier.any(makes_mounts) {
                true => Finding::error("mount-not-visible", at, format!("{what}, and the kubelet does not restart it")),
                false => Finding::warning("mount-not-visible", at, what),
            };
            findings.push(finding.fix("set mountPropagation: HostToContainer in this volumeMount"));
        }
    }
}
