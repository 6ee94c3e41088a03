//! `--check`: checks that the agent runs inside the container. This file schedules the checks.

mod exec;
mod net;

use crate::failure::Failure;
use crate::{args, clock};
use exec::{ChildScope, RunningCheck};
use podgate::core::argv::{Argv, Check};
use podgate::core::exit::Exit;
use podgate::core::probe::interval;
use rustix::event::PollFd;
use rustix::process::{Pid, WaitStatus};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum interval between two attempts.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// Minimum interval between two attempts that start a process.
const EXEC_PERIOD_MIN: Duration = Duration::from_millis(50);
/// Time limit for a network check, which blocks the agent.
const NET_TIMEOUT: Duration = Duration::from_secs(1);

/// Program of a `podgate check` child process: the agent's own.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// Extra time for a `podgate check` child process, in addition to the check's own time limit.
const HELPER_EXTRA_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Pass,
    Closed,
}

/// A list of checks. Each check is repeated until it has passed once.
#[derive(Debug)]
pub(crate) struct Checks {
    expected: Expected,
    entries: Vec<Entry>,
    running: Option<(usize, RunningCheck)>,
    /// Killed check whose process has not ended. No other process starts before its end.
    stuck: Option<RunningCheck>,
    timeout: Duration,
    since: Instant,
    child_scope: ChildScope,
}

#[derive(Debug)]
struct Entry {
    check: Check,
    /// Last result, or `None` once the check has passed.
    pending: Option<String>,
    due: Instant,
}

impl Checks {
    /// Creates a list of checks. `timeout` is the time limit for one attempt.
    pub(crate) fn new(checks: impl IntoIterator<Item = Check>, timeout: Duration, now: Instant) -> Checks {
        let entry = |check| Entry { check, pending: Some("not run yet".to_owned()), due: now };
        // Process 1 also has children that are not checks: the kernel makes it the parent of all orphans of the
        // container.
        let is_first = rustix::process::getpid() == Pid::INIT;
        let list = checks.into_iter().map(entry).collect();
        Checks {
            expected: Expected::Pass,
            entries: list,
            running: None,
            stuck: None,
            timeout,
            since: now,
            child_scope: if is_first { ChildScope::WithOthers } else { ChildScope::ChecksOnly },
        }
    }

    /// Runs each check command in a separate `podgate check` process, because this process also has the container's
    /// command as a child.
    pub(crate) fn with_command(self) -> Checks {
        Checks { child_scope: ChildScope::WithOthers, ..self }
    }

    /// Passes the exit status of a reaped child to the running check, which ignores other children.
    pub(crate) fn on_reaped(&mut self, pid: Pid, status: WaitStatus) {
        if let Some((_, running)) = &mut self.running {
            running.on_reaped(pid, status);
        }
    }

