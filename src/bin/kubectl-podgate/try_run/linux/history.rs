//! History of each container, and the verdict on each container. No I/O.

use super::run_plan::ContainerTask;
use super::stand_in::StandInEvent;
use podgate::core::until::WaitCondition;
use podgate::core::until::WantedState::{self, Completed, Exited, Ready, Started};
use std::fmt::Write as _;

/// Exit code of a process that SIGKILL has ended.
pub(super) const SIGKILL_EXIT_CODE: u8 = 137;
/// Maximum time, in milliseconds, by which `try` observes a start or an end later than the sidecar does.
const OBSERVATION_SLACK_MS: i64 = 200;
/// Time that podgate may need to notice that a condition is no longer met, in milliseconds.
const NOTICE_MS: i64 = 2000;
/// Time for which a container without probes must run before the verdict, in milliseconds. Otherwise the verdict could
/// miss a crash at the start.
const PROBATION_MS: i64 = 1000;

/// One run of a container. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Incarnation {
    /// Time at which the container's first process starts. If the container has a gate, this process is the gate.
    pub(super) created: i64,
    /// Time at which the container's own command starts.
    pub(super) started: Option<i64>,
    /// Time at which the stand-in begins to pass its probes.
    pub(super) passes: Option<i64>,
    /// Time at which the sidecar publishes Ready.
    pub(super) ready: Option<i64>,
    /// Time at which the container's process has ended, and the exit code.
    pub(super) ended: Option<(i64, u8)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ContainerHistory {
    pub(super) task: ContainerTask,
    pub(super) runs: Vec<Incarnation>,
}

/// Verdict on a whole run, with its exit code. The help describes each verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    InOrder = 0,
    Broken = 2,
    Incomplete = 3,
}

impl ContainerHistory {
    /// Adds an event of a stand-in to the run with this index.
    pub(super) fn on_event(&mut self, run: usize, event: StandInEvent, at: i64) {
        let Some(run) = self.runs.get_mut(run) else { return };
        let at = if self.task.has_probe { at } else { run.ready.map_or(at, |ready| ready.min(at)) };
        match event {
            StandInEvent::Starts => run.started = Some(at),
            StandInEvent::Passes => run.passes = Some(at),
        }
    }

    /// Returns true if the container has reached the exit that the order requires. Without a required exit, the current
    /// run must be Ready, or have ended with 0 under a restart policy other than `Always`.
    pub(super) fn has_reached_goal(&self) -> bool {
        let has_reached = |run: &Incarnation, want| self.reached(run, want).is_some();
        match (self.task.required_exit, self.runs.last()) {
            (Some(exit), _) => self.runs.iter().any(|run| has_reached(run, exit)),
            (_, Some(run)) if run.ended.is_none() => has_reached(run, Ready),
            (_, run) => self.task.restart_policy != "Always" && run.is_some_and(|run| has_reached(run, Completed)),
        }
    }

    /// Returns true if the container is complete at `now` and, without probes, has run for [`PROBATION_MS`].
    pub(super) fn has_settled_at_goal(&self, now: i64) -> bool {
        let is_exempt = self.task.has_probe || self.task.required_exit.is_some();
        let from = self.runs.last().and_then(|run| run.started).filter(|_| !is_exempt);
        self.has_reached_goal() && from.is_none_or(|at| now - at >= PROBATION_MS)
    }

    /// Returns the time at which a run became Ready. Without probes, a container is Ready once it runs.
    pub(super) fn ready_at(&self, run: &Incarnation) -> Option<i64> {
        if self.task.has_probe { run.started.and(run.ready) } else { run.started }
    }

    /// Returns the time at which a run reached the state `want`; `None` unless the container's own command started.
    fn reached(&self, run: &Incarnation, want: WantedState) -> Option<i64> {
        match want {
            Started => run.started,
            Ready => self.ready_at(run),
            Completed => run.started.and(run.ended).filter(|(_, code)| *code == 0).map(|(at, _)| at),
            Exited => run.started.and(run.ended).map(|(at, _)| at),
        }
    }

