//! From the Pod, as the API shows it, to what is said of it. Pure.

use super::notes;
use super::requirement;
use super::shape::{Condition, KubeletStatus, PodContainer, Published, Role, Row, View};
use super::since::{parse_time, seconds_between, since};
use crate::pod::Pod;
use podgate::core::annotations::Annotations;
use podgate::core::container::{Container as Declared, Mode};
use podgate::core::names;
use podgate::core::pod::{Container, ContainerStatus};
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Phase, State};
use podgate::core::times::Times;
use podgate::core::until::{ConditionStatus, WaitCondition};
use std::ops::Range;
use std::time::SystemTime;

/// What there is to say of `pod` at the time `now`.
pub(crate) fn view(pod: &Pod, namespace: &str, now: SystemTime) -> View {
    let found = pod_containers(pod);

    let annotations: Annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let read = Snapshot::from_annotations(&annotations);
    let seen = annotations.get(names::SANDBOX_SEEN);
    let stale = read.as_ref().ok().and_then(|_| notes::stale_reason(pod, &found, seen.map(String::as_str)));
    let word = read.as_ref().ok().filter(|_| stale.is_none());
    let deleting = pod.metadata.deletion_timestamp.is_some();

    let times = word.map(|_| Times::parse(annotations.get(names::SANDBOX_TIMES).map_or("", String::as_str)));
    let scene =
        RowInputs { found: &found, snapshot: word, times, declared: requirement::declared_containers(pod), now };
    let mut rows: Vec<Row> = (0..found.len()).map(|at| row(&scene, at)).collect();
    for at in 0..rows.len() {
        let name = rows[at].name.clone();
        let waits_on_it = |row: &&Row| {
            row.name != name && row.waits_for.iter().any(|c| c.gate_of == name || c.container.as_ref() == Some(&name))
        };
        rows[at].holds_back = rows.iter().filter(waits_on_it).map(|row| row.name.clone()).collect();
    }

    let over = |row: &Row| matches!(row.kubelet.state, Some("running" | "terminated"));
    let started = match word {
        Some(snapshot) => snapshot.phase == Phase::Started,
        None => rows.iter().all(over),
    };
    let published = read.as_ref().ok().map(|snapshot| Published {
        phase: snapshot.phase.as_str(),
        sandbox: snapshot.sandbox.to_string(),
        epoch: snapshot.epoch.clone(),
        revision: snapshot.revision,
        seen: seen.cloned(),
        seen_seconds_ago: seen.and_then(|seen| parse_time(seen)).map(|at| seconds_between(at, now)),
    });
    let phase = word.map(|snapshot| snapshot.phase);
    let order = start_order(word, &found);
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
    let facts = notes::Facts { snapshot_error: read.as_ref().err(), phase, pod, view: &view };
    (view.summary, view.notes) = (notes::summary(&facts), notes::notes(&facts));
    view
}

/// All that one row is made from.
struct RowInputs<'a> {
    found: &'a [PodContainer<'a>],
    /// What is published, if it counts.
    snapshot: Option<&'a Snapshot>,
    times: Option<Times>,
    /// What the sidecar is told of the containers.
    declared: Vec<Declared>,
    now: SystemTime,
}

/// The pod's containers in the order in which the kubelet starts them, with what the Pod says of each.
pub(crate) fn pod_containers(pod: &Pod) -> Vec<PodContainer<'_>> {
    let statuses = pod.status.iter().flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses));
    let of_init =
        |c: &Container| if c.restart_policy.as_deref() == Some("Always") { Role::Container } else { Role::Init };
    let init = pod.spec.init_containers.iter().map(|spec| (spec, of_init(spec)));
    let regular = pod.spec.containers.iter().map(|spec| (spec, Role::Container));
    let found = init.chain(regular).map(|(spec, role)| {
        let role = if spec.is_sidecar() { Role::Sidecar } else { role };
        let gate = spec.gate().filter(|_| role == Role::Container);
        let status = statuses.clone().find(|status| status.name == spec.name);
        PodContainer { spec, role, gate, kubelet: status.map(kubelet_status).unwrap_or_default() }
    });
    found.collect()
}

