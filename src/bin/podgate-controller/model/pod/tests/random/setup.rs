//! The simulated Pod from random numbers, and the facts about each container.

use super::*;

impl Actor {
    /// Returns true if the sidecar probes the container.
    pub(super) fn is_probed(&self) -> bool {
        self.spec.readiness_probe.as_ref().is_some_and(|probe| !probe.is_exec())
    }

    /// Returns true if an agent in the container reports the start and holds the tether.
    pub(super) fn has_agent(&self) -> bool {
        matches!(self.spec.mode, Mode::Entrypoint | Mode::PostStart)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.process == Process::Program && (self.is_healthy || self.spec.readiness_probe.is_none())
    }

    /// Returns true if the program inherits the tether, and can close it. Its port then listens.
    pub(super) fn may_drop_tether(&self) -> bool {
        self.spec.mode == Mode::Entrypoint && !self.has_parent && self.is_healthy
    }

    pub(super) fn truths(&self) -> Vec<WantedState> {
        match self.process {
            Process::Absent | Process::Gate | Process::GateEnded(_) => vec![],
            Process::Program if self.is_ready() => vec![WantedState::Started, WantedState::Ready],
            Process::Program => vec![WantedState::Started],
            Process::Ended(0) => vec![WantedState::Started, WantedState::Exited, WantedState::Completed],
            Process::Ended(_) => vec![WantedState::Started, WantedState::Exited],
        }
    }

    pub(super) fn status(&self) -> Kubelet {
        let id = format!("c{}", self.run);
        match self.process {
            Process::Absent => Kubelet::default(),
            Process::Gate => Kubelet { has_started: false, ..self.running_status(false) },
            Process::Program => self.running_status(self.is_ready()),
            Process::Ended(code) | Process::GateEnded(code) => Kubelet {
                termination: Some((id, code)),
                ended_run_started_at: Some(self.started_at),
                stuck_reason: (self.is_job && code == 0).then(|| REASON_ENDED_FOR_GOOD.to_owned()),
                ..Kubelet::default()
            },
        }
    }

    pub(super) fn running_status(&self, is_ready: bool) -> Kubelet {
        Kubelet { running_since: Some(self.started_at), ..running(&format!("c{}", self.run), is_ready) }
    }
}

impl World {
    pub(super) fn new(shape: &[Step], has_api: bool) -> World {
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
                is_tethered: false,
                has_end_released: false,
                has_parent,
                was_healthy: false,
                filter: KubeletReadyFilter::default(),
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
            kubelet_lies: None,
            sidecar_started_at: wall,
            has_api,
        };
        world.start_sidecar(false);
        world
    }
}
