//! Sentences of a view: a summary, notes about anything unusual, and the event that would meet a condition.

use super::shape::{CONFIG_ERROR_REASON, PodContainer, Role, Row, View, parse_time};
use crate::pod::Pod;
use podgate::core::container::{Container, Handler, Mode, PortRef, Probe};
use podgate::core::names;
use podgate::core::snapshot::{REASON_ENDED_FOR_GOOD, Unreadable};
use podgate::core::text::command_line;
use podgate::core::until::{ConditionStatus, WaitCondition, WantedState};
use podgate::order::declare::keys::declares_order;
use std::time::{Duration, SystemTime};

/// Maximum expected difference between the clocks of two machines.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5);

/// Returns the reason why the published state cannot belong to the Pod's current sandbox.
///
/// `None` does not prove that the state belongs to this sandbox: the current sandbox is visible only inside the Pod.
pub(crate) fn stale_reason(pod: &Pod, containers: &[PodContainer<'_>], seen_at: Option<&str>) -> Option<String> {
    if pod.spec.node_name.is_none() {
        return Some("the Pod has no node yet".to_owned());
    }
    let seen_at = parse_time(seen_at?)?;
    let created = pod.metadata.creation_timestamp.as_ref().and_then(|at| parse_time(&at.0.to_string()));
    if created.is_some_and(|created| seen_at + CLOCK_SKEW_MAX < created) {
        return Some("it is older than the Pod, so it comes from the Pod's template".to_owned());
    }
    let sidecar = containers.iter().find(|container| container.role == Role::Sidecar)?;
    let started: SystemTime = sidecar.kubelet.started_at.as_deref().and_then(parse_time)?;
    // `seen_at` and `started` come from the node's clock and have whole seconds.
    (seen_at + Duration::from_secs(1) < started).then(|| "the sidecar has restarted since".to_owned())
}

pub(crate) fn summary(view: &View) -> String {
    let name = format!("Pod {}/{}", view.namespace, view.pod);
    if view.deleting {
        return format!("{name} is being deleted.");
    }
    if !uses_podgate(view) {
        return format!("{name} does not use podgate.");
    }
    let is_wrong = |row: &Row| {
        let state = row.state.filter(|state| ["Failed", "Violated", "NotReady", "TimedOut"].contains(state))?;
        Some(format!("{} is {state}", row.name))
    };
    let problem = |row: &Row| stuck(view, row).map(|(what, _)| what).or_else(|| is_wrong(row));
    let wrong: Vec<String> = view.containers.iter().filter_map(problem).collect();
    if view.started {
        let but = if wrong.is_empty() { String::new() } else { format!(", but {}", wrong.join(", and ")) };
        return format!("{name} has started{but}.");
    }
    // True for a container that holds back others, and does not wait for another container's hook.
    let blocks_others = |row: &&Row| !row.holds_back.is_empty() && row.waits_for.iter().all(|c| c.gate_of == row.name);
    let describe = |row: &Row| {
        let conditions: Vec<&str> = row.waits_for.iter().map(|c| c.condition.as_str()).collect();
        let until = if conditions.is_empty() { String::new() } else { format!(" until {}", conditions.join(", ")) };
        format!("{} holds back {}{until}", row.name, row.holds_back.join(", "))
    };
    let holding = view.containers.iter().filter(blocks_others).map(describe);
    let all: Vec<String> = wrong.into_iter().chain(holding).collect();
    if all.is_empty() { format!("{name} is starting.") } else { format!("{name} is starting: {}.", all.join("; ")) }
}

fn uses_podgate(view: &View) -> bool {
    view.published.is_some() || view.containers.iter().any(|row| row.role == Role::Sidecar || row.timeout.is_some())
}

/// Returns the notes. `snapshot_error` is the reason why there is no readable published state.
pub(crate) fn notes(view: &View, pod: &Pod, snapshot_error: Option<&Unreadable>) -> Vec<String> {
    if !uses_podgate(view) {
        let mut annotations = pod.metadata.annotations.iter().flatten();
        let note = if annotations.any(|(key, _)| declares_order(key)) {
            "The Pod declares an order, but was created without podgate's sidecar, so it runs without its order: see \
             kubectl podgate verify."
        } else {
            "The Pod has no podgate sidecar, hook or gate: only the kubelet's status is shown."
        };
        return vec![note.to_owned()];
    }
    let mut notes = Vec::from_iter(unpublished_note(view, pod, snapshot_error));
    notes.extend(view.stale_reason.as_ref().map(|why| format!("The published state is ignored: {why}.")));
    notes.extend(frozen_status_note(view).filter(|_| !view.deleting));
    for row in &view.containers {
        notes.extend(hold_note(row).filter(|_| !view.deleting));
        let message = row.kubelet.message.as_ref().map(|message| format!(" ({})", message.trim())).unwrap_or_default();
        notes.extend(stuck(view, row).map(|(problem, fix)| format!("{problem}{message}.{fix}")));
    }
    if view.containers.iter().any(|row| row.kubelet.is_held) {
        notes.push(format!(
            "The kubelet reports {CONFIG_ERROR_REASON} for a held container. The configuration has no error."
        ));
    }
    notes.extend(override_notes(view, pod));
    notes
}

/// Returns a note about a container whose gate at the kubelet is closed, or was just opened.
fn hold_note(row: &Row) -> Option<String> {
    let (name, limit) = (&row.name, row.timeout.as_deref().unwrap_or_default());
    let conditions: Vec<&str> = row.waits_for.iter().map(|c| c.condition.as_str()).collect();
    let conditions = conditions.join(", ");
    Some(match row.state {
        Some("Violated") => format!("{name} was created although its gate is closed: the order is not kept."),
        _ if row.mode != Mode::Hold || row.kubelet.own_program_has_started() => return None,
        Some("TimedOut") if row.is_released => {
            format!("{name} is released: its wait timed out after {limit}. The kubelet creates it within seconds.")
        }
        Some("TimedOut") if !conditions.is_empty() => {
            format!("{name} is held by podgate: its wait timed out after {limit}; it stays held until {conditions}.")
        }
        _ if !row.kubelet.is_held => return None,
        _ if row.is_released => format!("{name} is released; the kubelet creates it within seconds."),
        _ if conditions.is_empty() => {
            format!("{name} is held by podgate: its conditions are met, but the sidecar has not opened the gate yet.")
        }
        _ => format!("{name} is held by podgate: it waits for {conditions}."),
    })
}

/// Returns a note with the likely reason why no state is published.
fn unpublished_note(view: &View, pod: &Pod, snapshot_error: Option<&Unreadable>) -> Option<String> {
    if let Unreadable::Invalid(key) = snapshot_error? {
        let effect = "When the sidecar starts, it repairs this annotation.";
        return Some(format!("The published state is invalid: {key} is missing or malformed. {effect}"));
    }
    let Some(sidecar) = view.containers.iter().find(|row| row.role == Role::Sidecar) else {
        if view.containers.iter().any(|row| row.asks) {
            let why = "The Pod has no sidecar: its gates ask the containers themselves, and the states come from the kubelet.";
            return Some(why.to_owned());
        }
        return Some("The Pod has no sidecar: its hooks run their own checks (--check). The containers' termination messages show the results.".to_owned());
    };
    let name = &sidecar.name;
    let install = "kubectl podgate install --namespaces NAMESPACE";
    let mut all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let is_off = all.any(|own| own.name == *name && own.args.join("=").contains("--publish=none"));
    Some(match sidecar.kubelet.state {
        _ if is_off => format!(
            "The sidecar publishes no states (--publish none). To see them, set podgate.io/publish: api and bind podgate's role: {install}."
        ),
        _ if view.node.is_none() => "Nothing is published yet: the Pod has no node.".to_owned(),
        Some("running") => format!(
            "The sidecar has published nothing yet. If this lasts longer than some seconds, its log has the reason: {}",
            command_line(&["kubectl", "logs", "-n", &view.namespace, &view.pod, "-c", name])
        ),
        _ => format!("Nothing is published yet: the sidecar {name} is not running ({}).", sidecar.kubelet.describe()),
    })
}

/// Returns a note that the kubelet's status may be outdated while a hook waits.
fn frozen_status_note(view: &View) -> Option<String> {
    let by_hook = |row: &&Row| row.mode == Mode::PostStart && row.waits_for.iter().any(|c| c.gate_of == row.name);
    let row = view.containers.iter().find(by_hook)?;
    let (name, limit) = (&row.name, row.timeout.as_deref().unwrap_or_default());
    Some(format!(
        "While the hook of {name} waits (at most {limit}), the kubelet does not update the Pod's status, so the status may be outdated."
    ))
}

/// Returns the problem of a container that the kubelet cannot start, or will not start again. The second text is the
/// way out, if it is known.
fn stuck(view: &View, row: &Row) -> Option<(String, &'static str)> {
    let fatal_reasons = [
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        CONFIG_ERROR_REASON,
    ];
    let lacks_image_volume_support = row.asks && row.kubelet.lacks_image_volume_support();
    let is_stuck = |reason: &&str| lacks_image_volume_support || fatal_reasons.contains(reason) && !row.kubelet.is_held;
    let of_kubelet = row.kubelet.reason.as_deref().filter(is_stuck);
    let (name, node) = (&row.name, view.node.as_deref().unwrap_or_default());
    let problem = match row.stuck.as_deref().or(of_kubelet)? {
        _ if lacks_image_volume_support => {
            let fix = " Upgrade the node to Kubernetes 1.35 and containerd 2.1, or set podgate.io/sidecar: always and inject again.";
            return Some((format!("{name} cannot start on node {node}, which has no image volumes"), fix));
        }
        REASON_ENDED_FOR_GOOD => format!("{name} has ended, and the kubelet will not restart it"),
        CONFIG_ERROR_REASON if row.kubelet.lacks_env_file_support() => format!(
            "{name} cannot start on node {node}: its kubelet is older than 1.35, or has the feature gate EnvFiles off"
        ),
        reason => format!("{name} is stuck: {reason}"),
    };
    Some((problem, ""))
}

/// Returns a note for each state that an operator has set by hand.
fn override_notes(view: &View, pod: &Pod) -> impl Iterator<Item = String> {
    let published = view.published.as_ref().map(|published| published.sandbox.as_str());
    pod.metadata.annotations.iter().flatten().filter_map(move |(key, value)| {
        let container = key.strip_prefix(names::OVERRIDE_KEY_PREFIX)?;
        let (state, sandbox) = value.split_once('@').unwrap_or((value, ""));
        Some(match published == Some(sandbox) {
            true => format!("An operator has set {container} to {state} by hand ({key})."),
            false => format!(
                "{key}={value} has no effect: the node has rebooted since, or the value was copied. `kubectl podgate \
                 override` sets it again."
            ),
        })
    })
}

/// Describes the event that would meet `until`, such as `db must exit with 0`. `status` is `None` if it is unknown.
pub(crate) fn requirement(until: &WaitCondition, all: &[PodContainer<'_>], status: Option<ConditionStatus>) -> String {
    let name = &until.container;
    let Some(target) = all.iter().find(|container| container.spec.name == *name) else {
        return format!("the Pod has no container {name}");
    };
    if status == Some(ConditionStatus::Never) {
        return format!("{name} has ended for good; create a new Pod, or override the state of {name}");
    }
    // Without the role, nothing is published.
    let needs_role = |own: &Container| status.is_none() && own.needs_kubelet_status(until.want);
    let advice = "; podgate sees this only with its role: kubectl podgate install --namespaces NAMESPACE";
    let role = if target.declared.as_ref().is_some_and(needs_role) { advice } else { "" };
    match until.want {
        WantedState::Started => format!("{name} must start{role}"),
        WantedState::Completed => format!("{name} must exit with 0{role}"),
        WantedState::Exited => format!("{name} must exit{role}"),
        WantedState::Ready => {
            // Use the sidecar's list, because injection may have replaced the probes in the spec.
            if let Some(check) = target.declared.as_ref().and_then(|declared| declared.ready_check.as_ref()) {
                return format!("{name} must pass the check {check}");
            }
            let probes = match &target.declared {
                Some(declared) => describe_probes(&declared.startup_probe, &declared.readiness_probe),
                None => describe_probes(&target.spec.startup_probe, &target.spec.readiness_probe),
            };
            match probes.as_slice() {
                [] => format!("{name} must start (it has no probe){role}"),
                some => format!("{name} must pass its {}{role}", some.join(", then its ")),
            }
        }
    }
}

fn describe_probes(startup: &Option<Probe>, readiness: &Option<Probe>) -> Vec<String> {
    let text = |kind: &str, probe: &Option<Probe>| {
        let probe = probe.as_ref().filter(|probe| probe.opened_command().is_none())?;
        Some(format!("{kind} ({})", describe_handler(&probe.handler)))
    };
    [text("startupProbe", startup), text("readinessProbe", readiness)].into_iter().flatten().collect()
}

fn describe_handler(handler: &Handler) -> String {
    let port = |port: &PortRef| match port {
        PortRef::Number(number) => number.to_string(),
        PortRef::Name(name) => name.clone(),
    };
    match handler {
        Handler::Exec(exec) => format!("exec {}", exec.command.join(" ")),
        Handler::HttpGet(http) => format!("httpGet :{}{}", port(&http.port), http.path.as_deref().unwrap_or("/")),
        Handler::TcpSocket(tcp) => format!("tcpSocket :{}", port(&tcp.port)),
        Handler::Grpc(grpc) => format!("grpc :{}", grpc.port),
    }
}
