//! Property test: random sequences of events in a simulated Pod. The simulation knows the truth, which the model learns
//! late, out of order or never. No gate opens on a condition that does not hold, and each gate opens in the end.

mod evidence;
mod outcome;
mod processes;
mod setup;

use super::*;
use crate::clock::wall_clock;
use crate::model::ready_filter::KubeletReadyFilter;
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
    filter: KubeletReadyFilter,
    is_tethered: bool,
    /// True if the end of the process has released the tether. A program can also have closed it before.
    has_end_released: bool,
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
    /// Time until which the restarted kubelet shows containers as ready, and the last incarnation that it then knew.
    kubelet_lies: Option<(Instant, u64)>,
    sidecar_started_at: SystemTime,
    has_api: bool,
}

const RUN: usize = 0;
const CHANGE: usize = 1;
const SANDBOX: usize = 2;
const SIDECAR: usize = 3;
const KUBELET: usize = 4;

impl World {
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
            actor.filter = KubeletReadyFilter::new(None, is_resumed.then_some(self.now));
        }
        self.update();
        for at in 0..self.actors.len() {
            self.observe(at, true);
        }
    }

    /// Returns true if something other than the tether can prove that the container runs.
    fn is_provable(&self, at: usize) -> bool {
        self.has_api || self.actors[at].is_probed()
    }

    fn advance(&mut self, time: Duration) {
        (self.now, self.wall) = (self.now + time, self.wall + time);
        while self.pod.due().is_some_and(|due| due <= self.now) {
            self.pod.apply_time_limits(self.now);
            self.update();
        }
        // The corrected status arrives before the sidecar trusts the kubelet again.
        if self.kubelet_lies.is_some_and(|(until, _)| until <= self.now) {
            self.kubelet_lies = None;
            self.sync();
            self.deliver_all();
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
            let is_met = actor.spec.until.iter().all(|until| until.is_met(&board));
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
            if !actor.is_probed() || !self.pod.may_be_running(track) {
                self.lanes.remove(&at);
            } else if self.lanes.get(&at).is_none_or(|lane| lane.run != track.probing_run) {
                let verdict = if track.passes_all_probes() { ProbeVerdict::Passed } else { ProbeVerdict::NotYet };
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
                self.actors[at].is_tethered = false;
                self.observe(at, false);
            }
            27 => self.advance(Duration::from_millis(u64::from(choice) * 50)),
            28 if self.pod.may_idle() => self.pod.is_pod_stale = true,
            29 if choice % 4 == 0 => self.start_sidecar(true),
            30 if choice % 8 == 0 => self.lose_sandbox(),
            30 if choice % 8 == 1 && self.pod.has_api_answered => {
                // A kubelet takes longer to restart than its last status takes to the sidecar.
                self.deliver_all();
                self.next(KUBELET);
                self.kubelet_lies = Some((self.now + Duration::from_secs(5), self.numbers[RUN]));
            }
            31 if self.pod.has_status || !self.has_api => {
                let minute = Duration::from_secs(60);
                self.wall = if choice % 2 == 0 { self.wall + minute } else { self.wall - minute };
            }
            _ => {}
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

/// Sequences that found defects: in each of them, a status of an earlier run comes after the container's next start.
#[test]
fn late_statuses_are_those_of_an_earlier_run() {
    for (shape, steps) in [
        (
            &[(41, 0, 40), (51, 102, 0)],
            &[
                (32, 6, 0),
                (72, 6, 0),
                (108, 44, 21),
                (117, 0, 0),
                (185, 84, 0),
                (96, 56, 0),
                (168, 12, 0),
                (32, 19, 0),
                (151, 0, 0),
                (251, 0, 20),
                (72, 133, 0),
            ][..],
        ),
        (
            &[(14, 0, 80), (108, 170, 0)],
            &[
                (96, 74, 0),
                (117, 0, 0),
                (89, 32, 0),
                (0, 134, 0),
                (123, 0, 40),
                (53, 0, 0),
                (121, 8, 0),
                (23, 0, 0),
                (190, 0, 113),
            ],
        ),
        (
            &[(116, 0, 128), (108, 13, 0)],
            &[(0, 2, 0), (104, 44, 0), (249, 12, 60), (245, 0, 0), (160, 48, 0), (57, 48, 0), (23, 0, 0)],
        ),
    ] {
        let mut world = World::new(shape, true);
        for step in steps {
            world.step(*step);
        }
        world.settle();
    }
}
