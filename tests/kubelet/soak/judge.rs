//! Compares the times that the containers logged with the declared order.

use super::faults::Shared;
use super::live::LivePod;
use super::plan::Goal;
use super::summary::Summary;
use crate::cluster::Incarnation;
use crate::guarantees::Mode;
use crate::incarnation_log::IncarnationLog;

/// Returns the time in which a container may still start after its dependency has ended, in milliseconds. See the two
/// windows of hold mode in `docs/guarantees.md`.
const fn window(mode: Mode) -> f64 {
    match mode {
        Mode::Hold => 3500.0,
        _ => 1500.0,
    }
}

/// Time before a Pod's deletion in which a fault can affect the stop order, in milliseconds.
const CALM_BEFORE_STOP: f64 = 10_000.0;

/// Longest time from a new sandbox to the start of its first container, on a busy machine, in milliseconds.
const BEFORE_START: f64 = 10_000.0;

/// One run of a container.
struct Life {
    log: IncarnationLog,
    /// containerd's record, if it was read before the kubelet removed it.
    record: Option<Incarnation>,
}

impl Life {
    fn shares_sandbox(&self, other: &Life) -> bool {
        self.record.as_ref().zip(other.record.as_ref()).is_none_or(|(one, two)| one.sandbox == two.sandbox)
    }

    fn exit_code(&self) -> Option<i64> {
        let exit = self.log.events.iter().find(|event| event.name == "exit");
        exit.and_then(|event| event.detail.parse().ok()).or_else(|| self.record.as_ref()?.exit_code)
    }
}

