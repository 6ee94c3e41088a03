//! What happened to each container, and the verdict on it. Pure.

use super::script::Task;
use podgate::core::until::{WaitCondition, WantedState};
use serde::Serialize;
use std::fmt::Write as _;

/// Time by which a condition may seem to hold late, in milliseconds, if `try` only observes it from outside.
const OBSERVATION_SLACK_MS: i64 = 200;
/// Time that podgate may need to notice that a condition no longer holds, in milliseconds.
const NOTICE_MS: i64 = 2000;

/// One run of a container. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Incarnation {
    /// The container's process starts: the gate, if there is one.
    pub(super) created: i64,
    /// The container's own command starts.
    pub(super) started: Option<i64>,
    /// The stand-in begins to pass its probes.
    pub(super) passes: Option<i64>,
    /// The sidecar publishes Ready.
    pub(super) ready: Option<i64>,
    /// The container's process has ended, with this exit code.
    pub(super) ended: Option<(i64, u8)>,
}

/// All runs of a container.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    pub(super) name: String,
    pub(super) conditions: Vec<WaitCondition>,
    pub(super) outlives: Vec<String>,
    pub(super) has_gate: bool,
    pub(super) has_probe: bool,
    pub(super) is_stand_in: bool,
    pub(super) reports_ready: bool,
    pub(super) must_end: bool,
    pub(super) is_always_restarted: bool,
    pub(super) continues_on_timeout: bool,
    pub(super) runs: Vec<Incarnation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// All containers became Ready, in order.
    InOrder,
    /// A container started before its conditions held.
    Broken,
    /// Not all containers became Ready.
    Incomplete,
}

impl History {
    pub(super) fn new(task: &Task) -> History {
        History {
            name: task.name.clone(),
            conditions: task.conditions.clone(),
            outlives: task.outlives.clone(),
            has_gate: task.has_gate,
            has_probe: task.has_probe,
            is_stand_in: task.is_stand_in,
            reports_ready: task.reports_ready,
            must_end: task.must_end,
            is_always_restarted: task.restart_policy == "Always",
            continues_on_timeout: task.continues_on_timeout,
            runs: Vec::new(),
        }
    }

    pub(super) fn has_started(&self) -> bool {
        self.runs.iter().any(|run| run.started.is_some())
    }

    /// Returns true if the container has done what the order asks for: its end with 0, or a run that is Ready. A
    /// container that the kubelet does not restart may also end with 0.
    pub(super) fn is_complete(&self) -> bool {
        let has_ended = |run: &Incarnation| run.started.is_some() && run.ended.is_some_and(|(_, code)| code == 0);
        match self.runs.last() {
            _ if self.must_end => self.runs.iter().any(has_ended),
            Some(run) if run.ended.is_some() => !self.is_always_restarted && has_ended(run),
            Some(run) => self.ready_at(run).is_some(),
            None => false,
        }
    }

    /// Returns the time at which a run became Ready. Without probes, a container is Ready once it runs.
    pub(super) fn ready_at(&self, run: &Incarnation) -> Option<i64> {
        if self.has_probe { run.started.and(run.ready) } else { run.started }
    }

    /// Returns the intervals in which a state held. An interval without end is still open.
    fn intervals(&self, want: WantedState) -> Vec<(i64, Option<i64>)> {
        let end = |run: &Incarnation| run.ended.map(|(at, _)| at);
        let runs = self.runs.iter();
        match want {
            WantedState::Started => runs.filter_map(|run| Some((run.started? - OBSERVATION_SLACK_MS, None))).collect(),
            WantedState::Ready if self.is_stand_in && self.has_probe => {
                runs.filter_map(|run| Some((run.passes?, end(run)))).collect()
            }
            // The sidecar may observe the start earlier than `try`.
            WantedState::Ready => {
                runs.filter_map(|run| Some((self.ready_at(run)? - OBSERVATION_SLACK_MS, end(run)))).collect()
            }
            WantedState::Completed | WantedState::Exited => runs
                .filter_map(|run| run.started.and(run.ended))
                .filter(|(_, code)| want == WantedState::Exited || *code == 0)
                .map(|(at, _)| (at - OBSERVATION_SLACK_MS, None))
                .collect(),
        }
    }

