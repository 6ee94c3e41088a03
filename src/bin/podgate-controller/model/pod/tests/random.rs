//! Property test: random sequences of events in a simulated Pod. The simulation knows the truth, which the model learns
//! late, out of order or never. No gate opens on a condition that does not hold, and each gate opens in the end.

use super::*;
use crate::clock::wall_clock;
use crate::model::ready_filter::ReadyFilter;
use podgate::core::gate::{Decision, GateKind, GateSpec, Observations, OnTimeout, decide};
use podgate::core::report::Process as ProcessId;
use podgate::core::sources::{PodView, Source};
use podgate::core::until::{WaitCondition, WantedState};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::{BTreeMap, VecDeque};

/// One event, as numbers: its kind, the container, and a choice whose meaning depends on the kind.
type Step = (u8, u8, u8);

/// Process of a container, as the node knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Process {
    Absent,
    /// A closed gate waits in front of the command.
    Gate,
    Program,
    Ended(i32),
    /// The gate has ended with this code, and the command never ran.
    GateEnded(i32),
}

/// One container of the simulated Pod.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a simulated container")]
struct Actor {
    spec: Container,
    process: Process,
    /// Number of the incarnation, which is also its container id and its gate's ticket.
    run: u64,
    started_at: SystemTime,
    is_healthy: bool,
    /// True if this incarnation has passed its exec probe.
    was_healthy: bool,
    /// The sidecar's filter for the kubelet's `ready`.
    filter: ReadyFilter,
    is_tether_held: bool,
    /// True if the agent remains the command's parent, and reports the exit code.
    has_parent: bool,
    /// True if the container must end and is not restarted, because another one waits for its end.
    is_job: bool,
    report: Option<Report>,
    /// Number of writes of the report file, and the number of the last write that the sidecar has read.
    writes: (u64, u64),
    /// Number of the last change of the process, and of the last change that the sidecar can know.
    changes: (u64, u64),
    /// Number of the last change when the sidecar last read the directory.
    observed: u64,
    /// Conditions that have held since the last change that the sidecar can know.
    possible: Vec<WantedState>,
    /// Start of the last attempt of the sidecar's probe that passed, and the incarnation that it reached.
    success: Option<(Instant, u64)>,
    /// Incarnation whose gate the sidecar has seen open, and the first such time.
    seen_open: Option<(u64, Instant)>,
    is_gate_file_open: bool,
    /// Time since which all conditions of the waiting gate are met on the board.
    met_since: Option<Instant>,
}

impl Actor {
    /// Returns true if the sidecar probes the container.
    fn is_probed(&self) -> bool {
        self.spec.readiness_probe.as_ref().is_some_and(|probe| !probe.is_exec())
    }

    /// Returns true if an agent in the container reports the start and holds the tether.
    fn has_agent(&self) -> bool {
        matches!(self.spec.mode, Mode::Entrypoint | Mode::PostStart)
    }

    fn is_ready(&self) -> bool {
        self.process == Process::Program && (self.is_healthy || self.spec.readiness_probe.is_none())
    }

    /// Returns true if the program inherits the tether, and can close it. Its port then listens.
    fn may_drop_tether(&self) -> bool {
        self.spec.mode == Mode::Entrypoint && !self.has_parent && self.is_healthy
    }

    fn truths(&self) -> Vec<WantedState> {
        match self.process {
            Process::Absent | Process::Gate | Process::GateEnded(_) => vec![],
            Process::Program if self.is_ready() => vec![WantedState::Started, WantedState::Ready],
            Process::Program => vec![WantedState::Started],
            Process::Ended(0) => vec![WantedState::Started, WantedState::Exited, WantedState::Completed],
            Process::Ended(_) => vec![WantedState::Started, WantedState::Exited],
        }
    }

    fn status(&self) -> Kubelet {
        let id = format!("c{}", self.run);
        match self.process {
            Process::Absent => Kubelet::default(),
            Process::Gate => Kubelet { has_started: false, ..self.running_status(false) },
            Process::Program => self.running_status(self.is_ready()),
            Process::Ended(code) | Process::GateEnded(code) => Kubelet {
                termination: Some((id, code)),
                ended_run_started_at: Some(self.started_at),
                stuck_reason: (self.is_job && code == 0).then(|| REASON_ENDED.to_owned()),
                ..Kubelet::default()
            },
        }
    }

