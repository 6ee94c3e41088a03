//! How the sidecar learns about the simulated Pod: directories, statuses of the kubelet, and probes.

use super::*;

impl World {
    pub(super) fn is_known(&mut self, at: usize, change: u64) {
        let actor = &mut self.actors[at];
        if change >= actor.changes.0 {
            (actor.possible, actor.changes.1) = (actor.truths(), actor.changes.0);
        }
    }

    /// Lets the sidecar read a container's directory. With `always`, even if nothing has changed.
    pub(super) fn observe(&mut self, at: usize, always: bool) {
        let actor = &mut self.actors[at];
        let is_rewritten = always && actor.report.is_some() || actor.writes.0 != actor.writes.1;
        actor.writes.1 = actor.writes.0;
        let is_listening = !actor.is_tethered && actor.process == Process::Program && actor.is_healthy;
        let name = actor.spec.name.clone();
        let is_tethered = actor.is_tethered;
        let report = actor.report.clone();
        let directory = DirectoryState { report, is_rewritten, is_tethered, is_listening };
        let change = actor.changes.0;
        let is_open = matches!(actor.process, Process::Program | Process::Ended(_));
        actor.seen_open =
            actor.seen_open.filter(|(run, _)| *run == actor.run).or(is_open.then_some((actor.run, self.now)));
        // The sidecar cannot tell an early end from a program that closes its tether.
        let is_late = |(_, at)| self.now.saturating_duration_since(at) >= Duration::from_secs(2);
        let has_code = actor.report.as_ref().is_some_and(|report| report.exit_code.is_some());
        let sees_end = has_code || !is_open || actor.has_end_released && actor.seen_open.is_some_and(is_late);
        let sees_all = actor.has_agent() && (is_tethered || actor.process != Process::Program && sees_end);
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
    /// container that ran before as ready.
    pub(super) fn sync(&mut self) {
        let last_known = self.kubelet_lies.filter(|(until, _)| self.now < *until).map_or(0, |(_, run)| run);
        let status = |actor: &Actor| {
            let status = actor.status();
            Kubelet { is_ready: status.is_ready || actor.run <= last_known && status.running_id.is_some(), ..status }
        };
        let statuses = self.actors.iter().map(|actor| (actor.spec.name.clone(), status(actor)));
        let own_started_at = Some(self.sidecar_started_at);
        let facts = PodFacts { kubelet_statuses: statuses.collect(), own_started_at, ..PodFacts::default() };
        if self.has_api {
            self.updates.push_back((facts, self.numbers[CHANGE]));
        }
    }

    pub(super) fn deliver(&mut self) {
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

    pub(super) fn deliver_all(&mut self) {
        while !self.updates.is_empty() {
            self.deliver();
        }
    }

    /// Changes the health of a program. Its agent reports when the exec probe passes, and never withdraws that.
    pub(super) fn be_healthy(&mut self, at: usize, is_healthy: bool) {
        let actor = &mut self.actors[at];
        actor.is_healthy = is_healthy && actor.process == Process::Program;
        if actor.is_ready() && !actor.is_probed() && actor.spec.readiness_probe.is_some() && !actor.was_healthy {
            actor.was_healthy = true;
            self.write(at, |report| report.check_passed = true);
        }
    }

    pub(super) fn begin_attempt(&mut self, at: usize) {
        if let Some(lane) = self.lanes.get_mut(&at) {
            lane.began.get_or_insert(self.now);
        }
    }

    pub(super) fn end_attempt(&mut self, at: usize) {
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
}