    /// Returns true if the state held at `at`, or until shortly before.
    fn held(&self, want: WantedState, at: i64) -> bool {
        self.intervals(want).iter().any(|(from, to)| *from <= at && to.is_none_or(|to| to + NOTICE_MS >= at))
    }

    /// Returns the time at which the state was first observed.
    fn first(&self, want: WantedState) -> Option<i64> {
        let of = |run: &Incarnation| match want {
            WantedState::Started => run.started,
            WantedState::Ready => self.ready_at(run),
            WantedState::Completed => run.started.and(run.ended).filter(|(_, code)| *code == 0).map(|(at, _)| at),
            WantedState::Exited => run.started.and(run.ended).map(|(at, _)| at),
        };
        self.runs.iter().find_map(of)
    }
}

/// Returns each start whose condition did not hold: the container, the time and the condition.
pub(super) fn breaches(all: &[History]) -> Vec<(&History, i64, &WaitCondition)> {
    let mut found = Vec::new();
    for own in all {
        for at in own.runs.iter().filter_map(|run| run.started) {
            for until in &own.conditions {
                let before = all.iter().find(|other| other.name == until.container);
                if !before.is_some_and(|before| before.held(until.want, at)) {
                    found.push((own, at, until));
                }
            }
        }
    }
    found
}

pub(super) fn outcome(all: &[History]) -> Outcome {
    match all.iter().all(History::is_complete) {
        _ if !breaches(all).is_empty() => Outcome::Broken,
        true => Outcome::InOrder,
        false => Outcome::Incomplete,
    }
}

/// Returns the verdict on each container in sentences.
pub(super) fn sentences(all: &[History]) -> Vec<String> {
    let find = |name: &str| all.iter().find(|one| one.name == name);
    let mut out = Vec::new();
    for own in all.iter().filter(|own| !own.conditions.is_empty()) {
        let broken = breaches(all).into_iter().find(|(broken, ..)| broken.name == own.name);
        let met = |until: &WaitCondition| Some((find(&until.container)?.first(until.want)?, until.clone()));
        let first = own.runs.iter().find_map(|run| Some((run.started?, run.created)));
        let last = own.conditions.iter().filter_map(met).max_by_key(|(at, _)| *at);
        let name = &own.name;
        out.push(match (broken, first, last) {
            (Some((_, _, until)), ..) => {
                let why = if own.continues_on_timeout { " (podgate.io/on-timeout: continue)" } else { "" };
                format!("{name} started although {until} did not hold{why}: the order was broken.")
            }
            (None, None, _) => {
                let unmet: Vec<String> =
                    own.conditions.iter().filter(|until| met(until).is_none()).map(ToString::to_string).collect();
                match unmet.is_empty() {
                    true => format!("{name} did not start."),
                    false => format!("{name} did not start: it waited for {}.", unmet.join(", ")),
                }
            }
            (None, Some((started, created)), Some((at, until))) => {
                let mut text =
                    format!("{name} started {} after {}", describe_ms((started - at).max(0)), describe(&until));
                if created < at {
                    let _ = write!(text, "; without podgate, {} before", describe_ms(at - created));
                }
                text + "."
            }
            (None, Some(_), None) => continue,
        });
    }
    for own in all {
        if own.has_started() && own.runs.last().is_some_and(|run| run.ended.is_none()) && !own.is_complete() {
            out.push(format!("{} was not Ready in time.", own.name));
        }
        out.extend(restarts(own));
    }
    out
}

/// Returns a sentence about the restarts of a container, if any.
pub(super) fn restarts(own: &History) -> Option<String> {
    let ends: Vec<String> = own.runs.iter().filter_map(|run| run.ended).map(|(_, code)| describe_exit(code)).collect();
    let times = match own.runs.len() {
        ..=1 => return None,
        2 => "once".to_owned(),
        count => format!("{} times", count - 1),
    };
    Some(format!("{} was restarted {times} ({}).", own.name, ends.join(", ")))
}

