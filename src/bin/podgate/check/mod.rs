//! Implements `--check`: the agent runs these checks inside its container. This file schedules the checks.

mod exec;
pub(crate) mod net;

use crate::args::{self, ProbeTimes};
use crate::clock;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use exec::RunningCheck;
pub(crate) use exec::run_to_end;
use net::NetAttempt;
use podgate::core::argv::{Argv, Check};
use podgate::core::exit::Exit;
use podgate::core::probe::{StartupFailureCount, interval};
use podgate::core::sources::PodView;
use podgate::edge::files;
use rustix::event::PollFd;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum interval between two attempts.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// Minimum interval between two child processes that look for a path or a host.
const CHILD_PERIOD_MIN: Duration = Duration::from_millis(100);
/// Minimum and maximum pause between two attempts to run a command.
const EXEC_PERIOD_MIN: Duration = Duration::from_millis(50);
const EXEC_PERIOD_MAX: Duration = Duration::from_secs(10);
/// Extra time for a `podgate check` child process that runs a command, in addition to the command's time limit.
const HELPER_EXTRA_TIME: Duration = Duration::from_secs(1);
/// Time limit for the request of a hook, which the kubelet does not limit.
const HOOK_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Longest interval between two child processes that look for a path, while the kernel's cache has no such path.
const SEARCH_PERIOD_MAX: Duration = Duration::from_secs(10);

/// A list of checks. Each check is repeated until it has passed once.
pub(crate) struct Checks {
    entries: Vec<Entry>,
    running: Option<(usize, RunningCheck)>,
    /// Killed check whose process has not ended. No other process starts until this process has ended.
    stuck: Option<RunningCheck>,
    timeout: Duration,
    since: Instant,
    /// True for a gate that is process 1, which adopts the container's orphans.
    reaps_orphans: bool,
    /// `None` if the checks are independent. Otherwise, they are probes that run one after the other, and the last one
    /// must pass for this long.
    passing_for: Option<Duration>,
    /// Number of failures after which a check has failed for good.
    failure_threshold: Option<u32>,
}

struct Entry {
    check: Check,
    /// Running attempt of a check that needs no child process.
    attempt: Option<NetAttempt>,
    failures: StartupFailureCount,
    /// Last result, or `None` once the check has passed.
    pending: Option<String>,
    /// First of the latest passes in a row.
    passes_since: Option<Instant>,
    due: Instant,
    /// Time before which a child process starts only if the kernel's cache has the path.
    search_due: Instant,
}

impl Checks {
    /// Creates a list of checks. `timeout` is the time limit for one attempt.
    pub(crate) fn new(checks: impl IntoIterator<Item = Check>, timeout: Duration, now: Instant) -> Checks {
        let failures = StartupFailureCount::new(Duration::ZERO, Duration::MAX);
        let entry = |check| {
            let pending = Some("not run yet".to_owned());
            Entry { check, attempt: None, failures, pending, passes_since: None, due: now, search_due: now }
        };
        Checks {
            entries: checks.into_iter().map(entry).collect(),
            running: None,
            stuck: None,
            timeout,
            since: now,
            reaps_orphans: rustix::process::getpid() == Pid::INIT,
            passing_for: None,
            failure_threshold: None,
        }
    }

    /// Runs the checks like a startupProbe of the kubelet, from `start`: at least one attempt per `period`, and at most
    /// `threshold` failures, of which an earlier process has `counted` some.
    pub(crate) fn like_startup_probe(mut self, start: Instant, period: Duration, threshold: u32, counted: u32) -> Self {
        let mut failures = StartupFailureCount::new(start.saturating_duration_since(self.since), period);
        failures.failures = counted;
        self.entries.iter_mut().for_each(|entry| (entry.due, entry.failures) = (start, failures));
        Checks { failure_threshold: Some(threshold), ..self }
    }

    /// Returns the largest number of counted failures of a check.
    pub(crate) fn max_failures(&self) -> u32 {
        self.entries.iter().map(|entry| entry.failures.failures).max().unwrap_or_default()
    }

    /// Returns the check that has failed for good, with its last result.
    pub(crate) fn failed_for_good(&self) -> Option<String> {
        let has_failed = |entry: &&Entry| self.failure_threshold.is_some_and(|most| entry.failures.failures >= most);
        let Entry { check, failures, pending, .. } = self.entries.iter().find(has_failed)?;
        Some(format!("{check} has failed {} times: {}", failures.failures, pending.as_ref()?))
    }

    /// Runs the checks as the probes of a container that has run since `start`: the startupProbe, then the
    /// readinessProbe.
    pub(crate) fn like_probe_sequence(mut self, times: &ProbeTimes, start: Instant) -> Checks {
        self.entries.iter_mut().for_each(|entry| entry.due = start + times.initial_delay);
        Checks { passing_for: Some(times.passing_for), reaps_orphans: false, ..self }
    }

