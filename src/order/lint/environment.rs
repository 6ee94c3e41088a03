//! Checks of the containers' environment: network, processes, Kubernetes version, time limits of the workload.

use super::Target;
use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::declare::{Publish, annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::kubernetes_version::Version;
use crate::order::plan::Plan;
use humantime::format_duration;
use serde_json::Value;
use std::time::Duration;

/// Version whose patch releases before 1.35.4 have the bug kubernetes#137146.
const WITH_LOST_RESTARTS: Version = Version { major: 1, minor: 35 };
const DEFAULT_PROGRESS_DEADLINE: Duration = Duration::from_secs(600);

pub(super) fn check(spec: &Spec<'_>, plan: &Plan, target: Target<'_>, longest: Duration, findings: &mut Vec<Finding>) {
    check_native_startup(spec, target, findings);
    check_host_network(spec, plan, findings);
    check_processes(spec, plan, findings);
    check_restarts(spec, plan, findings);
    check_deletion(plan, findings);
    check_deadlines(spec, target, longest, findings);
}

/// Returns the description of a bug in the context's Kubernetes version. The bug can keep the Pod's containers from
/// starting if a native sidecar has a startupProbe. Returns `None` if the version has no such bug.
pub(super) fn startup_defect(spec: &Spec<'_>, target: Target<'_>) -> Option<&'static str> {
    match target.kubernetes? {
        WITH_LOST_RESTARTS => Some(
            "after a restart of the kubelet, Kubernetes before 1.35.4 never restarts containers that exit \
             (kubernetes#137146)",
        ),
        version if version < WITH_LOST_RESTARTS && spec.value["restartPolicy"] == "Never" => Some(
            "if this probe fails once, Kubernetes before 1.33.6 and 1.34.2 never starts the containers of a Pod with restartPolicy \
             Never (kubernetes#132826)",
        ),
        _ => None,
    }
}

fn check_native_startup(spec: &Spec<'_>, target: Target<'_>, findings: &mut Vec<Finding>) {
    let Some(defect) = startup_defect(spec, target) else { return };
    for own in spec.native_sidecars_by_name().filter(|own| !own.value["startupProbe"].is_null()) {
        let what = format!("{} is a native sidecar with a startupProbe: {defect}", own.name);
        let fix = format!("update the nodes, or use a readinessProbe and name {} in the order", own.name);
        findings.push(Finding::warning("native-startup", own.place().to("startupProbe"), what).fix(fix));
    }
}

fn check_host_network(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let is_shared = spec.value["hostNetwork"] == true;
    let uses_network = |own: &ContainerRef<'_>| {
        if let Some(check) = plan.get(own.name).and_then(|planned| planned.ready.as_ref()) {
            return check.is_network();
        }
        let mut probes = ["startupProbe", "readinessProbe"].into_iter().filter_map(|field| own.probe(field));
        probes.any(|probe| !probe.is_exec())
    };
    let mut needs = plan.containers.iter().flat_map(|planned| &planned.after);
    if is_shared
        && needs.any(|need| {
            need.want == WantedState::Ready
                && spec.regular(&need.container).or(spec.init_or_native(&need.container)).is_some_and(uses_network)
        })
    {
        let what = "with hostNetwork, another Pod's process on the same port may answer a probe, so a container may count as \
                    Ready too early";
        let fix = "use exec probes, which run inside the container, or remove hostNetwork";
        findings.push(Finding::warning("host-network", Place::spec("hostNetwork"), what).fix(fix));
    }
}

fn check_processes(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let is_shared = spec.value["shareProcessNamespace"] == true;
    if is_shared && let Some(planned) = plan.containers.iter().find(|planned| planned.hook_needs_tether()) {
        let name = &planned.name;
        let what = format!(
            "with shareProcessNamespace, the file lock of podgate's hook in {name} is released when the hook ends, so podgate cannot tell when \
             {name} has stopped"
        );
        let fix = format!("use entrypoint mode for {name}, or remove shareProcessNamespace");
        findings.push(Finding::warning("shared-processes", Place::spec("shareProcessNamespace"), what).fix(fix));
    }
    let gates = plan.containers.iter().filter_map(|planned| Some((planned, planned.entrypoint_gate()?)));
    for (planned, gate) in gates.filter(|(_, gate)| gate.needs_parent) {
        if let Some(program) = gate.command.first().filter(|program| is_init(program))
            && let Some(own) = spec.regular(&planned.name)
        {
            let what = format!(
                "{program} in {} usually must be process 1, but podgate remains its parent to report its exit, to stop it, \
                 or to run an exec probe",
                planned.name
            );
            let fix = format!("remove {program} from the command, and start its program directly");
            findings.push(Finding::warning("needs-process-1", own.place().to("command"), what).fix(fix));
        }
    }
}

