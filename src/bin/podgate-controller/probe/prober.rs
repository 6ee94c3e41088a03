//! Runs the probes of all containers when they are due, or as soon as a socket listens on the port.

use super::Outcome;
use super::attempt::attempt;
use crate::clock::now;
use crate::model::rate_limit::TokenBucket;
use crate::probe::precise_timer::PreciseTimer;
use crate::probe::sock_diag::SockDiag;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, poll_fn};
use podgate::core::container::Container;
use podgate::core::probe::{ProbeProgress, ProbeVerdict, interval};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::task::Poll;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Returns the time until the next check for a listening socket: 0.1 % of the time since the start of probing, but at
/// least 1 ms. If the sidecar woke up over 0.2 ms late, the node is busy. The time is then at least 30 times the delay
/// beyond 0.2 ms. It is never longer than 100 ms.
pub(super) fn listen_check_interval(elapsed: Duration, late: Duration) -> Duration {
    let unusual = late.saturating_sub(Duration::from_micros(200));
    (elapsed / 1000).max(unusual * 30).clamp(Duration::from_millis(1), Duration::from_millis(100))
}

/// Longest interval between attempts while a gate waits for a confirmation.
const MAX_CONFIRM_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) enum ProbeEvent {
    Listening(String),
    /// An attempt has ended. The verdict on the container includes this attempt.
    AttemptEnded(Attempt, ProbeVerdict),
}

#[derive(Debug)]
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
    container: Container,
    progress: ProbeProgress,
    /// Start of probing, which can be in the future.
    since: Instant,
    run: u64,
    /// The running attempt. Dropping the lane drops the attempt too, so that a container has at most one attempt.
    attempt: Option<LocalBoxFuture<'static, Attempt>>,
    /// Time of the next check for a listening socket; `None` if no further check is needed, the check has failed, or
    /// the lane has no address to check.
    listen_check_at: Option<Instant>,
    /// True if a socket has begun to listen, so that the next attempt is due at once.
    is_expedited: bool,
    /// Schedule for the attempts while a gate waits for one more success; otherwise `None`.
    confirmation: Option<Confirmation>,
}

/// Schedule of attempts at growing intervals, until an attempt succeeds.
#[derive(Debug, Clone, Copy)]
struct Confirmation {
    since: Instant,
    due: Instant,
}

impl ProbeLane {
    /// Returns the addresses in the Pod to which the next attempt may connect. The list is empty if the port is unknown
    /// or the host may be outside the Pod.
    fn addresses(&self, pod_ip: IpAddr) -> Vec<SocketAddr> {
        let probe = self.progress.probe();
        let Some(port) = self.container.probe_port(probe) else { return Vec::new() };
        let ips = match probe.handler.host() {
            None => vec![pod_ip],
            Some("localhost") => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Some(host) => host.parse().into_iter().filter(|ip: &IpAddr| ip.is_loopback() || *ip == pod_ip).collect(),
        };
        ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
    }

    fn due(&self) -> Option<Instant> {
        if self.attempt.is_some() || self.progress.is_finished() && self.confirmation.is_none() {
            return None;
        }
        let is_listening = self.listen_check_at.is_none();
        let wait =
            if self.is_expedited { self.progress.earliest_attempt() } else { self.progress.next_due(is_listening) };
        let regular = self.since + wait;
        Some(self.confirmation.map_or(regular, |confirming| confirming.due.max(self.since).min(regular)))
    }