/// All runs of the containers of one Pod.
pub(super) struct Judge<'a> {
    pod: &'a LivePod,
    shared: &'a Shared,
    lives: Vec<Life>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(pod: &'a LivePod, shared: &'a Shared) -> Judge<'a> {
        let with_record = |mut log: IncarnationLog| {
            let record = pod.records.get(&(log.name.clone(), log.attempt)).cloned();
            log.end = log.end.or_else(|| record.as_ref()?.finished);
            Life { log, record }
        };
        let mut lives: Vec<Life> = pod.incarnation_logs().into_iter().map(with_record).collect();
        // If a run has no record of its end, assume that it ended when the container's next run started.
        for index in 1..lives.len() {
            let (name, start) = (lives[index].log.name.clone(), lives[index].log.time_of("start"));
            let previous = &mut lives[index - 1].log;
            previous.end = previous.end.or(start.filter(|_| previous.name == name));
        }
        Judge { pod, shared, lives }
    }

    /// Returns a description of each container that started too early.
    pub(super) fn early_starts(&self, summary: &mut Summary) -> Vec<String> {
        let (plan, mut early) = (&self.pod.plan, Vec::new());
        for life in &self.lives {
            let Some(start) = life.log.time_of("start") else { continue };
            if plan.mode == Mode::PostStart && !self.is_under_hooks(life, start) {
                continue;
            }
            summary.count("starts judged");
            let mut awaited: f64 = 0.0;
            for (container, dependency, state) in plan.edges.iter().filter(|edge| edge.0 == life.log.name) {
                match self.met_at(life, dependency, state, start) {
                    Some((met, ended)) => {
                        awaited = awaited.max(met);
                        summary.add_time("from the end of a dependency to an allowed start", ended, &plan.name);
                    }
                    None => early.push(format!(
                        "{container} (incarnation {}) started while {dependency} was not {state}",
                        life.log.attempt
                    )),
                }
            }
            if awaited > 0.0 && life.log.attempt == 0 && self.is_calm(awaited, start) {
                summary.add_time("from Ready to the next start, without a fault", start - awaited, &plan.name);
            }
        }
        early
    }

    fn is_calm(&self, from: f64, to: f64) -> bool {
        self.shared.strikes_between(&self.pod.pod, from, to).is_empty()
    }

    /// Returns true if hooks guarantee the order of this start (`docs/guarantees.md`). The container must start for the
    /// first time in its sandbox. No fault may have made the kubelet skip a hook. No container may be in back-off,
    /// because the kubelet skips such a container too.
    fn is_under_hooks(&self, life: &Life, start: f64) -> bool {
        let before = || self.lives.iter().filter(|other| other.log.time_of("start").is_some_and(|other| other < start));
        let (inside, outside): (Vec<&Life>, Vec<&Life>) = before().partition(|other| other.shares_sandbox(life));
        let begin = inside.iter().filter_map(|other| other.log.time_of("start")).fold(start, f64::min);
        let is_kept = |kind| kind == "sidecar killed" || str::starts_with(kind, "API");
        self.pod.deleted_at.is_none_or(|at| at > start)
            && inside.iter().all(|other| other.log.name != life.log.name)
            && outside.iter().all(|other| other.log.attempt == 0)
            && self
                .shared
                .strikes_between(&self.pod.pod, begin - BEFORE_START, start)
                .iter()
                .all(|one| is_kept(one.kind))
    }

    /// Returns the time at which the condition was met, and the time from the end of the dependency to `moment`. The
    /// second time is 0 if the dependency still ran, or if the condition is an exit. Returns `None` if the condition
    /// was not met at `moment`. With `restartPolicy: OnFailure`, which all Pods with a task have, the kubelet does not
    /// run a task again in a new sandbox if it has exited with 0.
    fn met_at(&self, of: &Life, dependency: &str, state: &str, moment: f64) -> Option<(f64, f64)> {
        let counts = |life: &&Life| life.shares_sandbox(of) || state != "Ready" && life.exit_code() == Some(0);
        let mut lives = self.lives.iter().rev().filter(|life| life.log.name == dependency).filter(counts);
        lives.find_map(|life| {
            if state == "Ready" {
                let ready = life.log.time_of("ready").filter(|ready| *ready <= moment)?;
                let ended = life.log.end.map_or(0.0, |end| moment - end).max(0.0);
                return (ended <= window(self.pod.plan.mode)).then_some((ready, ended));
            }
            let end = life.log.end.filter(|end| *end <= moment)?;
            (state == "Exited" || life.exit_code() == Some(0)).then_some((end, 0.0))
        })
    }

    /// Returns a description of each container that received SIGTERM too early. After a fault, which can break the
    /// order, the list is empty.
    pub(super) fn early_stops(&self, summary: &mut Summary) -> Vec<String> {
        let Some((deleted, gone)) = self.pod.deleted_at.zip(self.pod.gone_at) else { return Vec::new() };
        if self.is_calm(deleted, gone) {
            summary.add_time("deletion, without a fault", gone - deleted, &self.pod.plan.name);
        }
        if !self.pod.was_up || self.pod.plan.goal != Goal::Up || !self.is_calm(deleted - CALM_BEFORE_STOP, gone) {
            return Vec::new();
        }
        let last = |name: &str| self.lives.iter().rfind(|life| life.log.name == name);
        let mut early = Vec::new();
        for (dependent, provider) in &self.pod.plan.stop {
            let (Some(one), Some(two)) = (last(dependent), last(provider)) else { continue };
            summary.count("pairs of stops judged");
            let (exit, term) = (one.log.time_of("exit"), two.log.time_of("term"));
            if !exit.zip(term).is_some_and(|(exit, term)| exit <= term) {
                early.push(format!("{dependent} exited at {exit:?}, {provider} received SIGTERM at {term:?}"));
            }
        }
        early
    }

    /// Describes all runs, for the report of a violation.
    pub(super) fn times(&self) -> String {
        let describe = |Life { log, record }: &Life| {
            let events: Vec<String> =
                log.events.iter().map(|event| format!("{} {:.1} {}", event.name, event.ms, event.detail)).collect();
            let messages: Vec<&str> = log.messages().collect();
            let sandbox = record.as_ref().map_or("?", |record| &record.sandbox);
            let (events, messages) = (events.join(", "), messages.join("\n    "));
            format!("{} {} sandbox {sandbox:.8} end {:?}: {events}\n    {messages}\n", log.name, log.attempt, log.end)
        };
        self.lives.iter().map(describe).collect()
    }
}