    fn running_status(&self, is_ready: bool) -> Kubelet {
        Kubelet { running_since: Some(self.started_at), ..running(&format!("c{}", self.run), is_ready) }
    }
}

/// The sidecar's probing of one container.
#[derive(Debug)]
struct Lane {
    run: u64,
    verdict: ProbeVerdict,
    failures: u32,
    began: Option<Instant>,
}

#[derive(Debug)]
struct World {
    pod: PodModel,
    actors: Vec<Actor>,
    lanes: BTreeMap<usize, Lane>,
    /// Updates of the Pod on their way from the kubelet to the sidecar, each with the number of the last change in it.
    updates: VecDeque<(PodFacts, u64)>,
    now: Instant,
    wall: SystemTime,
    /// Numbers of the last incarnation, change, sandbox, sidecar and kubelet.
    numbers: [u64; 5],
    kubelet_lies_until: Option<Instant>,
    sidecar_started_at: SystemTime,
    has_api: bool,
}

const RUN: usize = 0;
const CHANGE: usize = 1;
const SANDBOX: usize = 2;
const SIDECAR: usize = 3;
const KUBELET: usize = 4;

impl World {
    fn new(shape: &[Step], has_api: bool) -> World {
        let mut actors: Vec<Actor> = Vec::new();
        for (number, (kind, wants, choice)) in shape.iter().enumerate() {
            // A container with a hook must precede the gates.
            let first = if actors.iter().all(|a| a.spec.until.is_empty()) { Mode::PostStart } else { Mode::Entrypoint };
            let mode = [Mode::None, Mode::Entrypoint, Mode::Entrypoint, Mode::Hold, first][usize::from(kind % 5)];
            let mut until = Vec::new();
            let waits = matches!(mode, Mode::Entrypoint | Mode::Hold);
            for (other, before) in actors.iter().enumerate().filter(|_| waits) {
                let want = match (wants >> (2 * other)) % 4 {
                    0 => continue,
                    1 => WantedState::Started,
                    2 if before.is_job => WantedState::Exited,
                    _ if before.is_job => WantedState::Completed,
                    _ => WantedState::Ready,
                };
                // Without the API, nothing proves the start of a container without gate, hook and probe.
                if has_api || before.has_agent() || before.is_probed() {
                    until.push(WaitCondition { container: before.spec.name.clone(), want });
                }
            }
            let has_parent = mode == Mode::Entrypoint && choice & 32 != 0;
            let is_exec = has_parent && choice & 8 != 0;
            let probe = if is_exec { r#"{"exec":{"command":["x"]}}"# } else { r#"{"tcpSocket":{"port":1}}"# };
            let probe = serde_json::from_str(probe).expect("a probe");
            let name = format!("c{number}");
            let has_probe = choice & 16 == 0 || mode == Mode::Hold && !has_api;
            let spec =
                Container { name, mode, until, readiness_probe: has_probe.then_some(probe), ..Container::default() };
            actors.push(Actor {
                spec,
                process: Process::Absent,
                run: 0,
                started_at: SystemTime::UNIX_EPOCH,
                is_healthy: false,
                is_tether_held: false,
                has_parent,
                was_healthy: false,
                filter: ReadyFilter::new(false),
                is_job: mode == Mode::Entrypoint && choice & 96 == 96,
                report: None,
                writes: (0, 0),
                changes: (0, 0),
                observed: 0,
                possible: vec![],
                success: None,
                seen_open: None,
                is_gate_file_open: false,
                met_since: None,
            });
        }
        for actor in &mut actors {
            actor.spec.restart_policy = Some(if actor.is_job { "OnFailure" } else { "Always" }.to_owned());
        }
        let (now, wall) = (now(), wall_clock());
        let mut world = World {
            pod: new_pod(false, "[]"),
            actors,
            lanes: BTreeMap::new(),
            updates: VecDeque::new(),
            now,
            wall,
            numbers: [0; 5],
            kubelet_lies_until: None,
            sidecar_started_at: wall,
            has_api,
        };
        world.start_sidecar(false);
        world
    }

    fn next(&mut self, number: usize) -> u64 {
        self.numbers[number] += 1;
        self.numbers[number]
    }

    fn sandbox(&self) -> SandboxId {
        format!("3f2a9c1e-{}-1a0c5f3b", 4097 + self.numbers[SANDBOX]).parse().expect("a sandbox id")
    }

    fn start_sidecar(&mut self, is_resumed: bool) {
        let id = format!("e{}", self.next(SIDECAR));
        let revision = self.pod.published.as_ref().map_or(0, |last| last.revision);
        let since = self.pod.sandbox_started_at.filter(|_| is_resumed);
        self.pod = PodModel::new(self.sandbox(), Epoch { id, is_resumed }, revision);
        self.pod.sandbox_started_at = since;
        self.pod.set_containers(self.actors.iter().map(|actor| actor.spec.clone()).collect());
        self.sidecar_started_at = self.wall;
        self.lanes.clear();
        self.updates.clear();
        for actor in &mut self.actors {
            (actor.is_gate_file_open, actor.met_since) = (false, None);
            actor.filter = ReadyFilter::new(false);
        }
        self.update();
        for at in 0..self.actors.len() {
            self.observe(at, true);
        }
    }

    /// Changes the process of a container, and records which conditions hold before and after the change.
    fn change(&mut self, at: usize, process: Process) {
        let number = self.next(CHANGE);
        let actor = &mut self.actors[at];
        actor.possible.extend(actor.truths());
        actor.process = process;
        actor.possible.extend(actor.truths());
        actor.changes.0 = number;
    }

    fn is_known(&mut self, at: usize, change: u64) {
        let actor = &mut self.actors[at];
        if change >= actor.changes.0 {
            (actor.possible, actor.changes.1) = (actor.truths(), actor.changes.0);
        }
    }

    fn write(&mut self, at: usize, change: impl FnOnce(&mut Report)) {
        let epoch = self.pod.epoch.id.clone();
        let actor = &mut self.actors[at];
        let report = actor.report.get_or_insert_default();
        report.epoch = epoch;
        change(report);
        actor.writes.0 += 1;
    }

    /// Starts a container, as the kubelet does.
    fn start(&mut self, at: usize) {
        let actor = &self.actors[at];
        let may_start = match actor.process {
            Process::Absent | Process::GateEnded(_) => true,
            Process::Ended(code) => !(actor.is_job && code == 0),
            Process::Gate | Process::Program => false,
        };
        if !may_start || actor.spec.mode == Mode::Hold && !actor.is_gate_file_open {
            return;
        }
        let (is_gate, until) = (actor.spec.mode == Mode::Entrypoint, actor.spec.until.clone());
        let run = self.next(RUN);
        (self.actors[at].run, self.actors[at].started_at) = (run, self.wall);
        (self.actors[at].is_healthy, self.actors[at].was_healthy, self.actors[at].success) = (false, false, None);
        self.change(at, if is_gate { Process::Gate } else { Process::Program });
        self.actors[at].met_since = None;
        if self.actors[at].has_agent() {
            let sandbox = Some(self.sandbox());
            self.write(at, |report| {
                let process = Some(ProcessId { pid: 1, start_ticks: run });
                let (gate, ticket) = (is_gate.then_some(GateState::Waiting), is_gate.then(|| format!("t{run}")));
                let (epoch, started) = (std::mem::take(&mut report.epoch), !is_gate);
                let waiting_for = until;
                *report = Report { sandbox, epoch, gate, ticket, process, started, waiting_for, ..Report::default() };
            });
            self.actors[at].is_tether_held = true;
        }
        // Without its tether, the report of a hook does not show if the container still runs.
        if self.actors[at].spec.mode == Mode::PostStart {
            self.observe(at, false);
        }
    }

    fn end(&mut self, at: usize, code: i32) {
        let actor = &mut self.actors[at];
        let ended = match actor.process {
            Process::Gate => Process::GateEnded(code.max(75)),
            Process::Program => Process::Ended(code),
            _ => return,
        };
        actor.is_tether_held = false;
        if actor.has_parent && ended == Process::Ended(code) && code != 137 {
            self.write(at, |report| report.exit_code = Some(code));
        }
        self.change(at, ended);
    }

    /// Lets a waiting gate read the board and decide. `keeps_tether` is false for a program that closes its tether.
    fn decide_gate(&mut self, at: usize, keeps_tether: bool) {
        let actor = &self.actors[at];
        if actor.process != Process::Gate {
            return;
        }
        let Some(board) = self.pod.published.clone() else { return };
        if actor.report.as_ref().is_some_and(|report| report.epoch != board.epoch) {
            self.write(at, |_| ());
        }
        let ticket = format!("t{}", self.actors[at].run);
        let spec = GateSpec {
            kind: GateKind::Entrypoint(&ticket),
            conditions: &self.actors[at].spec.until,
            fail_fast: false,
            on_timeout: OnTimeout::Fail,
        };
        let decision = decide(&PodView::Snapshot(board, Source::Board), &spec, &Observations::default());
        if let Decision::Open(_) = decision {
            self.check_opening(at);
            self.write(at, |report| (report.gate, report.started) = (Some(GateState::Opened), true));
            self.actors[at].is_tether_held = keeps_tether || self.actors[at].has_parent;
            self.change(at, Process::Program);
            // The sidecar notices a released tether within milliseconds.
            if !self.actors[at].is_tether_held {
                self.observe(at, false);
            }
        }
    }

    /// Checks that each condition of a gate that opens holds, as far as the sidecar could know.
    fn check_opening(&self, at: usize) {
        let actor = &self.actors[at];
        for until in &actor.spec.until {
            let other = self.actors.iter().find(|other| other.spec.name == until.container).expect("a container");
            let is_unseen = other.changes.1 < other.changes.0;
            if until.want == WantedState::Ready && other.is_probed() {
                let (began, run) = other.success.expect("no probe of the dependency has passed");
                let since = actor.met_since.expect("the conditions are not met");
                assert!(began >= since, "{until} was not observed again after all conditions were met");
                assert!(run == other.run || is_unseen, "{until} was observed in an earlier incarnation");
            } else if until.want == WantedState::Ready && other.spec.readiness_probe.is_some() {
                assert!(other.was_healthy || is_unseen, "{until}: the exec probe has never passed");
            } else {
                let holds = other.possible.contains(&until.want) || other.truths().contains(&until.want);
                assert!(holds, "{} opened, but {until} does not hold: {other:?}", actor.spec.name);
            }
        }
    }

    /// Lets the sidecar read a container's directory. With `always`, even if nothing has changed.
    fn observe(&mut self, at: usize, always: bool) {
        let actor = &mut self.actors[at];
        let is_rewritten = always && actor.report.is_some() || actor.writes.0 != actor.writes.1;
        actor.writes.1 = actor.writes.0;
        let is_listening = !actor.is_tether_held && actor.process == Process::Program && actor.is_healthy;
        let name = actor.spec.name.clone();
        let is_tether_held = actor.is_tether_held;
        let report = actor.report.clone();
        let directory = DirectoryState { report, is_rewritten, is_tether_held, is_listening };
        let change = actor.changes.0;
        let is_open = matches!(actor.process, Process::Program | Process::Ended(_));
        actor.seen_open =
            actor.seen_open.filter(|(run, _)| *run == actor.run).or(is_open.then_some((actor.run, self.now)));
        // The sidecar cannot tell an early end from a program that closes its tether.
        let is_late = |(_, at)| self.now.saturating_duration_since(at) >= Duration::from_secs(2);
        let has_code = actor.report.as_ref().is_some_and(|report| report.exit_code.is_some());
        let sees_end = has_code || !is_open || actor.seen_open.is_some_and(is_late);
        let sees_all = actor.has_agent() && (is_tether_held || actor.process != Process::Program && sees_end);
        if self.pod.on_report(&name, directory, self.now) {
            self.pod.is_pod_stale &= self.has_api;
        }
        // Only the first look after a change shows its time.
        if std::mem::replace(&mut self.actors[at].observed, change) != change && sees_all {
            self.is_known(at, u64::MAX);
        }
        self.update();
    }

    /// Sends the kubelet's current statuses to the sidecar. For seconds after its own restart, the kubelet reports each
    /// running container as ready.
    fn sync(&mut self) {
        let lies = self.kubelet_lies_until.is_some_and(|until| self.now < until);
        let status = |actor: &Actor| {
            let status = actor.status();
            Kubelet { is_ready: status.is_ready || lies && status.running_id.is_some(), ..status }
        };
        let statuses = self.actors.iter().map(|actor| (actor.spec.name.clone(), status(actor)));
        let own_started_at = Some(self.sidecar_started_at);
        let facts = PodFacts { kubelet_statuses: statuses.collect(), own_started_at, ..PodFacts::default() };
        if self.has_api {
            self.updates.push_back((facts, self.numbers[CHANGE]));
        }
    }

    fn deliver(&mut self) {
        // The sidecar reads a report within milliseconds, and the kubelet's status comes later.
        for at in 0..self.actors.len() {
            if self.actors[at].has_agent() {
                self.observe(at, false);
            }
        }
        let Some((facts, change)) = self.updates.pop_front() else { return };
        self.pod.on_pod_update(&facts, true, self.now);
        let seen = format!("s{}", self.numbers[KUBELET]);
        for actor in self.actors.iter_mut().filter(|actor| actor.spec.readiness_probe.is_some() && !actor.is_probed()) {
            actor.filter.on_kubelet_status(&facts.kubelet_statuses[&actor.spec.name], Some(&seen), self.now);
            if actor.filter.due().is_none() && actor.filter.accepted_ready.is_none() {
                self.pod.on_kubelet_ready(&actor.spec.name, None);
            }
        }
        (0..self.actors.len()).for_each(|at| self.is_known(at, change));
        self.update();
    }

    /// Changes the health of a container. Its agent reports when the exec probe passes, and never withdraws that.
    fn be_healthy(&mut self, at: usize, is_healthy: bool) {
        let actor = &mut self.actors[at];
        actor.is_healthy = is_healthy;
        if actor.is_ready() && !actor.is_probed() && actor.spec.readiness_probe.is_some() && !actor.was_healthy {
            actor.was_healthy = true;
            self.write(at, |report| report.check_passed = true);
        }
    }

    fn begin_attempt(&mut self, at: usize) {
        if let Some(lane) = self.lanes.get_mut(&at) {
            lane.began.get_or_insert(self.now);
        }
    }

    fn end_attempt(&mut self, at: usize) {
        let actor = &mut self.actors[at];
        let Some(lane) = self.lanes.get_mut(&at) else { return };
        let Some(began) = lane.began.take() else { return };
        let success = actor.process == Process::Program && actor.is_healthy;
        lane.failures = if success { 0 } else { lane.failures + 1 };
        match lane.verdict {
            _ if success => (lane.verdict, actor.success) = (ProbeVerdict::Passed, Some((began, actor.run))),
            ProbeVerdict::Passed if lane.failures >= 2 => lane.verdict = ProbeVerdict::Failing,
            _ => {}
        }
        let (name, verdict) = (actor.spec.name.clone(), lane.verdict);
        self.pod.on_probe(&name, verdict, success, began);
        self.update();
    }

    /// Returns true if something other than the tether can prove that the container runs.
    fn is_provable(&self, at: usize) -> bool {
        self.has_api || self.actors[at].is_probed()
    }

    fn advance(&mut self, time: Duration) {
        (self.now, self.wall) = (self.now + time, self.wall + time);
        while self.pod.due().is_some_and(|due| due <= self.now) {
            self.pod.tick(self.now);
            self.update();
        }
        let seen = format!("s{}", self.numbers[KUBELET]);
        for actor in &mut self.actors {
            if actor.filter.recheck(Some(&seen), self.now) {
                self.pod.on_kubelet_ready(&actor.spec.name, actor.filter.accepted_ready);
            }
        }
        self.update();
    }

    /// Ends all containers, and starts a sidecar in a new sandbox.
    fn lose_sandbox(&mut self) {
        for at in 0..self.actors.len() {
            self.end(at, 137);
        }
        self.next(SANDBOX);
        self.start_sidecar(false);
    }

    /// Does the same as the sidecar's loop after each event.
    fn update(&mut self) {
        self.pod.update_snapshot(self.now);
        let board = self.pod.published.clone().expect("a board");
        for actor in &mut self.actors {
            let is_met =
                actor.spec.until.iter().all(|until| until.status(&board) == podgate::core::until::ConditionStatus::Met);
            actor.met_since = if is_met { actor.met_since.or(Some(self.now)) } else { None };
        }
        let mut changes = Vec::new();
        self.pod.update_gates(self.now, self.wall, |name, open| {
            changes.push((name.to_owned(), open));
            true
        });
        for (name, open) in changes {
            let at = self.actors.iter().position(|actor| actor.spec.name == name).expect("a container");
            if open {
                self.check_opening(at);
            }
            self.actors[at].is_gate_file_open = open;
        }
        self.pod.take_release_requests(self.now);
        for (at, actor) in self.actors.iter().enumerate() {
            let track = self.pod.track(&actor.spec.name).expect("a track");
            if !actor.is_probed() || !self.pod.may_run(track) {
                self.lanes.remove(&at);
            } else if self.lanes.get(&at).is_none_or(|lane| lane.run != track.probing_run) {
                let verdict = if track.has_passed_probes() { ProbeVerdict::Passed } else { ProbeVerdict::NotYet };
                self.lanes.insert(at, Lane { run: track.probing_run, verdict, failures: 0, began: None });
            }
        }
    }

    fn step(&mut self, (kind, container, choice): Step) {
        let at = usize::from(container) % self.actors.len();
        self.advance(Duration::from_millis(1));
        match kind % 32 {
            0..=3 => self.start(at),
            4..=7 => self.observe(at, false),
            8..=11 => self.decide_gate(at, choice % 4 != 0 || !self.is_provable(at)),
            12..=14 => {
                self.be_healthy(at, choice % 4 != 0);
                self.begin_attempt(at);
            }
            15..=16 => self.begin_attempt(at),
            17..=20 => self.end_attempt(at),
            21..=22 => self.sync(),
            23..=24 => self.deliver(),
            25 => self.end(at, [0, 1, 137, 75][usize::from(choice % 4)]),
            26 if self.actors[at].may_drop_tether() && self.is_provable(at) => {
                self.actors[at].is_tether_held = false;
                self.observe(at, false);
            }
            27 => self.advance(Duration::from_millis(u64::from(choice) * 50)),
            28 if self.pod.may_idle() => self.pod.is_pod_stale = true,
            29 if choice % 4 == 0 => self.start_sidecar(true),
            30 if choice % 8 == 0 => self.lose_sandbox(),
            30 if choice % 8 == 1 && self.pod.has_api_answered => {
                self.next(KUBELET);
                self.kubelet_lies_until = Some(self.now + Duration::from_secs(5));
            }
            31 if self.pod.has_status || !self.has_api => {
                let minute = Duration::from_secs(60);
                self.wall = if choice % 2 == 0 { self.wall + minute } else { self.wall - minute };
            }
            _ => {}
        }
    }

    /// Lets all containers become healthy, and delivers all evidence. All gates must then open.
    fn settle(&mut self) {
        for _ in 0..6 * self.actors.len() {
            for at in 0..self.actors.len() {
                self.start(at);
                self.observe(at, false);
                self.decide_gate(at, true);
                self.be_healthy(at, true);
                if self.actors[at].is_job && self.actors[at].process == Process::Program {
                    self.end(at, 0);
                }
                self.observe(at, false);
                for _ in 0..2 {
                    self.begin_attempt(at);
                    self.end_attempt(at);
                }
            }
            self.sync();
            while !self.updates.is_empty() {
                self.deliver();
            }
            self.advance(Duration::from_secs(3));
        }
        self.advance(Duration::from_secs(10));
        for actor in &self.actors {
            let is_done = actor.process == if actor.is_job { Process::Ended(0) } else { Process::Program };
            let board = self.pod.published.as_ref();
            assert!(is_done, "{} never runs: {actor:#?}\n{:#?}\n{board:#?}", actor.spec.name, self.pod);
            let state = self.pod.track(&actor.spec.name).expect("a track").state;
            let expected = if actor.is_job { State::Completed } else { State::Ready };
            let knows = self.has_api || actor.has_agent() || actor.is_probed();
            assert!(state == expected || !knows, "{actor:#?} is {state}: {:#?}", self.pod);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a setting of this test, not of podgate")]
fn sequences() -> Option<u32> {
    Some(std::env::var("PODGATE_SEQUENCES").ok()?.parse().expect("a number"))
}

proptest! {
    // The same sequences in each run, unless somebody asks for more of them.
    #![proptest_config(ProptestConfig {
        cases: sequences().unwrap_or(10_000),
        rng_seed: if sequences().is_some() { RngSeed::Random } else { RngSeed::Fixed(1) },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn gates_open_exactly_when_their_conditions_hold(
        shape in prop::collection::vec(any::<Step>(), 2..5),
        has_api in any::<bool>(),
        steps in prop::collection::vec(any::<Step>(), 0..80),
    ) {
        let mut world = World::new(&shape, has_api);
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}
