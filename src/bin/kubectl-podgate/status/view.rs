//! From the Pod, as the API shows it, to what is said of it. Pure.

use super::gate::{self, Gate};
use super::notes;
use crate::pod::{Container, ContainerStatus, Pod};
use podgate::core::annotations::Annotations;
use podgate::core::container::Mode;
use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Phase, State};
use podgate::core::until::{Standing, Until};
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// One pod. As JSON it is an interface: see docs/kubectl-podgate.md.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) node: Option<String>,
    /// The API's own word for the pod.
    pub(crate) pod_phase: Option<String>,
    pub(crate) deleting: bool,
    /// All containers have started.
    pub(crate) started: bool,
    /// All of it in one sentence.
    pub(crate) summary: String,
    pub(crate) published: Option<Published>,
    /// The ordered containers, in start order.
    pub(crate) order: Vec<String>,
    pub(crate) containers: Vec<Row>,
    /// What is odd, and what can be done about it.
    pub(crate) notes: Vec<String>,
}

/// What the sidecar has published, and where and when it saw it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Published {
    pub(crate) phase: &'static str,
    pub(crate) sandbox: String,
    pub(crate) epoch: String,
    pub(crate) revision: u64,
    pub(crate) seen: Option<String>,
    pub(crate) seen_seconds_ago: Option<u64>,
}

/// One container.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) mode: Mode,
    /// Podgate's word.
    pub(crate) state: Option<&'static str>,
    pub(crate) kubelet: Kubelet,
    /// What must come about before it goes on.
    pub(crate) waits_for: Vec<Condition>,
    /// Containers that go on only after it does.
    pub(crate) holds_back: Vec<String>,
    /// Why it can't go on by itself.
    pub(crate) stuck: Option<String>,
    /// How long its hook or gate waits.
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Podgate's own.
    Sidecar,
    /// Runs to its end before any other starts.
    Init,
    /// Takes part in the order.
    Container,
}

/// The kubelet's word on one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kubelet {
    /// `waiting`, `running` or `terminated`; nothing while the kubelet has said nothing.
    pub(crate) state: Option<&'static str>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) started_at: Option<String>,
    pub(crate) ready: bool,
    pub(crate) restarts: u32,
}

/// Something that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    /// `db=Ready`, or a check's URL.
    pub(crate) condition: String,
    /// `not-yet`, `never` or `unknown`.
    pub(crate) standing: &'static str,
    /// In whose hook or gate it stands.
    pub(crate) gate_of: String,
    /// The container that it names.
    #[serde(skip)]
    container: Option<String>,
}

pub(crate) fn view(pod: &Pod, namespace: &str, now: SystemTime) -> View {
    let status = pod.status.clone().unwrap_or_default();
    let found: Vec<Found<'_>> = containers(pod)
        .map(|(spec, role)| Found {
            spec,
            role,
            gate: if role == Role::Container { gate::gate(spec) } else { None },
            kubelet: kubelet(
                status.init_container_statuses.iter().chain(&status.container_statuses).find(|s| s.name == spec.name),
            ),
        })
        .collect();

    let annotations: Annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let read = Snapshot::from_annotations(&annotations);
    let seen = annotations.get(names::SANDBOX_SEEN);
    let stale = read.as_ref().ok().and_then(|_| notes::stale(pod, &found, seen.map(String::as_str)));
    let word = read.as_ref().ok().filter(|_| stale.is_none());
    let deleting = pod.metadata.deletion_timestamp.is_some();

    let mut rows: Vec<Row> = (0..found.len()).map(|at| row(&found, at, word)).collect();
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
        seen_seconds_ago: seen.and_then(|seen| age(seen, now)).map(|age| age.as_secs()),
    });
    let mut view = View {
        namespace: namespace.to_owned(),
        pod: pod.metadata.name.clone().unwrap_or_default(),
        node: pod.spec.node_name.clone(),
        pod_phase: status.phase.clone(),
        deleting,
        started: started && !deleting,
        summary: String::new(),
        published,
        order: order(word, &found),
        containers: rows,
        notes: Vec::new(),
    };
    let facts = notes::Facts { no_word: read.as_ref().err(), phase: word.map(|w| w.phase), stale, pod, view: &view };
    (view.summary, view.notes) = (notes::summary(&facts), notes::notes(&facts));
    view
}

/// One container and what the Pod says of it.
pub(crate) struct Found<'a> {
    spec: &'a Container,
    pub(crate) role: Role,
    gate: Option<Gate>,
    pub(crate) kubelet: Kubelet,
}

/// In the order in which the kubelet starts them.
fn containers(pod: &Pod) -> impl Iterator<Item = (&Container, Role)> {
    let role = |container: &Container, runs_on: bool| match gate::is_sidecar(container) {
        true => Role::Sidecar,
        false if runs_on => Role::Container,
        false => Role::Init,
    };
    let init = pod.spec.init_containers.iter();
    let init = init.map(move |c| (c, role(c, c.restart_policy.as_deref() == Some("Always"))));
    init.chain(pod.spec.containers.iter().map(move |c| (c, role(c, true))))
}

