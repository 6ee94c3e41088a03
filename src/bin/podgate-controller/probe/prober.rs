//! Runs the probes of all containers when they are due, or as soon as a socket listens on the port.

use super::{Outcome, attempt};
use crate::clock::now;
use crate::precise_timer::PreciseTimer;
use crate::rate_limit::TokenBucket;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, poll_fn};
use podgate::core::container::Container;
use podgate::core::probe::ProbeVerdict;
use podgate::edge::probe_schedule::ProbeSchedule;
use podgate::edge::sock_diag::SockDiag;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::task::Poll;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

pub(crate) enum ProbeEvent {
    Listening(String),
    /// An attempt has ended. The verdict on the container includes this attempt.
    AttemptEnded(Attempt, ProbeVerdict),
}

pub(crate) struct Attempt {
    pub(crate) container: String,
    pub(crate) outcome: Outcome,
    pub(crate) started_at: Instant,
    pub(crate) duration: Duration,
}

pub(crate) struct Prober {
    pod_ip: IpAddr,
    min_interval: Duration,
    lanes: BTreeMap<String, ProbeLane>,
    starts: BTreeMap<String, ProbeStart>,
    sock_diag: SockDiag,
    timer: PreciseTimer,
}

/// Start of the probing of a container's current incarnation, with a rate limit. The limit is needed because a
/// container can report any number of incarnations.
struct ProbeStart {
    run: u64,
    earliest: Instant,
    limit: TokenBucket,
}

struct ProbeLane {
    schedule: ProbeSchedule,
    run: u64,
    /// The running attempt. Dropping the lane drops the attempt too, so that a container has at most one attempt.
    attempt: Option<LocalBoxFuture<'static, Attempt>>,
}

impl ProbeLane {
    fn due(&self) -> Option<Instant> {
        self.schedule.attempt_due().filter(|_| self.attempt.is_none())
    }

    fn start_attempt(&mut self, pod_ip: IpAddr) {
        let (container, probe) = (self.schedule.container.clone(), self.schedule.begin_attempt().clone());
        let started_at = now();
        let attempt = async move {
            // Catch a panic, so that a panic fails only this attempt.
            let outcome = AssertUnwindSafe(attempt(&container, &probe, pod_ip)).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| Outcome::failure("the attempt panicked".to_owned()));
            Attempt { container: container.name, outcome, started_at, duration: now() - started_at }
        };
        self.attempt = Some(attempt.boxed_local());
    }

    /// Records the end of the attempt. Returns the new verdict on the container.
    fn on_attempt_end(&mut self, attempt: &Attempt) -> ProbeVerdict {
        let Attempt { container, outcome, started_at, .. } = attempt;
        self.attempt = None;
        let before = self.schedule.progress.verdict();
        let success = (!outcome.is_discarded).then_some(outcome.success);
        let verdict = self.schedule.end_attempt(*started_at, now(), success);
        if verdict == ProbeVerdict::StartupFailed && before != ProbeVerdict::StartupFailed {
            let failures = self.schedule.progress.next_probe().failure_threshold;
            warn!(%container, failures, last = %outcome.detail, "the startupProbe has failed too often");
        }
        if let Some(warning) = &outcome.warning {
            warn!(%container, %warning, "probe succeeded with a warning");
        }
        debug!(%container, success = outcome.success, discarded = outcome.is_discarded, detail = %outcome.detail, "probed");
        verdict
    }
}

impl Prober {
    pub(crate) fn new(pod_ip: IpAddr, min_interval: Duration) -> Prober {
        Prober {
            pod_ip,
            min_interval,
            lanes: BTreeMap::new(),
            starts: BTreeMap::new(),
            sock_diag: SockDiag::default(),
            timer: PreciseTimer::default(),
        }
    }

    /// Starts probing a container. `run` differs between incarnations. `passes_all` means that the container already
    /// passes all its probes. Does nothing if the container has no probe or is already being probed. Drops the attempt
    /// of an earlier incarnation. A container that restarts too often is probed later.
    pub(crate) fn start(&mut self, container: &Container, run: u64, passes_all: bool) {
        if self.lanes.get(&container.name).is_some_and(|lane| lane.run == run) {
            return;
        }
        self.stop(&container.name);
        let here = now();
        let first = || ProbeStart { run, earliest: here, limit: TokenBucket::default() };
        let start = self.starts.entry(container.name.clone()).or_insert_with(first);
        if start.run != run {
            start.run = run;
            // If the earlier incarnation was never probed, use its planned start time for the new incarnation.
            if start.earliest <= here {
                start.earliest = start.limit.reserve(here);
            }
        }
        let schedule = ProbeSchedule::new(container.clone(), start.earliest.max(here), self.min_interval, passes_all);
        let lane = schedule.map(|schedule| ProbeLane { schedule, run, attempt: None });
        self.lanes.extend(lane.map(|lane| (container.name.clone(), lane)));
    }

