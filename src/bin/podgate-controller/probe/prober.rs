//! Drives the probes of all containers: when each is due, and sooner when something begins to listen.

use super::Outcome;
use super::attempt::attempt;
use crate::clock::now;
use crate::probe::precise_timer::PreciseTimer;
use crate::probe::sock_diag::SockDiag;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use podgate::core::container::Container;
use podgate::core::probe::{ProbeProgress, ProbeVerdict, interval};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// How often the kernel is asked whether something listens, at first.
const LISTEN_CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// For how long at that rate; later at 1 % of the time since the start.
const FREQUENT_CHECKS_FOR: Duration = Duration::from_secs(60);

/// How far apart attempts may be while a gate wants to know whether a container still passes.
const MAX_CONFIRM_INTERVAL: Duration = Duration::from_secs(1);

/// What probing has found.
#[derive(Debug)]
pub(crate) enum ProbeEvent {
    /// Something listens on the container's port.
    Listening(String),
    /// An attempt has ended.
    AttemptEnded {
        container: String,
        /// Where its probing stands now.
        verdict: ProbeVerdict,
        outcome: Outcome,
        started_at: Instant,
        duration: Duration,
    },
}

pub(crate) struct Prober {
    pod_ip: IpAddr,
    min_interval: Duration,
    lanes: BTreeMap<String, ProbeLane>,
    attempts: FuturesUnordered<LocalBoxFuture<'static, FinishedAttempt>>,
    sock_diag: SockDiag,
    timer: PreciseTimer,
    /// Counts the starts of lanes, so that an attempt of an earlier incarnation is told from one of this.
    last_run: u64,
}

struct ProbeLane {
    container: Container,
    course: ProbeProgress,
    since: Instant,
    run: u64,
    is_attempting: bool,
    port: Option<u16>,
    /// When to ask the kernel next; `None` once something listens, or when it can't be asked.
    listen_check_at: Option<Instant>,
    /// Something has begun to listen: the next attempt is due at once.
    is_expedited: bool,
    /// A gate wants to know whether it still passes.
    confirmation: Option<Confirmation>,
}

/// Asked until it passes, at growing intervals.
#[derive(Debug, Clone, Copy)]
struct Confirmation {
    since: Instant,
    due: Instant,
}

struct FinishedAttempt {
    container: String,
    run: u64,
    outcome: Outcome,
    started_at: Instant,
    duration: Duration,
}

impl ProbeLane {
    fn due(&self) -> Option<Instant> {
        if self.is_attempting || self.course.is_finished() && self.confirmation.is_none() {
            return None;
        }
        let wait = if self.is_expedited { self.course.earliest_attempt() } else { self.course.next_due() };
        let regular = self.since + wait;
        Some(self.confirmation.map_or(regular, |confirming| confirming.due.min(regular)))
    }
}

impl Prober {
    pub(crate) fn new(ip: IpAddr, floor: Duration) -> Prober {
        Prober {
            pod_ip: ip,
            min_interval: floor,
            lanes: BTreeMap::new(),
            attempts: FuturesUnordered::new(),
            sock_diag: SockDiag::new(),
            timer: PreciseTimer::new(),
            last_run: 0,
        }
    }

    /// Begins to probe a container that has started just now, or `has_passed` before in this incarnation. Does nothing if it is
    /// probed already or has nothing to probe.
    pub(crate) fn start(&mut self, container: &Container, has_passed: bool) {
        if self.lanes.contains_key(&container.name) {
            return;
        }
        let (startup, readiness) = (container.startup_probe.as_ref(), container.readiness_probe.as_ref());
        let Some(course) = ProbeProgress::new(startup, readiness, self.min_interval) else { return };
        let course = if has_passed { course.resumed() } else { course };
        self.last_run += 1;
        let since = now();
        let port = container.probe_port(course.probe());
        let lane = ProbeLane {
            container: container.clone(),
            course,
            since,
            run: self.last_run,
            is_attempting: false,
            port,
            listen_check_at: port.map(|_| since),
            is_expedited: false,
            confirmation: None,
        };
        self.lanes.insert(container.name.clone(), lane);
    }

    /// Asks once more, now, whether a container passes, and again until it does; it is probed already.
    pub(crate) fn confirm(&mut self, container: &str) {
        let here = now();
        if let Some(lane) = self.lanes.get_mut(container) {
            lane.confirmation.get_or_insert(Confirmation { since: here, due: here });
        }
    }