    /// Creates a list of checks, each of which passes when its port is closed.
    pub(crate) fn for_closed_ports(ports: impl IntoIterator<Item = Check>, now: Instant) -> Checks {
        Checks { expected: Expected::Closed, ..Checks::new(ports, NET_TIMEOUT, now) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the checks that have not passed, each with its last result.
    pub(crate) fn pending(&self) -> Vec<String> {
        let describe = |entry: &Entry| entry.pending.as_ref().map(|result| format!("{} ({result})", entry.check));
        self.entries.iter().filter_map(describe).collect()
    }

    /// Returns the reason why a check can't pass any more; `None` if every check still can.
    pub(crate) fn impossible_reason(&self) -> Option<String> {
        self.entries
            .iter()
            .filter(|entry| entry.pending.is_some())
            .find_map(|entry| net::impossible_reason(&entry.check))
    }

    /// Runs the checks that are due. Network and file checks have finished on return. A command is only started, and
    /// later calls poll the result. Network checks do not run beyond `deadline`.
    pub(crate) fn run_due(&mut self, now: Instant, deadline: Instant) {
        if let Some((index, running)) = &mut self.running
            && let Some(outcome) = running.poll(now)
        {
            let (index, is_late) = (*index, now >= running.deadline);
            self.stuck = self.running.take().map(|(_, check)| check);
            let outcome = match self.expected {
                Expected::Pass => hide_helper_error(&self.entries[index].check, outcome),
                Expected::Closed => net::closed_outcome(outcome.is_ok(), is_late),
            };
            self.record_outcome(index, outcome, now);
        }
        self.stuck.take_if(|check| !check.is_running());
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            if entry.pending.is_none() || entry.due > now {
                continue;
            }
            match self.child_argv(&entry.check) {
                None => {
                    let left = deadline.saturating_duration_since(clock::now());
                    let limit = self.timeout.min(NET_TIMEOUT).min(left);
                    let outcome = match self.expected {
                        Expected::Pass => net::run_check(&entry.check, limit),
                        Expected::Closed => net::check_closed(&entry.check, limit),
                    };
                    self.record_outcome(index, outcome, now);
                }
                Some(_) if self.stuck.is_some() => self.entries[index].due = now + PERIOD_MAX,
                // Run one command at a time. A slow command delays the other commands at most by its time limit.
                Some(argv) if self.running.is_none() => {
                    let most = match self.child_scope {
                        ChildScope::ChecksOnly => self.timeout,
                        ChildScope::WithOthers => self.timeout + HELPER_EXTRA_TIME,
                    };
                    match RunningCheck::start(&argv, now + most, self.child_scope) {
                        Ok(running) => self.running = Some((index, running)),
                        Err(error) => self.record_outcome(index, Err(error), now),
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Ends the running check, whose result is no longer needed.
    pub(crate) fn abort_running(&mut self) {
        self.running = None;
    }

    fn record_outcome(&mut self, index: usize, outcome: Result<(), String>, now: Instant) {
        let floor =
            if self.child_argv(&self.entries[index].check).is_some() { EXEC_PERIOD_MIN } else { Duration::ZERO };
        let entry = &mut self.entries[index];
        entry.pending = outcome.err();
        entry.due = now + interval(now.saturating_duration_since(self.since), PERIOD_MAX, floor);
    }

    /// Returns the time of the next call of [`run_due`](Checks::run_due), or `None` once all checks have passed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let running = self.running.as_ref().map(|(index, running)| (*index, running.next_poll));
        let idle = |(index, entry): (usize, &Entry)| {
            let is_idle = entry.pending.is_some() && running.is_none_or(|(at, _)| at != index);
            // While a command runs, no other command can start.
            (is_idle && (running.is_none() || self.child_argv(&entry.check).is_none())).then_some(entry.due)
        };
        self.entries.iter().enumerate().filter_map(idle).chain(running.map(|(_, at)| at)).min()
    }

    /// Returns a descriptor that becomes readable when the running command has ended.
    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.running.as_ref().and_then(|(_, running)| running.poll_fd())
    }

    fn child_argv(&self, check: &Check) -> Option<Argv> {
        match (check, self.child_scope) {
            // A separate podgate process can distinguish the check's orphans from those of the container's command.
            (Check::Exec(_), ChildScope::WithOthers) => {
                own_check_argv(check, Some(&format!("--check-timeout={}us", self.timeout.as_micros())))
            }
            _ => child_argv(check),
        }
    }
}

/// Returns the command for a check that needs a child process. DNS lookups and dead mounts may block for long.
fn child_argv(check: &Check) -> Option<Argv> {
    match check {
        Check::Exec(argv) => Some(argv.clone()),
        Check::File { .. } | Check::Unix(_) => None,
        Check::Mount(_) => own_check_argv(check, Some("--direct")),
        Check::Tcp { host, .. } | Check::Http { host, .. } => {
            let literal = host == "localhost" || host.parse::<IpAddr>().is_ok();
            if literal { None } else { own_check_argv(check, None) }
        }
    }
}

/// Returns the command line of `podgate check` for `check`, with `flag`.
fn own_check_argv(check: &Check, flag: Option<&str>) -> Option<Argv> {
    let check = check.to_string();
    let words = [OWN_PROGRAM, "check", &check].into_iter().chain(flag);
    Argv::new(words.map(str::to_owned).collect()).ok()
}

/// Replaces the error of a `podgate check` child process that looks up a name: the resolver's text would not help.
fn hide_helper_error(check: &Check, outcome: Result<(), String>) -> Result<(), String> {
    if check.is_network() { outcome.map_err(|_| "no answer".to_owned()) } else { outcome }
}

/// Runs a check once, within `limit`. The error is a short description of the result.
pub(crate) fn run_once(check: &Check, limit: Duration) -> Result<(), String> {
    match child_argv(check) {
        Some(argv) => hide_helper_error(check, exec::run_to_end(&argv, limit)),
        None => net::run_check(check, limit),
    }
}

pub(crate) fn run(args: &args::CheckArgs) -> Result<(), Failure> {
    let outcome = match &args.check {
        Check::Exec(argv) => exec::run_to_end(argv, args.check_timeout),
        Check::Mount(_) if !args.direct => run_once(&args.check, args.check_timeout),
        other => net::run_check(other, args.check_timeout),
    };
    outcome.map_err(|why| Failure::new(Exit::NeverMet, format!("{}: {why}", args.check)))
}
