//! `--check`: what a container looks at by itself. One file a scheme; this one says when each is looked at.

mod exec;
mod net;

use crate::failed::Failed;
use crate::{args, clock};
use exec::{Children, Running};
use podgate::core::argv::{Argv, Check};
use podgate::core::exit::Exit;
use podgate::core::probe::interval;
use rustix::event::PollFd;
use rustix::process::{Pid, WaitStatus};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Checks are never further apart than this.
const PERIOD: Duration = Duration::from_secs(1);
/// A check that starts a process is not made more often than this.
const EXEC_FLOOR: Duration = Duration::from_millis(50);
/// A check over the network that a hook makes itself blocks it; so it is cut short.
const NET_LIMIT: Duration = Duration::from_secs(1);

/// How much longer than the check itself the podgate may take that makes it.
const HELPER_EXTRA: Duration = Duration::from_secs(1);

/// What is wanted of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// That it passes.
    Pass,
    /// That nobody is there: for a port.
    Closed,
}

/// Several checks, each made again until it has passed once.
#[derive(Debug)]
pub(crate) struct Checks {
    wanted: Wanted,
    list: Vec<Entry>,
    running: Option<(usize, Running)>,
    limit: Duration,
    since: Instant,
    children: Children,
}

#[derive(Debug)]
struct Entry {
    check: Check,
    /// `None` once it has passed; else what it last gave.
    pending: Option<String>,
    due: Instant,
}

impl Checks {
    /// `limit` is how long one attempt may take.
    pub(crate) fn new(checks: impl IntoIterator<Item = Check>, limit: Duration, now: Instant) -> Checks {
        let entry = |check| Entry { check, pending: Some("not looked at yet".to_owned()), due: now };
        let list = checks.into_iter().map(entry).collect();
        Checks { wanted: Wanted::Pass, list, running: None, limit, since: now, children: Children::OfChecks }
    }

    /// The same, in a process that is the parent of the container's command.
    pub(crate) fn beside_the_command(self) -> Checks {
        Checks { children: Children::OfTheContainer, ..self }
    }

    /// A child of this process has been waited for: `status` is for the check that runs, if it was its command.
    pub(crate) fn was_reaped(&mut self, pid: Pid, status: WaitStatus) {
        if let Some((_, running)) = &mut self.running {
            running.was_reaped(pid, status);
        }
    }