    /// Returns true if the container was in the state `want` at the time `at`, or had left that state shortly before.
    fn was_met(&self, want: WantedState, at: i64) -> bool {
        self.runs.iter().any(|run| {
            let is_ready = want == Ready;
            let from = match is_ready && self.task.has_probe {
                true => run.passes,
                // The sidecar may observe a start or an end earlier than `try` does.
                false => self.reached(run, want).map(|at| at - OBSERVATION_SLACK_MS),
            };
            let to = run.ended.filter(|_| is_ready).map(|(to, _)| to + NOTICE_MS);
            from.is_some_and(|from| from <= at) && to.is_none_or(|to| to >= at)
        })
    }
}

/// Returns the first condition that was not met at a start of the container `own`.
fn breach<'a>(own: &'a ContainerHistory, all: &[ContainerHistory]) -> Option<&'a WaitCondition> {
    own.runs.iter().filter_map(|run| run.started).find_map(|at| {
        let is_met =
            |until: &WaitCondition| find(all, &until.container).is_some_and(|other| other.was_met(until.want, at));
        own.task.conditions.iter().find(|until| !is_met(until))
    })
}

fn find<'a>(all: &'a [ContainerHistory], name: &str) -> Option<&'a ContainerHistory> {
    all.iter().find(|one| one.task.name == name)
}

pub(super) fn outcome(all: &[ContainerHistory]) -> Outcome {
    match all.iter().all(ContainerHistory::has_reached_goal) {
        _ if all.iter().any(|own| breach(own, all).is_some()) => Outcome::Broken,
        true => Outcome::InOrder,
        false => Outcome::Incomplete,
    }
}

/// Returns sentences with the verdict on each container. `suffix` ends some of the sentences, for example `in time`.
pub(super) fn verdict_sentences(all: &[ContainerHistory], suffix: &str) -> Vec<String> {
    if all.iter().skip(1).all(|own| own.runs.is_empty()) {
        return vec![format!("podgate's sidecar was not ready {suffix}.")];
    }
    let mut out: Vec<String> = all.iter().filter_map(|own| start_sentence(own, all)).collect();
    for own in all {
        out.extend(own.runs.last().filter(|_| !own.has_reached_goal()).and_then(|run| end_sentence(own, run, suffix)));
        out.extend(restart_sentence(own));
    }
    out
}

/// Returns a sentence about the last run of a container that is not in its final state; `None` without such a run.
fn end_sentence(own: &ContainerHistory, run: &Incarnation, suffix: &str) -> Option<String> {
    let ContainerTask { name, required_exit, restart_policy, .. } = &own.task;
    match (run.ended, required_exit) {
        (Some(_), _) if restart_policy != "Never" => None,
        (Some((_, code)), _) => Some(format!("{name} exited with {code} and is not restarted.")),
        (None, Some(Exited)) => run.started.map(|_| format!("{name} did not exit {suffix}.")),
        (None, Some(_)) => run.started.map(|_| format!("{name} did not exit with 0 {suffix}.")),
        (None, None) => run.started.map(|_| format!("{name} was not Ready {suffix}.")),
    }
}

