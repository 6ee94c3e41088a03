//! Builds the view of a Pod from the object that the API server returns. Pure functions.

use super::notes::{self, requirement};
use super::shape::{KubeletStatus, PodContainer, PublishedPod, Role, Row, UnmetCondition, View};
use super::shape::{parse_time, seconds_between, since};
use crate::pod::Pod;
use podgate::core::annotations::Annotations;
use podgate::core::command::Gate;
use podgate::core::container::{Container as Declared, Mode};
use podgate::core::container_list::parse_list;
use podgate::core::names;
use podgate::core::pod::{Container, ContainerStatus};
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Stage, State};
use podgate::core::times::{Milestone, Times};
use podgate::core::until::{ConditionStatus, WaitCondition, WantedState};
use podgate::order::dollars;
use std::ops::Range;
use std::time::{Duration, SystemTime};

pub(crate) fn view(pod: &Pod, namespace: &str, now: SystemTime) -> View {
    let containers = pod_containers(pod);

    let annotations: Annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let read = Snapshot::from_annotations(&annotations);
    let seen = annotations.get(names::LAST_SEEN_TIME_KEY);
    let stale = read.as_ref().ok().and_then(|_| notes::stale_reason(pod, &containers, seen.map(String::as_str)));
    let is_lean = containers.iter().any(|one| one.gate.as_ref().is_some_and(|gate| gate.asks));
    let by_kubelet = is_lean.then(|| snapshot_from_kubelet(&containers));
    let snapshot = by_kubelet.as_ref().or_else(|| read.as_ref().ok().filter(|_| stale.is_none()));
    let deleting = pod.metadata.deletion_timestamp.is_some();

    let times = snapshot.map(|_| Times::parse(annotations.get(names::MILESTONE_TIMES_KEY).map_or("", String::as_str)));
    let inputs = RowInputs { containers: &containers, snapshot, times, now };
    let mut rows: Vec<Row> = (0..containers.len()).map(|at| row(&inputs, at)).collect();
    for at in 0..rows.len() {
        let name = rows[at].name.clone();
        let waits_on_it = |row: &&Row| {
            row.name != name && row.waits_for.iter().any(|c| c.gate_of == name || c.container.as_ref() == Some(&name))
        };
        rows[at].holds_back = rows.iter().filter(waits_on_it).map(|row| row.name.clone()).collect();
    }

    let started = match snapshot {
        Some(snapshot) => snapshot.stage == Stage::Started && rows.iter().all(|row| row.waits_for.is_empty()),
        None => rows.iter().all(|row| row.kubelet.own_program_has_started()),
    };
    let published = read.as_ref().ok().map(|snapshot| PublishedPod {
        stage: snapshot.stage.as_str(),
        sandbox: snapshot.sandbox.to_string(),
        epoch: snapshot.epoch.clone(),
        revision: snapshot.revision,
        seen: seen.cloned(),
        seen_seconds_ago: seen.and_then(|seen| parse_time(seen)).map(|at| seconds_between(at, now)),
    });
    let order = match snapshot {
        Some(snapshot) => snapshot.order.clone(),
        None if containers.iter().all(|c| c.gate.is_none()) => Vec::new(),
        None => containers.iter().filter(|c| c.role == Role::Container).map(|c| c.spec.name.clone()).collect(),
    };
    let mut view = View {
        namespace: namespace.to_owned(),
        pod: pod.metadata.name.clone().unwrap_or_default(),
        node: pod.spec.node_name.clone(),
        pod_phase: pod.status.as_ref().and_then(|status| status.phase.clone()),
        deleting,
        started: started && !deleting,
        summary: String::new(),
        published,
        stale_reason: stale,
        order,
        containers: rows,
        notes: Vec::new(),
    };
    (view.summary, view.notes) = (notes::summary(&view), notes::notes(&view, pod, read.as_ref().err()));
    view
}

/// Returns the states of the containers in a Pod without a sidecar, as the kubelet reports them.
fn snapshot_from_kubelet(containers: &[PodContainer<'_>]) -> Snapshot {
    let ordered = || containers.iter().filter(|container| container.role == Role::Container);
    let state = |KubeletStatus { state, is_in_gate, ready, exit_code, .. }: &KubeletStatus| match state {
        Some("terminated") if *exit_code == Some(0) => State::Completed,
        Some("terminated") => State::Failed,
        Some("running") if *ready => State::Ready,
        Some("running") if !*is_in_gate => State::Started,
        _ => State::Waiting,
    };
    Snapshot {
        stage: if ordered().all(|c| c.kubelet.own_program_has_started()) { Stage::Started } else { Stage::Starting },
        states: ordered().map(|one| (one.spec.name.clone(), state(&one.kubelet))).collect(),
        order: ordered().map(|one| one.spec.name.clone()).collect(),
        ..Snapshot::default()
    }
}

struct RowInputs<'a> {
    containers: &'a [PodContainer<'a>],
    /// The published state, unless it is stale.
    snapshot: Option<&'a Snapshot>,
    times: Option<Times>,
    now: SystemTime,
}