    /// Returns the number of checks that may run now.
    fn runnable(&self) -> usize {
        let first = self.entries.iter().position(|entry| entry.pending.is_some());
        first.filter(|_| self.passing_for.is_some()).map_or(self.entries.len(), |first| first + 1)
    }

    /// Passes the exit status of a reaped child to the running check, which ignores other children.
    pub(crate) fn on_reaped(&mut self, pid: Pid, status: WaitStatus) {
        if let Some((_, running)) = &mut self.running {
            running.on_reaped(pid, status);
        }
    }

    /// Returns true if no checks were given.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the checks that have not passed, each with its last result.
    pub(crate) fn describe_pending(&self) -> Vec<String> {
        let describe = |entry: &Entry| entry.pending.as_ref().map(|result| format!("{} ({result})", entry.check));
        self.entries.iter().filter_map(describe).collect()
    }

    /// Returns the reason why a check cannot pass any more; `None` if every check still can.
    pub(crate) fn impossible_reason(&self) -> Option<String> {
        self.entries.iter().find_map(|Entry { check, pending, .. }| match (check, pending.as_deref()) {
            (Check::File { path, .. }, Some(why @ net::FAILURE_FILE_EXISTS)) => {
                Some(format!("{check} cannot pass: {} exists, so {why}", net::failure_path(path)))
            }
            _ => None,
        })
    }

    /// Runs the checks that are due, without blocking: later calls poll a connection or a child process. `pod_ip`
    /// returns the Pod's IP address.
    pub(crate) fn run_due(&mut self, now: Instant, pod_ip: &dyn Fn() -> Option<String>) {
        if let Some((index, running)) = &mut self.running
            && let Some(outcome) = running.poll(now)
        {
            let (index, left) = (*index, running.deadline.saturating_duration_since(now));
            self.stuck = self.running.take().map(|(_, check)| check);
            let outcome = match outcome {
                // Omit the resolver's error text, because it would not help the user.
                Err(_) if self.entries[index].check.is_network() => Err("no answer".into()),
                outcome => outcome,
            };
            let took = (self.timeout + extra_time(&self.entries[index].check)).saturating_sub(left);
            self.record_outcome(index, outcome, took, now);
            if left.is_zero() {
                // Skip the next lookup in the kernel's cache, because the lookup may block on a dead mount.
                self.entries[index].search_due = now;
            }
        }
        self.stuck.take_if(|check| !check.is_running());
        // Without a running check, all children that have ended are processes that a check has left to process 1.
        while self.reaps_orphans && self.running.is_none() && matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        for index in 0..self.runnable() {
            let entry = &mut self.entries[index];
            if entry.attempt.is_some() {
                self.advance_attempt(index, now);
                continue;
            }
            if entry.pending.is_none() || entry.due > now {
                continue;
            }
            match child_argv(&entry.check, self.timeout, false) {
                None => match NetAttempt::start(&entry.check, false, pod_ip(), now + self.timeout) {
                    Ok(attempt) => {
                        entry.attempt = Some(attempt);
                        self.advance_attempt(index, now);
                    }
                    Err(why) => self.record_outcome(index, Err(why), Duration::ZERO, now),
                },
                Some(_) if self.stuck.is_some() => self.entries[index].due = now + PERIOD_MAX,
                Some(_) if entry.search_due > now && !may_pass(&entry.check) => {
                    self.entries[index].due = now + self.interval(now, Duration::ZERO);
                }
                // Run one child process at a time. A slow one delays the others at most by its time limit.
                Some(argv) if self.running.is_none() => {
                    match RunningCheck::start(&argv, now + self.timeout + extra_time(&entry.check), false) {
                        Ok(running) => self.running = Some((index, running)),
                        Err(error) => self.record_outcome(index, Err(error), Duration::ZERO, now),
                    }
                }
                Some(_) => {}
            }
        }
    }

    pub(crate) fn abort_running(&mut self) {
        self.running = None;
        self.entries.iter_mut().for_each(|entry| entry.attempt = None);
    }

    /// Continues the running attempt of a check. Records the outcome if the attempt has ended.
    fn advance_attempt(&mut self, index: usize, now: Instant) {
        let Some(attempt) = &mut self.entries[index].attempt else { return };
        let Some(outcome) = attempt.advance(now) else { return };
        let left = attempt.exchange.deadline.saturating_duration_since(now);
        self.entries[index].attempt = None;
        self.record_outcome(index, outcome, self.timeout.saturating_sub(left), now);
    }