fn start_order(word: Option<&Snapshot>, found: &[PodContainer<'_>]) -> Vec<String> {
    match word {
        Some(snapshot) => snapshot.order.clone(),
        None if found.iter().all(|f| f.gate.is_none()) => Vec::new(),
        None => found.iter().filter(|f| f.role == Role::Container).map(|f| f.spec.name.clone()).collect(),
    }
}

fn row(scene: &RowInputs<'_>, at: usize) -> Row {
    let own = &scene.found[at];
    let PodContainer { spec, role, gate, kubelet } = own;
    let mut waits_for = if *role == Role::Container { scene.waits_for(at) } else { Vec::new() };
    waits_for.dedup();
    let state = scene.state(own);
    let sidecar = scene.found.iter().find(|found| found.role == Role::Sidecar);
    let sidecar = sidecar.and_then(|found| found.kubelet.started_at.as_deref());
    Row {
        name: spec.name.clone(),
        role: *role,
        mode: gate.as_ref().map_or(Mode::None, |gate| gate.mode),
        state: state.map(State::as_str),
        since: since(own, state, scene.times.as_ref(), sidecar, scene.now),
        kubelet: kubelet.clone(),
        waits_for,
        holds_back: Vec::new(),
        stuck: scene.snapshot.and_then(|snapshot| snapshot.stuck.get(&spec.name).cloned()),
        timeout: gate.as_ref().map(|gate| gate.timeout.clone()),
    }
}

impl RowInputs<'_> {
    fn state(&self, found: &PodContainer<'_>) -> Option<State> {
        self.snapshot.and_then(|snapshot| snapshot.states.get(&found.spec.name).copied())
    }

    /// Whether its own program has been started, as far as is known.
    fn has_started(&self, found: &PodContainer<'_>) -> bool {
        match self.state(found) {
            Some(state) => state != State::Waiting,
            // The kubelet says so only when the hook has returned.
            None => matches!(found.kubelet.state, Some("running" | "terminated")),
        }
    }

    /// What the container at `at` waits for: its own gate; or the hooks before it; or, when those have returned, its own hook.
    fn waits_for(&self, at: usize) -> Vec<Condition> {
        let (own, found) = (&self.found[at], self.found);
        let (phase, runs_already) = (self.snapshot.map(|snapshot| snapshot.phase), self.has_started(own));
        if phase == Some(Phase::Terminating) {
            return Vec::new();
        }
        if own.gate.as_ref().is_some_and(|gate| gate.mode == Mode::Entrypoint) {
            return if runs_already { Vec::new() } else { self.unmet_conditions(own) };
        }
        // Hooks hold back nothing once every container has started in this sandbox.
        if phase == Some(Phase::Started) || (runs_already && self.snapshot.is_none()) {
            return Vec::new();
        }
        let holds = |index: &usize| {
            let is_hook = found[*index].gate.as_ref().is_some_and(|gate| gate.mode == Mode::PostStart);
            // Where a later container runs, the hook has returned, whatever became of its container since.
            is_hook && !found[index + 1..].iter().any(|later| later.role == Role::Container && self.has_started(later))
        };
        let of =
            |hooks: Range<usize>| hooks.filter(holds).flat_map(|index| self.unmet_conditions(&found[index])).collect();
        let before: Vec<Condition> = if runs_already { Vec::new() } else { of(0..at) };
        // Its turn has come: its own hook may run already, for a mere start is published late.
        if before.is_empty() { of(at..at + 1) } else { before }
    }

    /// Those conditions of a gate that do not hold, as far as is known.
    fn unmet_conditions(&self, found: &PodContainer<'_>) -> Vec<Condition> {
        let Some(gate) = &found.gate else { return Vec::new() };
        let standing = |until: &WaitCondition| match self.snapshot.map(|snapshot| until.status(snapshot)) {
            Some(ConditionStatus::Met) => None,
            Some(ConditionStatus::NotYet) => Some("not-yet"),
            Some(ConditionStatus::Never) => Some("never"),
            None => Some("unknown"),
        };
        let of = |until: &WaitCondition| {
            let standing = standing(until)?;
            Some(Condition {
                condition: until.to_string(),
                standing,
                takes: requirement::requirement(until, self.found, &self.declared, standing),
                gate_of: found.spec.name.clone(),
                container: Some(until.container.clone()),
            })
        };
        let mut all: Vec<Condition> = gate.until.iter().filter_map(of).collect();
        // Of checks the agent alone knows; and if all else holds, it may well be them.
        all.extend(gate.checks.iter().map(|check| Condition {
            condition: check.clone(),
            standing: "unknown",
            takes: "the check must pass; only the agent knows whether it has".to_owned(),
            gate_of: found.spec.name.clone(),
            container: None,
        }));
        all
    }
}

fn kubelet_status(status: &ContainerStatus) -> KubeletStatus {
    let word = KubeletStatus { ready: status.ready, restarts: status.restart_count, ..KubeletStatus::default() };
    let state = &status.state;
    if let Some(running) = &state.running {
        return KubeletStatus { state: Some("running"), started_at: running.started_at.clone(), ..word };
    }
    if let Some(end) = &state.terminated {
        return KubeletStatus {
            state: Some("terminated"),
            exit_code: Some(end.exit_code),
            started_at: end.started_at.clone(),
            finished_at: end.finished_at.clone(),
            reason: end.reason.clone(),
            message: end.message.clone(),
            ..word
        };
    }
    let Some(waiting) = &state.waiting else { return word };
    let last = status.last_state.terminated.as_ref();
    KubeletStatus {
        state: Some("waiting"),
        reason: waiting.reason.clone(),
        message: waiting.message.clone().or_else(|| last.and_then(|end| end.message.clone())),
        exit_code: last.map(|end| end.exit_code),
        ..word
    }
}