/// Returns the Pod's containers in the order in which the kubelet starts them, with spec, role, gate and status.
pub(crate) fn pod_containers(pod: &Pod) -> Vec<PodContainer<'_>> {
    // The sidecar's list has the application's own probes, which injection may have replaced in the Pod's spec.
    let mut all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let list = all.find_map(|container| container.env_value("PODGATE_CONTAINERS"));
    let list: Vec<Declared> = list.and_then(|list| parse_list(&dollars::unescape(&list)).ok()).unwrap_or_default();
    let statuses = pod.status.iter().flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses));
    let of_init =
        |c: &Container| if c.restart_policy.as_deref() == Some("Always") { Role::Container } else { Role::Init };
    let init = pod.spec.init_containers.iter().map(|spec| (spec, of_init(spec)));
    let regular = pod.spec.containers.iter().map(|spec| (spec, Role::Container));
    let containers = init.chain(regular).map(|(spec, role)| {
        let role = if spec.is_sidecar() { Role::Sidecar } else { role };
        let declared = list.iter().find(|declared| declared.name == spec.name).cloned();
        let held = || declared.as_ref().and_then(hold_gate);
        let gate = spec.gate_or_hook().or_else(held).filter(|_| role == Role::Container);
        let status = statuses.clone().find(|status| status.name == spec.name);
        let kubelet = status.map(kubelet_status).unwrap_or_default();
        let mut container = PodContainer { spec, declared, role, gate, kubelet };
        container.kubelet.is_held = container.is_hold() && container.kubelet.lacks_hold_variable();
        let asks_gate = spec.startup_probe.as_ref().is_some_and(|probe| probe.opened_command().is_some());
        let is_unmet = |until: &WaitCondition| {
            let is_ready = |status: &ContainerStatus| status.name == until.container && status.ready;
            until.want == WantedState::Ready && !statuses.clone().any(is_ready)
        };
        let may_wait = status.is_some_and(|status| !status.ready) && container.kubelet.exit_code != Some(0);
        container.kubelet.is_in_gate = may_wait
            && match &container.gate {
                _ if asks_gate => status.is_some_and(|status| status.started == Some(false)),
                // A gate without a startupProbe: the container's readinessProbe fails until the gate opens.
                Some(gate) => gate.mode == Mode::Entrypoint && gate.until.iter().any(is_unmet),
                None => false,
            };
        container
    });
    containers.collect()
}

/// Returns the gate of a container in hold mode. Reads the sidecar's list, because the spec has no conditions.
fn hold_gate(declared: &Declared) -> Option<Gate> {
    let limit = |seconds: u32| humantime::format_duration(Duration::from_secs(seconds.into())).to_string();
    (declared.mode == Mode::Hold).then(|| Gate {
        mode: Mode::Hold,
        until: declared.until.clone(),
        asks: false,
        checks: Vec::new(),
        timeout: declared.timeout_seconds.map(limit).unwrap_or_default().replace(' ', ""),
    })
}

fn row(inputs: &RowInputs<'_>, at: usize) -> Row {
    let own = &inputs.containers[at];
    let PodContainer { spec, role, gate, kubelet, .. } = own;
    let mut waits_for = if *role == Role::Container { inputs.waits_for(at) } else { Vec::new() };
    waits_for.dedup();
    let state = inputs.state(own);
    let has_opened = inputs.times.as_ref().is_some_and(|times| times.get(&spec.name, Milestone::GateOpened).is_some());
    let sidecar = inputs.containers.iter().find(|container| container.role == Role::Sidecar);
    let sidecar_started_at = sidecar.and_then(|container| container.kubelet.started_at.as_deref());
    Row {
        name: spec.name.clone(),
        role: *role,
        mode: gate.as_ref().map_or(Mode::None, |gate| gate.mode),
        state: state.map(State::as_str),
        since: since(own, state, inputs.times.as_ref(), sidecar_started_at, inputs.now),
        kubelet: kubelet.clone(),
        asks: gate.as_ref().is_some_and(|gate| gate.asks),
        is_released: has_opened && waits_for.is_empty() && own.is_hold(),
        waits_for,
        holds_back: Vec::new(),
        stuck: inputs.snapshot.and_then(|snapshot| snapshot.stuck.get(&spec.name).cloned()),
        timeout: gate.as_ref().map(|gate| gate.timeout.clone()).filter(|limit| !limit.is_empty()),
    }
}