    /// Probes a container now, and again until an attempt succeeds. Does nothing if the container is not being probed.
    pub(crate) fn confirm(&mut self, container: &str) {
        if let Some(lane) = self.lanes.get_mut(container) {
            lane.schedule.plan_confirmation(now());
        }
    }

    /// Returns true if a socket listens on a port of the container's probes, on the Pod's IP or on loopback. Returns
    /// false if the request to the kernel fails.
    pub(crate) fn is_listening(&mut self, container: &Container) -> bool {
        let ports: Vec<u16> = container.probes().filter_map(|probe| container.probe_port(probe)).collect();
        let ips = [self.pod_ip, Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let mut addresses = ports.into_iter().flat_map(|port| ips.map(|ip| SocketAddr::new(ip, port)));
        addresses.any(|address| self.sock_diag.has_listener(address).unwrap_or(false))
    }

    pub(crate) fn stop(&mut self, container: &str) {
        if self.lanes.remove(container).is_some_and(|lane| lane.attempt.is_some()) {
            debug!(%container, "dropped a probe attempt, because the incarnation has ended");
        }
    }

    pub(crate) fn stop_all(&mut self) {
        self.lanes.clear();
    }

    /// Waits for the next event. Waits forever while no container is probed. Cancel-safe.
    pub(crate) async fn next_event(&mut self) -> ProbeEvent {
        let mut late = Duration::ZERO;
        loop {
            let here = now();
            if let Some(event) = self.check_ports(here, late) {
                return event;
            }
            for lane in self.lanes.values_mut().filter(|lane| lane.due().is_some_and(|due| due <= here)) {
                lane.start_attempt(self.pod_ip);
            }
            let next = self.next_due();
            // Measure the lateness from now on, so that it does not include the sidecar's own work.
            let due = next.unwrap_or(here).max(now());
            tokio::select! {
                event = attempt_end(&mut self.lanes) => return event,
                () = self.timer.sleep_until(due), if next.is_some() => late = now().saturating_duration_since(due),
            }
        }
    }

    /// Returns the time of the next attempt or of the next check for a listening socket.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lanes.values().filter_map(|lane| lane.due().into_iter().chain(lane.schedule.listen_check_at).min()).min()
    }

    /// Looks for listening sockets on the ports whose check is due. `late` is the delay of the last wake-up.
    fn check_ports(&mut self, here: Instant, late: Duration) -> Option<ProbeEvent> {
        for (name, ProbeLane { schedule, .. }) in &mut self.lanes {
            if schedule.listen_check_at.is_none_or(|at| at > here) {
                continue;
            }
            schedule.listen_check_at = None;
            let addresses = schedule.addresses(self.pod_ip);
            let mut answers = addresses.iter().map(|address| self.sock_diag.has_listener(*address));
            match answers.find(|answer| !matches!(answer, Ok(false))) {
                Some(Ok(_)) => {
                    schedule.on_listening();
                    return Some(ProbeEvent::Listening(name.clone()));
                }
                // Without checks, attempts are more frequent.
                Some(Err(error)) => debug!(%error, "cannot ask the kernel for listening sockets"),
                None if addresses.is_empty() => {}
                None => schedule.on_not_listening(here, late),
            }
        }
        None
    }
}

/// Waits for the end of an attempt. Waits forever while no attempt runs. Cancel-safe.
async fn attempt_end(lanes: &mut BTreeMap<String, ProbeLane>) -> ProbeEvent {
    poll_fn(|context| {
        for lane in lanes.values_mut() {
            if let Some(Poll::Ready(ended)) = lane.attempt.as_mut().map(|attempt| attempt.poll_unpin(context)) {
                let verdict = lane.on_attempt_end(&ended);
                return Poll::Ready(ProbeEvent::AttemptEnded(ended, verdict));
            }
        }
        Poll::Pending
    })
    .await
}