    /// Whether something listens now where the container's probe would ask, or at least on this port for the pod's own
    /// containers; no, if the kernel can't be asked.
    pub(crate) fn is_listening(&mut self, container: &Container) -> bool {
        let ports: Vec<u16> = container.probes().filter_map(|probe| container.probe_port(probe)).collect();
        let ips = [self.pod_ip, Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let mut addresses = ports.into_iter().flat_map(|port| ips.map(|ip| SocketAddr::new(ip, port)));
        addresses.any(|address| self.sock_diag.has_listener(address).unwrap_or(false))
    }

    pub(crate) fn stop(&mut self, container: &str) {
        self.lanes.remove(container);
    }

    pub(crate) fn clear(&mut self) {
        self.lanes.clear();
        self.attempts = FuturesUnordered::new();
    }

    /// The next finding; never returns while nothing is probed. Safe to drop and call again.
    pub(crate) async fn next_event(&mut self) -> ProbeEvent {
        loop {
            let here = now();
            if let Some(found) = self.check_ports(here) {
                return found;
            }
            self.start_due_attempts(here);
            let next =
                self.lanes.values().filter_map(|lane| lane.due().into_iter().chain(lane.listen_check_at).min()).min();
            tokio::select! {
                Some(ended) = self.attempts.next() => {
                    if let Some(found) = self.on_attempt_end(ended) {
                        return found;
                    }
                }
                () = self.timer.sleep_until(next.unwrap_or(here)), if next.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Asks the kernel for those ports whose turn it is.
    fn check_ports(&mut self, here: Instant) -> Option<ProbeEvent> {
        for (name, lane) in &mut self.lanes {
            let (Some(port), Some(at)) = (lane.port, lane.listen_check_at) else { continue };
            if at > here {
                continue;
            }
            match self.sock_diag.has_listener((self.pod_ip, port).into()) {
                Ok(true) => {
                    lane.listen_check_at = None;
                    lane.is_expedited = true;
                    return Some(ProbeEvent::Listening(name.clone()));
                }
                Ok(false) => {
                    let elapsed = here.saturating_duration_since(lane.since);
                    lane.listen_check_at =
                        Some(here + if elapsed < FREQUENT_CHECKS_FOR { LISTEN_CHECK_INTERVAL } else { elapsed / 100 });
                }
                Err(error) => {
                    // It only hastens: without it the intervals do.
                    debug!(%error, "can't ask who listens");
                    lane.listen_check_at = None;
                }
            }
        }
        None
    }

    fn start_due_attempts(&mut self, here: Instant) {
        for (name, lane) in &mut self.lanes {
            if lane.due().is_none_or(|due| due > here) {
                continue;
            }
            (lane.is_attempting, lane.is_expedited) = (true, false);
            let (name, start, ip) = (name.clone(), lane.run, self.pod_ip);
            let (container, probe) = (lane.container.clone(), lane.course.probe().clone());
            self.attempts.push(
                async move {
                    // A fault in one attempt is that attempt's failure, and nobody else's.
                    let outcome = AssertUnwindSafe(attempt(&container, &probe, ip)).catch_unwind().await;
                    let outcome = outcome.unwrap_or_else(|_| Outcome {
                        success: false,
                        detail: "the attempt panicked".to_owned(),
                        warning: None,
                    });
                    FinishedAttempt { container: name, run: start, outcome, started_at: here, duration: here.elapsed() }
                }
                .boxed_local(),
            );
        }
    }

    fn on_attempt_end(&mut self, ended: FinishedAttempt) -> Option<ProbeEvent> {
        let FinishedAttempt { container, run: start, outcome, started_at: began, duration: took } = ended;
        let lane = self.lanes.get_mut(&container).filter(|lane| lane.run == start)?;
        lane.is_attempting = false;
        if let Some(confirming) = &mut lane.confirmation
            && confirming.since <= began
        {
            let here = now();
            let elapsed = here.saturating_duration_since(confirming.since);
            confirming.due = here + interval(elapsed, MAX_CONFIRM_INTERVAL, self.min_interval);
            if outcome.success {
                lane.confirmation = None;
            }
        }
        let before = lane.course.probe().clone();
        lane.course.record(now().saturating_duration_since(lane.since), outcome.success);
        if *lane.course.probe() != before {
            // The next stage may ask another port.
            lane.port = lane.container.probe_port(lane.course.probe());
        }
        if lane.course.verdict() == ProbeVerdict::Passed {
            lane.listen_check_at = None;
        }
        if let Some(warning) = &outcome.warning {
            warn!(%container, %warning, "the probe succeeds doubtfully");
        }
        debug!(%container, success = outcome.success, detail = %outcome.detail, "probed");
        Some(ProbeEvent::AttemptEnded {
            verdict: lane.course.verdict(),
            container,
            outcome,
            started_at: began,
            duration: took,
        })
    }
}
