//! The predecessors of a gate without a sidecar. The gate runs their own probes, as the kubelet does, but sooner: the
//! containers of a Pod share its network.
//!
//! A predecessor is asked only while all containers that it waits for itself are Ready, because its gate is closed
//! before. When all are Ready, one more probe of each confirms the decision. A probe that fails then makes its
//! container pending again.

use crate::check::net::NetAttempt;
use crate::failure::Failure;
use podgate::core::argv::{Check, ParseError};
use podgate::core::ask::AskedProbe;
use podgate::core::checks::equivalent_check;
use podgate::core::container::Probe;
use podgate::core::exit::Exit;
use podgate::core::probe::{MIN_INTERVAL, ProbeVerdict};
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::{PodView, Source};
use podgate::core::state::State;
use podgate::core::until::{WaitCondition, WantedState};
use podgate::edge::probe_schedule::ProbeSchedule;
use podgate::edge::sock_diag::SockDiag;
use rustix::event::PollFd;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// All predecessors of a gate.
pub(crate) struct Predecessors {
    list: Vec<Predecessor>,
    network: Network,
    /// Ticket of the gate.
    ticket: String,
    /// True since all predecessors were Ready, until one fails.
    is_confirming: bool,
    /// Time of the next call of [`run_due`](Predecessors::run_due).
    pub(crate) due: Option<Instant>,
}

struct Network {
    pod_ip: IpAddr,
    kernel: SockDiag,
}

impl Network {
    /// Returns true if a socket listens on one of `addresses`; `None` if the kernel does not answer.
    fn has_listener(&mut self, addresses: &[SocketAddr]) -> Option<bool> {
        let mut answers = addresses.iter().map(|address| self.kernel.has_listener(*address));
        answers.find(|answer| !matches!(answer, Ok(false))).map_or(Some(false), Result::ok)
    }
}

struct Predecessor {
    schedule: ProbeSchedule,
    /// Addresses of the probe that was running when its container was found: when a socket was found on one of them, or
    /// when the probe passed. `initialDelaySeconds` counts from then, so it never ends earlier than the kubelet's.
    found: Option<Vec<SocketAddr>>,
    /// The running attempt, with its start.
    attempt: Option<(Instant, NetAttempt)>,
    /// Result of the last attempt.
    result: String,
}

impl Predecessors {
    /// Parses the values of `--ask` and `--pod-ip`.
    pub(crate) fn new(asks: &[String], pod_ip: &str, ticket: String, now: Instant) -> Result<Predecessors, Failure> {
        let wrong = |flag, value: &str, why: String| Failure::new(Exit::Usage, format!("{flag} {value:?}: {why}"));
        let pod_ip = pod_ip.parse().map_err(|_| wrong("--pod-ip", pod_ip, "not an IP address".to_owned()))?;
        let mut containers = Vec::new();
        for text in asks {
            let ask: AskedProbe = text.parse().map_err(|why: ParseError| wrong("--ask", text, why.to_string()))?;
            ask.add_to(&mut containers);
        }
        let schedules =
            containers.into_iter().filter_map(|container| ProbeSchedule::new(container, now, MIN_INTERVAL, false));
        let new =
            |schedule| Predecessor { schedule, found: None, attempt: None, result: "no socket listens".to_owned() };
        let network = Network { pod_ip, kernel: SockDiag::default() };
        Ok(Predecessors { list: schedules.map(new).collect(), network, ticket, is_confirming: false, due: None })
    }

    /// Returns the conditions that the predecessors must meet.
    pub(crate) fn conditions(&self) -> Vec<WaitCondition> {
        let ready = |name: &str| WaitCondition { container: name.to_owned(), want: WantedState::Ready };
        self.list.iter().map(|one| ready(one.name())).collect()
    }

    /// Runs the probes and searches that are due, without blocking. `late` is the delay of the last wake-up.
    pub(crate) fn run_due(&mut self, now: Instant, late: Duration) {
        loop {
            let runs: Vec<bool> = self.list.iter().map(|one| self.is_asked(one)).collect();
            self.due = None;
            for (one, runs) in self.list.iter_mut().zip(runs) {
                if !runs {
                    one.attempt = None;
                    if one.found.is_none() {
                        // The pauses between two searches grow with the time since the start of the schedule.
                        one.schedule.since = now;
                    }
                    continue;
                }
                if one.advance(now, late, &mut self.network) == Some(false) {
                    self.is_confirming = false;
                }
                self.due = self.due.into_iter().chain(one.next_due()).min();
            }
            if self.is_confirming || !self.list.iter().all(|one| self.state(one) == State::Ready) {
                break;
            }
            self.is_confirming = true;
            self.list.iter_mut().for_each(|one| one.schedule.plan_confirmation(now));
        }
    }