fn order(word: Option<&Snapshot>, found: &[Found<'_>]) -> Vec<String> {
    match word {
        Some(snapshot) => snapshot.order.clone(),
        None if found.iter().all(|f| f.gate.is_none()) => Vec::new(),
        None => found.iter().filter(|f| f.role == Role::Container).map(|f| f.spec.name.clone()).collect(),
    }
}

fn row(found: &[Found<'_>], at: usize, word: Option<&Snapshot>) -> Row {
    let Found { spec, role, gate, kubelet } = &found[at];
    let mut waits_for = if *role == Role::Container { waits_for(found, at, word) } else { Vec::new() };
    waits_for.dedup();
    Row {
        name: spec.name.clone(),
        role: *role,
        mode: gate.as_ref().map_or(Mode::None, |gate| gate.mode),
        state: state(&found[at], word).map(State::as_str),
        kubelet: kubelet.clone(),
        waits_for,
        holds_back: Vec::new(),
        stuck: word.and_then(|snapshot| snapshot.stuck.get(&spec.name).cloned()),
        timeout: gate.as_ref().map(|gate| gate.timeout.clone()),
    }
}

fn state(found: &Found<'_>, word: Option<&Snapshot>) -> Option<State> {
    word.and_then(|snapshot| snapshot.states.get(&found.spec.name).copied())
}

/// Whether its own program has been started, as far as is known.
fn runs(found: &Found<'_>, word: Option<&Snapshot>) -> bool {
    match state(found, word) {
        Some(state) => state != State::Waiting,
        // The kubelet says so only when the hook has returned.
        None => matches!(found.kubelet.state, Some("running" | "terminated")),
    }
}

/// What the container at `at` waits for: its own gate; or the hooks before it; or, when those have returned, its own hook.
fn waits_for(found: &[Found<'_>], at: usize, word: Option<&Snapshot>) -> Vec<Condition> {
    let own = &found[at];
    let (phase, runs_already) = (word.map(|snapshot| snapshot.phase), runs(own, word));
    if phase == Some(Phase::Terminating) {
        return Vec::new();
    }
    if own.gate.as_ref().is_some_and(|gate| gate.mode == Mode::Entrypoint) {
        return if runs_already { Vec::new() } else { unmet(own, word) };
    }
    // Hooks hold back nothing once every container has started in this sandbox.
    if phase == Some(Phase::Started) || (runs_already && word.is_none()) {
        return Vec::new();
    }
    let holds = |index: &usize| {
        let is_hook = found[*index].gate.as_ref().is_some_and(|gate| gate.mode == Mode::PostStart);
        // Where a later container runs, the hook has returned, whatever became of its container since.
        is_hook && !found[index + 1..].iter().any(|later| later.role == Role::Container && runs(later, word))
    };
    let of = |hooks: std::ops::Range<usize>| hooks.filter(holds).flat_map(|index| unmet(&found[index], word)).collect();
    let before: Vec<Condition> = if runs_already { Vec::new() } else { of(0..at) };
    // Its turn has come: its own hook may run already, for a mere start is published late.
    if before.is_empty() { of(at..at + 1) } else { before }
}

/// Those conditions of a gate that do not hold, as far as is known.
fn unmet(found: &Found<'_>, word: Option<&Snapshot>) -> Vec<Condition> {
    let Some(gate) = &found.gate else { return Vec::new() };
    let condition = |text: String, standing, container| Condition {
        condition: text,
        standing,
        gate_of: found.spec.name.clone(),
        container,
    };
    let standing = |until: &Until| match word.map(|snapshot| until.judge(snapshot)) {
        Some(Standing::Met) => None,
        Some(Standing::NotYet) => Some("not-yet"),
        Some(Standing::Never) => Some("never"),
        None => Some("unknown"),
    };
    let untils = gate
        .until
        .iter()
        .filter_map(|until| Some(condition(until.to_string(), standing(until)?, Some(until.container.clone()))));
    let mut all: Vec<Condition> = untils.collect();
    // Of checks the agent alone knows; and if all else holds, it may well be them.
    all.extend(gate.checks.iter().map(|check| condition(check.clone(), "unknown", None)));
    all
}

fn kubelet(status: Option<&ContainerStatus>) -> Kubelet {
    let Some(status) = status else { return Kubelet::default() };
    let word = Kubelet { ready: status.ready, restarts: status.restart_count, ..Kubelet::default() };
    let state = &status.state;
    if let Some(running) = &state.running {
        return Kubelet { state: Some("running"), started_at: running.started_at.clone(), ..word };
    }
    if let Some(end) = &state.terminated {
        let (reason, message) = (end.reason.clone(), end.message.clone());
        return Kubelet { state: Some("terminated"), exit_code: Some(end.exit_code), reason, message, ..word };
    }
    let Some(waiting) = &state.waiting else { return word };
    let last = status.last_state.terminated.as_ref();
    Kubelet {
        state: Some("waiting"),
        reason: waiting.reason.clone(),
        message: waiting.message.clone().or_else(|| last.and_then(|end| end.message.clone())),
        exit_code: last.map(|end| end.exit_code),
        ..word
    }
}

/// How long ago `text`, a time in RFC 3339, was.
pub(crate) fn age(text: &str, now: SystemTime) -> Option<Duration> {
    let at = humantime::parse_rfc3339_weak(text).ok()?;
    Some(now.duration_since(at).unwrap_or_default())
}