fn start_sentence(own: &ContainerHistory, all: &[ContainerHistory]) -> Option<String> {
    let ContainerTask { name, conditions, .. } = &own.task;
    if let Some(until) = breach(own, all) {
        return Some(format!("{name} started although {until} was not met: the order was broken."));
    }
    let met_at = |until: &WaitCondition| {
        let other = find(all, &until.container)?;
        other.runs.iter().find_map(|run| other.reached(run, until.want))
    };
    let Some((started, created)) = own.runs.iter().find_map(|run| Some((run.started?, run.created))) else {
        let unmet = conditions.iter().filter(|until| met_at(until).is_none()).map(ToString::to_string);
        let unmet = unmet.collect::<Vec<_>>().join(", ");
        let why = if unmet.is_empty() { String::new() } else { format!(": it waited for {unmet}") };
        return Some(format!("{name} did not start{why}."));
    };
    let (at, until) = conditions.iter().filter_map(|until| Some((met_at(until)?, until))).max_by_key(|(at, _)| *at)?;
    let state = match until.want {
        Started => "had started",
        Ready => "was Ready",
        Completed => "had exited with 0",
        Exited => "had exited",
    };
    let mut text = format!("{name} started {} after {} {state}", describe_ms((started - at).max(0)), until.container);
    if created < at {
        let _ = write!(text, "; without podgate, {} before", describe_ms(at - created));
    }
    Some(text + ".")
}

fn restart_sentence(own: &ContainerHistory) -> Option<String> {
    let ends: Vec<String> = own.runs.iter().filter_map(|run| run.ended).map(|(_, code)| describe_exit(code)).collect();
    let (name, codes, restarts) = (&own.task.name, ends.join(", "), own.runs.len().saturating_sub(1));
    let times = |count: usize| ["", "once", "twice"].get(count).map_or(format!("{count} times"), ToString::to_string);
    match restarts {
        0 => None,
        _ if ends.len() == restarts => Some(format!("{name} was restarted {} ({codes}).", times(restarts))),
        _ => Some(format!("{name} exited {} ({codes}) and was restarted {}.", times(ends.len()), times(restarts))),
    }
}

/// Returns the stop order in sentences, each with true if the order was kept. The stop began at `stopped_at`.
pub(super) fn stop_sentences(all: &[ContainerHistory], stopped_at: i64) -> Vec<(bool, String)> {
    let end = |own: &ContainerHistory| own.runs.last()?.ended.map(|(at, _)| at).filter(|at| *at >= stopped_at);
    let sentence = |own: &ContainerHistory| {
        let others = own.task.outlives.iter().filter_map(|name| Some((end(find(all, name)?)?, name)));
        let (at, (before, name)) = (end(own)?, others.max()?);
        let text = match at >= before {
            true => format!("{} stopped {} after {name}.", own.task.name, describe_ms(at - before)),
            false => format!("{} stopped before {name}: the stop order was not kept.", own.task.name),
        };
        Some((at >= before, text))
    };
    all.iter().filter_map(sentence).collect()
}

pub(super) fn describe_exit(code: u8) -> String {
    match code {
        SIGKILL_EXIT_CODE => "SIGKILL".to_owned(),
        143 => "SIGTERM".to_owned(),
        code => format!("exit code {code}"),
    }
}

fn describe_ms(ms: i64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(name: &str, outlives: &[&str], runs: &[Incarnation]) -> ContainerHistory {
        let outlives = outlives.iter().map(ToString::to_string).collect();
        ContainerHistory {
            task: ContainerTask { name: name.to_owned(), outlives, ..ContainerTask::default() },
            runs: runs.to_vec(),
        }
    }

    /// Tests made-up histories: podgate keeps the stop order of stand-ins, so no run of `try` can show a wrong order.
    #[test]
    fn stop_order_is_broken_if_a_container_stops_before_another() {
        for (db_at, api_at, expected) in [
            (1500, 1000, vec![(true, "db stopped 500 ms after api.".to_owned())]),
            (1000, 1000, vec![(true, "db stopped 0 ms after api.".to_owned())]),
            (999, 1000, vec![(false, "db stopped before api: the stop order was not kept.".to_owned())]),
            // A container that ended before the stop has no place in the stop order.
            (1500, 800, vec![]),
            (800, 1500, vec![]),
        ] {
            let end = |at| [Incarnation { ended: Some((at, 0)), ..Incarnation::default() }];
            let all = [history("db", &["api"], &end(db_at)), history("api", &[], &end(api_at))];
            assert_eq!(stop_sentences(&all, 900), expected, "{db_at} {api_at}");
        }
    }
}