    /// Records the outcome of an attempt that `took` this long, and schedules the next attempt.
    fn record_outcome(&mut self, index: usize, outcome: Result<(), String>, took: Duration, now: Instant) {
        let (check, waited) = (&self.entries[index].check, now.saturating_duration_since(self.since));
        let pause = match check {
            Check::Exec(_) => (took * 10).max(waited / 40).clamp(EXEC_PERIOD_MIN, EXEC_PERIOD_MAX),
            _ => self.interval(now, if needs_child(check) { CHILD_PERIOD_MIN } else { Duration::ZERO }),
        };
        let search_period = (waited / 10).clamp(PERIOD_MAX, SEARCH_PERIOD_MAX);
        let passing_for = self.passing_for.filter(|_| index + 1 == self.entries.len()).unwrap_or_default();
        let since = self.since;
        let entry = &mut self.entries[index];
        entry.failures.record(waited.saturating_sub(took), outcome.is_err());
        entry.passes_since = outcome.is_ok().then(|| entry.passes_since.unwrap_or(now));
        let is_short = entry.passes_since.is_some_and(|since| now.saturating_duration_since(since) < passing_for);
        let too_short = is_short.then(|| "has passed, but must pass for longer".to_owned());
        entry.pending = outcome.err().or(too_short);
        let counts = since.checked_add(entry.failures.due).filter(|_| self.failure_threshold.is_some());
        let due = now + pause;
        (entry.due, entry.search_due) = (counts.map_or(due, |at| due.min(at.max(now))), now + search_period);
    }

    fn interval(&self, now: Instant, floor: Duration) -> Duration {
        interval(now.saturating_duration_since(self.since), PERIOD_MAX, floor)
    }

    /// Returns the time of the next call of [`run_due`](Checks::run_due), or `None` once all checks have passed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let running = self.running.as_ref().map(|(index, running)| (*index, running.next_poll));
        let idle = |(index, entry): (usize, &Entry)| {
            if let Some(attempt) = &entry.attempt {
                return Some(attempt.exchange.due);
            }
            let is_idle = entry.pending.is_some() && running.is_none_or(|(at, _)| at != index);
            // While a child process runs, no other can start.
            (is_idle && (running.is_none() || !needs_child(&entry.check))).then_some(entry.due)
        };
        self.entries.iter().take(self.runnable()).enumerate().filter_map(idle).chain(running.map(|(_, at)| at)).min()
    }

    /// Returns the descriptors that become ready when [`run_due`](Checks::run_due) can continue a check.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let child = self.running.as_ref().and_then(|(_, running)| running.poll_fd());
        self.entries.iter().filter_map(|entry| entry.attempt.as_ref()?.poll_fd()).chain(child)
    }
}

/// Returns true if a check may block in the kernel, so that a child process must run it. DNS lookups, dead mounts and
/// commands on a dead mount can block for a long time.
fn needs_child(check: &Check) -> bool {
    let (Check::Tcp { host, .. } | Check::Http { host, .. }) = check else { return true };
    !["", "localhost"].contains(&host.as_str()) && host.parse::<IpAddr>().is_err()
}

/// Returns the `podgate check` command for a check that needs a child process.
fn child_argv(check: &Check, limit: Duration, shows_output: bool) -> Option<Argv> {
    let limit = format!("--check-timeout={}us", limit.as_micros());
    let words = [crate::OWN_PROGRAM, "check", "--direct", &limit, &check.to_string()].map(str::to_owned);
    let words = words.into_iter().chain(shows_output.then(|| "--show".to_owned()));
    needs_child(check).then(|| Argv::new(words.collect()).ok())?
}

/// Returns the time that the child process of `check` gets in addition to the check's time limit.
fn extra_time(check: &Check) -> Duration {
    if matches!(check, Check::Exec(_)) { HELPER_EXTRA_TIME } else { Duration::ZERO }
}

/// Returns false if the result of `check` depends on a path that is not in the kernel's cache. Does not block.
fn may_pass(check: &Check) -> bool {
    match check {
        Check::File { path, .. } => files::may_be_cached(path) || files::may_be_cached(&net::failure_path(path)),
        Check::Unix(path) => files::may_be_cached(path),
        _ => true,
    }
}

/// Runs a check once, within `limit`. The error is a short description of the result. With `shows_output`, a child
/// process prints its own error and the output of its command. `view` returns the sidecar's board.
pub(crate) fn run_once(
    check: &Check,
    limit: Duration,
    shows_output: bool,
    view: &dyn Fn() -> PodView,
) -> Result<(), String> {
    match child_argv(check, limit, shows_output) {
        Some(argv) => run_to_end(&argv, limit + extra_time(check), shows_output),
        None => net::run_in_process(check, false, view().pod_ip(), clock::now() + limit),
    }
}

pub(crate) fn run(args: &args::CheckArgs) -> Result<(), Failure> {
    let (check, limit) = (&args.check, args.check_timeout);
    let view = || PodSources::new(args.board.clone(), None).view();
    let failure = |why| Failure::new(Exit::NeverMet, why);
    let outcome = match check {
        Check::Http { .. } if args.hook => net::run_in_process(check, true, view().pod_ip(), clock::now() + HOOK_LIMIT),
        _ if !args.direct => run_once(check, limit, false, &view),
        Check::Exec(argv) => return run_to_end(argv, limit, args.show).map_err(failure),
        _ => return net::run_in_process(check, false, None, clock::now() + limit).map_err(failure),
    };
    outcome.map_err(|why| failure(format!("{check}: {why}")))
}