/// Returns true for a program that refuses to run unless it is process 1 (s6-overlay, systemd, BusyBox's init).
fn is_init(program: &str) -> bool {
    matches!(program.strip_prefix("/usr").unwrap_or(program), "/init" | "/sbin/init" | "init" | "/lib/systemd/systemd")
}

/// Reports containers that podgate ends when a dependency restarts, and that the kubelet then does not restart.
fn check_restarts(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let ended = plan.containers.iter().filter(|one| !one.restarts_with().is_empty());
    let ended = ended.filter_map(|one| spec.regular(&one.name));
    // With restartPolicyRules, the kubelet may restart the container after podgate's exit code.
    let stays = |own: &&ContainerRef<'_>| {
        own.restart_policy(spec.value) == "Never" && own.value["restartPolicyRules"].is_null()
    };
    for ContainerRef { name, .. } in ended.filter(stays) {
        let what = format!(
            "{name} fails permanently if one of its dependencies exits, because the kubelet does not restart {name}"
        );
        let fix = format!("set restartPolicy: OnFailure, or {}{name}: ignore", keys::ON_DEPENDENCY_RESTART_PREFIX);
        findings.push(Finding::warning("restart-fails", Place::spec("restartPolicy"), what).fix(fix));
    }
}

fn check_deletion(plan: &Plan, findings: &mut Vec<Finding>) {
    if plan.publish == Publish::None
        && let Some(planned) = plan.containers.iter().find(|planned| planned.has_blocking_hook())
    {
        let what = format!(
            "without the API, the hook of {} does not learn that the Pod is being deleted: a deletion during startup takes up to {}",
            planned.name,
            format_duration(planned.timeout)
        );
        let fix = "shorten podgate.io/timeout, or set podgate.io/publish: api and bind podgate's role";
        findings.push(Finding::warning("hook-holds-deletion", annotation_place(keys::PUBLISH_TARGET), what).fix(fix));
    }
}

/// Reports time limits of the workload that expire before podgate's time limits.
fn check_deadlines(spec: &Spec<'_>, target: Target<'_>, longest: Duration, findings: &mut Vec<Finding>) {
    let seconds = |value: &Value, field: &str| value[field].as_u64().map(Duration::from_secs);
    let start = format_duration(longest);
    let mut too_short = |what: String, fix: &str| {
        findings.push(Finding::warning("deadline-too-short", Place::spec("containers"), what).fix(fix));
    };
    let workload = target.workload.unwrap_or(&Value::Null);
    let deadline = seconds(spec.value, "activeDeadlineSeconds").or_else(|| seconds(workload, "activeDeadlineSeconds"));
    if let Some(deadline) = deadline.filter(|deadline| *deadline <= longest) {
        let deadline = format_duration(deadline);
        let what = format!(
            "Kubernetes ends the Pod after {deadline} (activeDeadlineSeconds), but its start may wait for {start}"
        );
        too_short(what, "shorten podgate.io/timeout");
    }
    // These fields identify a Deployment, the only workload with a progress deadline.
    let is_deployment = workload.get("strategy").is_some() || workload.get("progressDeadlineSeconds").is_some();
    let progress = seconds(workload, "progressDeadlineSeconds").unwrap_or(DEFAULT_PROGRESS_DEADLINE);
    if is_deployment && progress <= longest {
        let progress = format_duration(progress);
        let what = format!(
            "a rollout counts as failed after {progress} (progressDeadlineSeconds), but the start of one Pod may wait for {start}"
        );
        too_short(what, "shorten podgate.io/timeout, or increase progressDeadlineSeconds");
    }
}