    /// Ports that are to be closed.
    pub(crate) fn closed(ports: impl IntoIterator<Item = Check>, now: Instant) -> Checks {
        Checks { wanted: Wanted::Closed, ..Checks::new(ports, NET_LIMIT, now) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Those that have not passed, each with what it last gave.
    pub(crate) fn pending(&self) -> Vec<String> {
        let say = |entry: &Entry| entry.pending.as_ref().map(|what| format!("{} ({what})", entry.check));
        self.list.iter().filter_map(say).collect()
    }

    /// Why one can never pass, if so.
    pub(crate) fn hopeless(&self) -> Option<String> {
        self.list.iter().filter(|entry| entry.pending.is_some()).find_map(|entry| net::never(&entry.check))
    }

    /// Makes the checks that are due. A command is started and looked at again later; all else is over when this returns.
    /// None lasts beyond `deadline`.
    pub(crate) fn run_due(&mut self, now: Instant, deadline: Instant) {
        if let Some((index, running)) = &mut self.running
            && let Some(outcome) = running.poll(now)
        {
            let (index, is_late) = (*index, now >= running.deadline);
            self.running = None;
            let outcome = match self.wanted {
                Wanted::Pass => readable(&self.list[index].check, outcome),
                Wanted::Closed => net::is_closed(outcome.is_ok(), is_late),
            };
            self.settle(index, outcome, now);
        }
        for index in 0..self.list.len() {
            let entry = &self.list[index];
            if entry.pending.is_none() || entry.due > now {
                continue;
            }
            match self.in_child(&entry.check) {
                None => {
                    let left = deadline.saturating_duration_since(clock::now());
                    let limit = self.limit.min(NET_LIMIT).min(left);
                    let outcome = match self.wanted {
                        Wanted::Pass => net::look(&entry.check, limit),
                        Wanted::Closed => net::look_closed(&entry.check, limit),
                    };
                    self.settle(index, outcome, now);
                }
                // One command at a time: a slow one holds back the others no longer than its limit.
                Some(argv) if self.running.is_none() => {
                    let most = match self.children {
                        Children::OfChecks => self.limit,
                        Children::OfTheContainer => self.limit + HELPER_EXTRA,
                    };
                    match Running::start(&argv, now + most, self.children) {
                        Ok(running) => self.running = Some((index, running)),
                        Err(error) => self.settle(index, Err(error), now),
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Ends what runs: nobody asks any more.
    pub(crate) fn stand_down(&mut self) {
        self.running = None;
    }

    fn settle(&mut self, index: usize, outcome: Result<(), String>, now: Instant) {
        let floor = if self.in_child(&self.list[index].check).is_some() { EXEC_FLOOR } else { Duration::ZERO };
        let entry = &mut self.list[index];
        entry.pending = outcome.err();
        entry.due = now + interval(now.saturating_duration_since(self.since), PERIOD, floor);
    }

    /// When something is to be done next; `None` when all have passed.
    pub(crate) fn next(&self) -> Option<Instant> {
        let running = self.running.as_ref().map(|(index, running)| (*index, running.deadline));
        let idle = |(index, entry): (usize, &Entry)| {
            let is_idle = entry.pending.is_some() && running.is_none_or(|(at, _)| at != index);
            // While a command runs, the others that need one wait for its end.
            (is_idle && (running.is_none() || self.in_child(&entry.check).is_none())).then_some(entry.due)
        };
        self.list.iter().enumerate().filter_map(idle).chain(running.map(|(_, at)| at)).min()
    }

    /// Readable when the running command has ended.
    pub(crate) fn descriptor(&self) -> Option<PollFd<'_>> {
        self.running.as_ref().map(|(_, running)| running.descriptor())
    }

    fn in_child(&self, check: &Check) -> Option<Argv> {
        match (check, self.children) {
            // A podgate of its own can tell what the command leaves behind from what else comes to us.
            (Check::Exec(_), Children::OfTheContainer) => {
                itself(check, Some(format!("--check-timeout={}us", self.limit.as_micros())))
            }
            _ => in_child(check),
        }
    }
}

/// The command that makes this check, if it takes one: names are looked up in a child, since that can block for long.
fn in_child(check: &Check) -> Option<Argv> {
    match check {
        Check::Exec(argv) => Some(argv.clone()),
        Check::File { .. } => None,
        Check::Tcp { host, .. } | Check::Http { host, .. } => {
            let literal = host == "localhost" || host.parse::<IpAddr>().is_ok();
            if literal { None } else { itself(check, None) }
        }
    }
}

/// Podgate's own command that makes `check`, with `flag`.
fn itself(check: &Check, flag: Option<String>) -> Option<Argv> {
    let words = ["/proc/self/exe".to_owned(), "check".to_owned(), check.to_string()];
    Argv::new(words.into_iter().chain(flag).collect()).ok()
}

/// A name is looked up by a podgate of its own, whose exit code is of no use to anybody.
fn readable(check: &Check, outcome: Result<(), String>) -> Result<(), String> {
    if matches!(check, Check::Exec(_)) { outcome } else { outcome.map_err(|_| "no answer".to_owned()) }
}

/// Looks once, within `limit`; the error says in a few words what it gave.
pub(crate) fn once(check: &Check, limit: Duration) -> Result<(), String> {
    match in_child(check) {
        Some(argv) => readable(check, exec::to_end(&argv, limit)),
        None => net::look(check, limit),
    }
}

/// `podgate check URL`.
pub(crate) fn run(args: &args::CheckOnce) -> Result<(), Failed> {
    let outcome = match &args.check {
        Check::Exec(argv) => exec::to_end(argv, args.check_timeout),
        other => net::look(other, args.check_timeout),
    };
    outcome.map_err(|why| Failed::new(Exit::Never, format!("{}: {why}", args.check)))
}