/// Returns the stop order in sentences. `stopped_at` is the time at which the stop began.
pub(super) fn stop_sentences(all: &[History], stopped_at: i64) -> Vec<String> {
    let end =
        |own: &History| own.runs.last().and_then(|run| run.ended).map(|(at, _)| at).filter(|at| *at >= stopped_at);
    let mut out = Vec::new();
    for own in all {
        let others = own.outlives.iter().filter_map(|name| all.iter().find(|one| one.name == *name));
        let last = others.filter_map(|other| Some((end(other)?, other.name.as_str()))).max();
        let (Some(at), Some((before, name))) = (end(own), last) else { continue };
        out.push(match at >= before {
            true => format!("{} stopped {} after {name}.", own.name, describe_ms(at - before)),
            false => {
                format!("{} stopped {} before {name}: the stop order was not kept.", own.name, describe_ms(before - at))
            }
        });
    }
    out
}

/// Describes a condition that holds, such as `db was Ready`.
fn describe(until: &WaitCondition) -> String {
    let name = &until.container;
    match until.want {
        WantedState::Started => format!("{name} had started"),
        WantedState::Ready => format!("{name} was Ready"),
        WantedState::Completed => format!("{name} had exited with 0"),
        WantedState::Exited => format!("{name} had exited"),
    }
}

pub(super) fn describe_exit(code: u8) -> String {
    match code {
        137 => "SIGKILL".to_owned(),
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

    fn history(name: &str, until: &[&str], runs: &[Incarnation]) -> History {
        History {
            name: name.to_owned(),
            conditions: until.iter().map(|text| text.parse().unwrap()).collect(),
            has_gate: true,
            has_probe: true,
            is_stand_in: true,
            runs: runs.to_vec(),
            ..History::default()
        }
    }

    fn run(started: i64, ready: i64, ended: Option<(i64, u8)>) -> Incarnation {
        Incarnation { created: 0, started: Some(started), passes: Some(ready - 2), ready: Some(ready), ended }
    }

    #[test]
    fn verdict_names_the_delay_and_the_time_without_podgate() {
        let all = [history("db", &[], &[run(10, 4000, None)]), history("api", &["db"], &[run(4005, 6000, None)])];
        assert_eq!(outcome(&all), Outcome::InOrder);
        assert_eq!(sentences(&all), ["api started 5 ms after db was Ready; without podgate, 4.0 s before."]);
    }

    #[test]
    fn early_start_is_a_breach() {
        for started in [100, 3997] {
            let all =
                [history("db", &[], &[run(10, 4000, None)]), history("api", &["db"], &[run(started, 6000, None)])];
            assert_eq!(outcome(&all), Outcome::Broken);
            assert!(sentences(&all)[0].contains("although db=Ready did not hold"), "{:?}", sentences(&all));
        }
        let never = history("db", &[], &[Incarnation { started: Some(1), ..Incarnation::default() }]);
        assert_eq!(outcome(&[never, history("api", &["db"], &[run(9, 10, None)])]), Outcome::Broken);
    }

    #[test]
    fn restart_needs_the_condition_again() {
        let db = history("db", &[], &[run(10, 4000, Some((5000, 1)))]);
        let with = |restarted: i64| {
            [db.clone(), history("api", &["db"], &[run(4005, 6000, Some((6500, 1))), run(restarted, 9000, None)])]
        };
        assert!(breaches(&with(6900)).is_empty(), "podgate may need time to notice");
        assert_eq!(breaches(&with(8000)).len(), 1);
        assert_eq!(outcome(&[db]), Outcome::Incomplete);
    }

    #[test]
    fn ends_count_only_with_the_wanted_exit_code() {
        for (code, until, outcome_wanted) in [
            (0, "job=Completed", Outcome::InOrder),
            (1, "job=Completed", Outcome::Broken),
            (0, "job=Exited", Outcome::InOrder),
        ] {
            let job = History { must_end: true, ..history("job", &[], &[run(10, 100, Some((400, code)))]) };
            let all = [job, history("app", &[until], &[run(405, 600, None)])];
            assert_eq!(outcome(&all), outcome_wanted, "{code} {until}");
        }
    }

    #[test]
    fn waiting_containers_name_their_conditions() {
        let waiting = history("api", &["db"], &[Incarnation::default()]);
        let all = [history("db", &[], &[Incarnation { started: Some(1), ..Incarnation::default() }]), waiting];
        assert_eq!(outcome(&all), Outcome::Incomplete);
        assert_eq!(sentences(&all), ["api did not start: it waited for db=Ready.", "db was not Ready in time."]);
    }
}