    /// Returns true if the gate needs a probe of `one` now, and all containers that it waits for are Ready.
    fn is_asked(&self, one: &Predecessor) -> bool {
        let is_before =
            |other: &&Predecessor| one.schedule.container.until.iter().any(|it| it.container == other.name());
        let is_needed = one.schedule.progress.verdict() != ProbeVerdict::Passed || one.schedule.is_confirming();
        is_needed && self.list.iter().filter(is_before).all(|before| self.state(before) == State::Ready)
    }

    fn state(&self, one: &Predecessor) -> State {
        match one.schedule.progress.verdict() {
            // Since an attempt to confirm has failed, the container must pass again.
            ProbeVerdict::Passed if self.is_confirming || !one.schedule.is_confirming() => State::Ready,
            ProbeVerdict::Passed | ProbeVerdict::Failing => State::NotReady,
            _ if one.found.is_some() => State::Started,
            _ => State::Waiting,
        }
    }

    /// Returns the states as the gate knows them. They are confirmed when each predecessor has passed a probe that
    /// began after all were Ready.
    pub(crate) fn view(&self) -> PodView {
        let is_confirmed = self.is_confirming && self.list.iter().all(|one| !one.schedule.is_confirming());
        let snapshot = Snapshot {
            states: self.list.iter().map(|one| (one.name().to_owned(), self.state(one))).collect(),
            confirmed_tickets: is_confirmed.then(|| (String::new(), self.ticket.clone())).into_iter().collect(),
            pod_ip: Some(self.network.pod_ip.to_string().into()),
            ..Snapshot::default()
        };
        PodView::Snapshot(snapshot, Source::Board)
    }

    /// Returns the probes that the gate runs now and that have not passed, each with its last result.
    pub(crate) fn describe_pending_probes(&self) -> impl Iterator<Item = String> {
        let asked = self.list.iter().filter(|one| self.state(one) != State::Ready && self.is_asked(one));
        asked.filter_map(|one| Some(format!("{} ({})", one.check(one.schedule.progress.next_probe())?, one.result)))
    }

    /// Returns the sockets of the running attempts.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.list.iter().filter_map(|one| one.attempt.as_ref()?.1.poll_fd())
    }
}

impl Predecessor {
    fn name(&self) -> &str {
        &self.schedule.container.name
    }

    fn check(&self, probe: &Probe) -> Option<Check> {
        equivalent_check(&self.schedule.container, probe)
    }

    fn next_due(&self) -> Option<Instant> {
        match &self.attempt {
            Some((_, attempt)) => Some(attempt.exchange.due),
            None => self.schedule.attempt_due().into_iter().chain(self.schedule.listen_check_at).min(),
        }
    }

    /// Continues without blocking. Returns the result of an attempt that has ended.
    fn advance(&mut self, now: Instant, late: Duration, network: &mut Network) -> Option<bool> {
        if self.attempt.is_none() {
            self.search(now, late, network);
            if self.schedule.attempt_due().is_none_or(|due| due > now) {
                return None;
            }
            let probe = self.schedule.begin_attempt().clone();
            let deadline = now + Duration::from_secs(probe.timeout_seconds.into());
            match NetAttempt::start(&self.check(&probe)?, false, Some(network.pod_ip.to_string()), deadline) {
                Ok(attempt) => self.attempt = Some((now, attempt)),
                Err(why) => return Some(self.end_attempt(now, now, Err(why), network)),
            }
        }
        let (started, attempt) = self.attempt.as_mut()?;
        let (started, outcome) = (*started, attempt.advance(now)?);
        Some(self.end_attempt(started, now, outcome, network))
    }

    /// Looks for a socket on the probe's port, if that is due.
    fn search(&mut self, now: Instant, late: Duration, network: &mut Network) {
        if self.schedule.listen_check_at.is_none_or(|at| at > now) {
            return;
        }
        let addresses = self.schedule.addresses(network.pod_ip);
        match network.has_listener(&addresses) {
            Some(true) => {
                if self.found.is_none() {
                    self.schedule.restart(now);
                    self.found = Some(addresses);
                }
                self.schedule.on_listening();
            }
            Some(false) => self.schedule.on_not_listening(now, late),
            None => self.schedule.listen_check_at = None,
        }
    }

    fn end_attempt(&mut self, started: Instant, now: Instant, outcome: Result<(), String>, net: &mut Network) -> bool {
        self.attempt = None;
        let success = outcome.is_ok();
        self.result = outcome.err().unwrap_or_else(|| "must pass again".to_owned());
        if success && self.found.is_none() {
            // The connection was redirected, or the kernel has not answered: the container may have started just now.
            self.found = Some(Vec::new());
            if self.schedule.progress.next_probe().initial_delay_seconds > 0 {
                self.schedule.restart(now);
                self.schedule.listen_check_at = None;
                return success;
            }
        }
        self.schedule.end_attempt(started, now, Some(success));
        let known = self.found.as_deref().filter(|addresses| !success && !addresses.is_empty());
        if known.is_some_and(|addresses| net.has_listener(addresses) == Some(false)) {
            // The program has ended.
            self.found = None;
            self.schedule.restart(now);
        }
        success
    }
}