impl RowInputs<'_> {
    fn state(&self, container: &PodContainer<'_>) -> Option<State> {
        self.snapshot.and_then(|snapshot| snapshot.states.get(&container.spec.name).copied())
    }

    /// Returns true if the container's own program has provably started.
    fn has_started(&self, container: &PodContainer<'_>) -> bool {
        match self.state(container) {
            // Podgate's state may still show the end of an earlier run. The kubelet's status is current, because no
            // hook delays it.
            _ if container.is_hold() => container.kubelet.own_program_has_started(),
            Some(state) => state != State::Waiting,
            // The kubelet reports the start only after the hook has returned.
            None => container.kubelet.own_program_has_started(),
        }
    }

    /// Returns the unmet conditions that block the container at `at`. These are the conditions of the container's gate,
    /// or of the hooks of earlier containers. Once these hooks have returned, the container's own hook is examined.
    fn waits_for(&self, at: usize) -> Vec<UnmetCondition> {
        let (own, containers) = (&self.containers[at], self.containers);
        let (stage, runs_already) = (self.snapshot.map(|snapshot| snapshot.stage), self.has_started(own));
        if stage == Some(Stage::Terminating) {
            return Vec::new();
        }
        if own.gate.as_ref().is_some_and(|gate| matches!(gate.mode, Mode::Entrypoint | Mode::Hold)) {
            let continues = own.declared.as_ref().is_some_and(|declared| declared.continue_on_timeout);
            let is_skipped = self.state(own) == Some(State::TimedOut) && continues;
            return if runs_already || is_skipped { Vec::new() } else { self.unmet_conditions(own) };
        }
        // Hooks block no container once every container has started in this sandbox.
        if stage == Some(Stage::Started) || (runs_already && self.snapshot.is_none()) {
            return Vec::new();
        }
        let holds = |index: &usize| {
            let is_hook = containers[*index].gate.as_ref().is_some_and(|gate| gate.mode == Mode::PostStart);
            // If a later container runs, the hook has returned, even if the hook's container is no longer Ready.
            is_hook
                && !containers[index + 1..].iter().any(|later| later.role == Role::Container && self.has_started(later))
        };
        let unmet_of = |hooks: Range<usize>| {
            hooks.filter(holds).flat_map(|index| self.unmet_conditions(&containers[index])).collect()
        };
        let before: Vec<UnmetCondition> = if runs_already { Vec::new() } else { unmet_of(0..at) };
        // If no earlier hook blocks the container, its own hook may be running, although the sidecar has not published
        // the container's start yet.
        if before.is_empty() { unmet_of(at..at + 1) } else { before }
    }

    fn unmet_conditions(&self, container: &PodContainer<'_>) -> Vec<UnmetCondition> {
        let Some(gate) = &container.gate else { return Vec::new() };
        let unmet = |until: &WaitCondition| {
            let status = self.snapshot.map(|snapshot| until.status(snapshot));
            let standing = match status {
                Some(ConditionStatus::Met) => return None,
                Some(ConditionStatus::NotYet) => "not-yet",
                Some(ConditionStatus::Never) => "never",
                None => "unknown",
            };
            Some(UnmetCondition {
                condition: until.to_string(),
                standing,
                takes: requirement(until, self.containers, status),
                gate_of: container.spec.name.clone(),
                container: Some(until.container.clone()),
            })
        };
        let mut all: Vec<UnmetCondition> = gate.until.iter().filter_map(unmet).collect();
        let log = if gate.mode == Mode::Entrypoint { " (see the container's log)" } else { "" };
        // Only the agent has the results of checks. Even if all conditions are met, the checks may block the container.
        all.extend(gate.checks.iter().map(|check| UnmetCondition {
            condition: check.clone(),
            standing: "unknown",
            takes: "the check must pass; its result is not published".to_owned() + log,
            gate_of: container.spec.name.clone(),
            container: None,
        }));
        all
    }
}

fn kubelet_status(status: &ContainerStatus) -> KubeletStatus {
    let common = KubeletStatus { ready: status.ready, restarts: status.restart_count, ..KubeletStatus::default() };
    let state = &status.state;
    if let Some(running) = &state.running {
        return KubeletStatus { state: Some("running"), started_at: running.started_at.clone(), ..common };
    }
    if let Some(end) = &state.terminated {
        return KubeletStatus {
            state: Some("terminated"),
            exit_code: Some(end.exit_code),
            started_at: end.started_at.clone(),
            finished_at: end.finished_at.clone(),
            reason: end.reason.clone(),
            message: end.message.clone(),
            ..common
        };
    }
    let Some(waiting) = &state.waiting else { return common };
    let last = status.last_state.terminated.as_ref();
    let last_message = last.and_then(|end| end.message.clone());
    // During a back-off, the kubelet's message has no reason, but the message of the last end can have one.
    let is_back_off = waiting.reason.as_deref() == Some("CrashLoopBackOff");
    KubeletStatus {
        state: Some("waiting"),
        reason: waiting.reason.clone(),
        message: last_message.clone().filter(|_| is_back_off).or_else(|| waiting.message.clone()).or(last_message),
        exit_code: last.map(|end| end.exit_code),
        ..common
    }
}