    fn start_attempt(&mut self, pod_ip: IpAddr) {
        self.is_expedited = false;
        let (container, probe, started_at) = (self.container.clone(), self.progress.probe().clone(), now());
        let attempt = async move {
            // Catch a panic, so that a panic fails only this attempt.
            let outcome = AssertUnwindSafe(attempt(&container, &probe, pod_ip)).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| Outcome::failure("the attempt panicked".to_owned()));
            Attempt { container: container.name, outcome, started_at, duration: started_at.elapsed() }
        };
        self.attempt = Some(attempt.boxed_local());
    }

    /// Records the end of the attempt. Returns the new verdict on the container.
    fn on_attempt_end(&mut self, attempt: &Attempt, min_interval: Duration) -> ProbeVerdict {
        let Attempt { container, outcome, started_at, .. } = attempt;
        self.attempt = None;
        if let Some(confirming) = &mut self.confirmation
            && confirming.since <= *started_at
        {
            let here = now();
            let elapsed = here.saturating_duration_since(confirming.since);
            confirming.due = here + interval(elapsed, MAX_CONFIRM_INTERVAL, min_interval);
            if outcome.success {
                self.confirmation = None;
            }
        }
        let elapsed = |at: Instant| at.saturating_duration_since(self.since);
        let (before, result) = (self.progress.verdict(), (!outcome.is_discarded).then_some(outcome.success));
        self.progress.record(elapsed(*started_at), elapsed(now()), result);
        if self.progress.verdict() == ProbeVerdict::StartupFailed && before != ProbeVerdict::StartupFailed {
            let failures = self.progress.probe().failure_threshold;
            warn!(%container, failures, last = %outcome.detail, "the startupProbe has failed too often");
        }
        // If no check has found a socket, the connection was redirected, so further checks would find nothing.
        if self.progress.verdict().has_started() {
            self.listen_check_at = None;
        }
        if let Some(warning) = &outcome.warning {
            warn!(%container, %warning, "probe succeeded with a warning");
        }
        debug!(%container, success = outcome.success, discarded = outcome.is_discarded, detail = %outcome.detail, "probed");
        self.progress.verdict()
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

    /// Starts probing a container. `run` differs between incarnations. `has_passed` means that the container has
    /// already passed its probes in this incarnation. Does nothing if the container has no probe or is already being
    /// probed. Drops the attempt of an earlier incarnation. A container that restarts too often is probed later.
    pub(crate) fn start(&mut self, container: &Container, run: u64, has_passed: bool) {
        if self.lanes.get(&container.name).is_some_and(|lane| lane.run == run) {
            return;
        }
        self.stop(&container.name);
        let (startup, readiness) = (container.startup_probe.as_ref(), container.readiness_probe.as_ref());
        let Some(progress) = ProbeProgress::new(startup, readiness, self.min_interval) else { return };
        let progress = if has_passed { progress.resumed() } else { progress };
        let here = now();
        let start = self.starts.entry(container.name.clone()).or_insert_with(|| ProbeStart {
            run,
            earliest: here,
            limit: TokenBucket::default(),
        });
        if start.run != run {
            start.run = run;
            // If the earlier incarnation was never probed, use its planned start time for the new incarnation.
            if start.earliest <= here {
                start.earliest = start.limit.reserve(here);
            }
        }
        let since = start.earliest.max(here);
        let lane = ProbeLane {
            container: container.clone(),
            listen_check_at: Some(since),
            progress,
            since,
            run,
            attempt: None,
            is_expedited: false,
            confirmation: None,
        };
        self.lanes.insert(container.name.clone(), lane);
    }

    /// Probes a container now, and again until an attempt succeeds. Does nothing if the container is not being probed.
    pub(crate) fn confirm(&mut self, container: &str) {
        let here = now();
        if let Some(lane) = self.lanes.get_mut(container) {
            lane.confirmation.get_or_insert(Confirmation { since: here, due: here });
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

    pub(crate) fn clear(&mut self) {
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
                event = attempt_end(&mut self.lanes, self.min_interval) => return event,
                () = self.timer.sleep_until(due), if next.is_some() => late = now().saturating_duration_since(due),
            }
        }
    }

    /// Returns the time of the next attempt or of the next check for a listening socket.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lanes.values().filter_map(|lane| lane.due().into_iter().chain(lane.listen_check_at).min()).min()
    }

    /// Looks for listening sockets on the ports whose check is due. `late` is the delay of the last wake-up.
    fn check_ports(&mut self, here: Instant, late: Duration) -> Option<ProbeEvent> {
        for (name, lane) in &mut self.lanes {
            if lane.listen_check_at.is_none_or(|at| at > here) {
                continue;
            }
            lane.listen_check_at = None;
            let addresses = lane.addresses(self.pod_ip);
            let mut answers = addresses.iter().map(|address| self.sock_diag.has_listener(*address));
            match answers.find(|answer| !matches!(answer, Ok(false))) {
                Some(Ok(_)) => {
                    lane.is_expedited = true;
                    return Some(ProbeEvent::Listening(name.clone()));
                }
                // Without checks, attempts are more frequent.
                Some(Err(error)) => debug!(%error, "cannot ask the kernel for listening sockets"),
                None if addresses.is_empty() => {}
                None => {
                    let elapsed = here.saturating_duration_since(lane.since);
                    lane.listen_check_at = Some(here + listen_check_interval(elapsed, late));
                }
            }
        }
        None
    }
}

/// Waits for the end of an attempt. Waits forever while no attempt runs. Cancel-safe.
async fn attempt_end(lanes: &mut BTreeMap<String, ProbeLane>, min_interval: Duration) -> ProbeEvent {
    poll_fn(|context| {
        for lane in lanes.values_mut() {
            if let Some(Poll::Ready(ended)) = lane.attempt.as_mut().map(|attempt| attempt.poll_unpin(context)) {
                let verdict = lane.on_attempt_end(&ended, min_interval);
                return Poll::Ready(ProbeEvent::AttemptEnded(ended, verdict));
            }
        }
        Poll::Pending
    })
    .await
}
