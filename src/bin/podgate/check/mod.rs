//! `--check`: what a container looks at by itself. One file a scheme; this one says when each is looked at.

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

/// Checks are never further apart than this.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// A check that starts a process is not made more often than this.
const EXEC_PERIOD_MIN: Duration = Duration::from_millis(50);
/// A check over the network that a hook makes itself blocks it; so it is cut short.
const NET_TIMEOUT: Duration = Duration::from_secs(1);

/// How much longer than the check itself the podgate may take that makes it.
const HELPER_EXTRA_TIME: Duration = Duration::from_secs(1);

/// What is wanted of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// That it passes.
    Pass,
    /// That nobody is there: for a port.
    Closed,
}

/// Several checks, each made again until it has passed once.
#[derive(Debug)]
pub(crate) struct Checks {
    expected: Expected,
    entries: Vec<Entry>,
    running: Option<(usize, RunningCheck)>,
    timeout: Duration,
    since: Instant,
    child_scope: ChildScope,
}

#[derive(Debug)]
struct Entry {
    check: Check,
    /// `None` once it has passed; else what it last gave.
    pending: Option<String>,
    due: Instant,
}

impl Checks {
    /// `timeout` is how long one attempt may take.
    pub(crate) fn new(checks: impl IntoIterator<Item = Check>, limit: Duration, now: Instant) -> Checks {
        let entry = |check| Entry { check, pending: Some("not looked at yet".to_owned()), due: now };
        let list = checks.into_iter().map(entry).collect();
        Checks {
            expected: Expected::Pass,
            entries: list,
            running: None,
            timeout: limit,
            since: now,
            child_scope: ChildScope::ChecksOnly,
        }
    }

    /// The same, in a process that is the parent of the container's command.
    pub(crate) fn with_command(self) -> Checks {
        Checks { child_scope: ChildScope::WithCommand, ..self }
    }

    /// A child of this process has been waited for: `status` is for the check that runs, if it was its command.
    pub(crate) fn on_reaped(&mut self, pid: Pid, status: WaitStatus) {
        if let Some((_, running)) = &mut self.running {
            running.on_reaped(pid, status);
        }
    }

    /// Ports that are to be closed.
    pub(crate) fn for_closed_ports(ports: impl IntoIterator<Item = Check>, now: Instant) -> Checks {
        Checks { expected: Expected::Closed, ..Checks::new(ports, NET_TIMEOUT, now) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Those that have not passed, each with what it last gave.
    pub(crate) fn pending(&self) -> Vec<String> {
        let say = |entry: &Entry| entry.pending.as_ref().map(|what| format!("{} ({what})", entry.check));
        self.entries.iter().filter_map(say).collect()
    }

    /// Why one can never pass, if so.
    pub(crate) fn impossible_reason(&self) -> Option<String> {
        self.entries
            .iter()
            .filter(|entry| entry.pending.is_some())
            .find_map(|entry| net::impossible_reason(&entry.check))
    }

    /// Makes the checks that are due. A command is started and looked at again later; all else is over when this returns.
    /// None lasts beyond `deadline`.
    pub(crate) fn run_due(&mut self, now: Instant, deadline: Instant) {
        if let Some((index, running)) = &mut self.running
            && let Some(outcome) = running.poll(now)
        {
            let (index, is_late) = (*index, now >= running.deadline);
            self.running = None;
            let outcome = match self.expected {
                Expected::Pass => hide_helper_error(&self.entries[index].check, outcome),
                Expected::Closed => net::closed_outcome(outcome.is_ok(), is_late),
            };
            self.record_outcome(index, outcome, now);
        }
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
                // One command at a time: a slow one holds back the others no longer than its limit.
                Some(argv) if self.running.is_none() => {
                    let most = match self.child_scope {
                        ChildScope::ChecksOnly => self.timeout,
                        ChildScope::WithCommand => self.timeout + HELPER_EXTRA_TIME,
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

    /// Ends what runs: nobody asks any more.
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

    /// When something is to be done next; `None` when all have passed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let running = self.running.as_ref().map(|(index, running)| (*index, running.deadline));
        let idle = |(index, entry): (usize, &Entry)| {
            let is_idle = entry.pending.is_some() && running.is_none_or(|(at, _)| at != index);
            // While a command runs, the others that need one wait for its end.
            (is_idle && (running.is_none() || self.child_argv(&entry.check).is_none())).then_some(entry.due)
        };
        self.entries.iter().enumerate().filter_map(idle).chain(running.map(|(_, at)| at)).min()
    }

    /// Readable when the running command has ended.
    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.running.as_ref().map(|(_, running)| running.poll_fd())
    }

    fn child_argv(&self, check: &Check) -> Option<Argv> {
        match (check, self.child_scope) {
            // A podgate of its own can tell what the command leaves behind from what else comes to us.
            (Check::Exec(_), ChildScope::WithCommand) => {
                own_check_argv(check, Some(format!("--check-timeout={}us", self.timeout.as_micros())))
            }
            _ => child_argv(check),
        }
    }
}

/// The command that makes this check, if it takes one: names are looked up in a child, since that can block for long.
fn child_argv(check: &Check) -> Option<Argv> {
    match check {
        Check::Exec(argv) => Some(argv.clone()),
        Check::File { .. } => None,
        Check::Tcp { host, .. } | Check::Http { host, .. } => {
            let literal = host == "localhost" || host.parse::<IpAddr>().is_ok();
            if literal { None } else { own_check_argv(check, None) }
        }
    }
}

/// Podgate's own command that makes `check`, with `flag`.
fn own_check_argv(check: &Check, flag: Option<String>) -> Option<Argv> {
    let words = ["/proc/self/exe".to_owned(), "check".to_owned(), check.to_string()];
    Argv::new(words.into_iter().chain(flag).collect()).ok()
}

/// A name is looked up by a podgate of its own, whose exit code is of no use to anybody.
fn hide_helper_error(check: &Check, outcome: Result<(), String>) -> Result<(), String> {
    if matches!(check, Check::Exec(_)) { outcome } else { outcome.map_err(|_| "no answer".to_owned()) }
}

/// Looks once, within `timeout`; the error says in a few words what it gave.
pub(crate) fn run_once(check: &Check, limit: Duration) -> Result<(), String> {
    match child_argv(check) {
        Some(argv) => hide_helper_error(check, exec::run_to_end(&argv, limit)),
        None => net::run_check(check, limit),
    }
}

/// `podgate check URL`.
pub(crate) fn run(args: &args::CheckArgs) -> Result<(), Failure> {
    let outcome = match &args.check {
        Check::Exec(argv) => exec::run_to_end(argv, args.check_timeout),
        other => net::run_check(other, args.check_timeout),
    };
    outcome.map_err(|why| Failure::new(Exit::NeverMet, format!("{}: {why}", args.check)))
}
