//! Drives the probes of all containers: when each is due, and sooner when something begins to listen.

use super::Outcome;
use super::attempt::attempt;
use crate::clock::now;
use crate::probe::alarm::Alarm;
use crate::probe::listening::Listening;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use podgate::core::container::Container;
use podgate::core::probe::{Course, Word, interval};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// How often the kernel is asked whether something listens, at first.
const LISTEN_EVERY: Duration = Duration::from_millis(1);
/// For how long at that rate; later at 1 % of the time since the start.
const LISTEN_CLOSELY: Duration = Duration::from_secs(60);

/// How far apart attempts may be while a gate wants to know whether a container still passes.
const LONGEST_CONFIRMING: Duration = Duration::from_secs(1);

/// What probing has found.
#[derive(Debug)]
pub(crate) enum Found {
    /// Something listens on the container's port.
    Listens(String),
    /// An attempt has ended.
    Attempt {
        container: String,
        /// Where its probing stands now.
        word: Word,
        outcome: Outcome,
        began: Instant,
        took: Duration,
    },
}

pub(crate) struct Probing {
    ip: IpAddr,
    floor: Duration,
    lanes: BTreeMap<String, Lane>,
    attempts: FuturesUnordered<LocalBoxFuture<'static, Ended>>,
    listening: Listening,
    alarm: Alarm,
    /// Counts the starts of lanes, so that an attempt of an earlier incarnation is told from one of this.
    starts: u64,
}

struct Lane {
    container: Container,
    course: Course,
    since: Instant,
    start: u64,
    busy: bool,
    port: Option<u16>,
    /// When to ask the kernel next; `None` once something listens, or when it can't be asked.
    ask_at: Option<Instant>,
    /// Something has begun to listen: the next attempt is due at once.
    hastened: bool,
    /// A gate wants to know whether it still passes.
    confirming: Option<Confirming>,
}

/// Asked until it passes, at growing intervals.
#[derive(Debug, Clone, Copy)]
struct Confirming {
    since: Instant,
    due: Instant,
}

struct Ended {
    container: String,
    start: u64,
    outcome: Outcome,
    began: Instant,
    took: Duration,
}

impl Lane {
    fn due(&self) -> Option<Instant> {
        if self.busy || self.course.is_over() && self.confirming.is_none() {
            return None;
        }
        let wait = if self.hastened { self.course.earliest() } else { self.course.due() };
        let regular = self.since + wait;
        Some(self.confirming.map_or(regular, |confirming| confirming.due.min(regular)))
    }
}

impl Probing {
    pub(crate) fn new(ip: IpAddr, floor: Duration) -> Probing {
        Probing {
            ip,
            floor,
            lanes: BTreeMap::new(),
            attempts: FuturesUnordered::new(),
            listening: Listening::new(),
            alarm: Alarm::new(),
            starts: 0,
        }
    }

    /// Begins to probe a container that has started just now, or `has_passed` before in this incarnation. Does nothing if it is
    /// probed already or has nothing to probe.
    pub(crate) fn start(&mut self, container: &Container, has_passed: bool) {
        if self.lanes.contains_key(&container.name) {
            return;
        }
        let (startup, readiness) = (container.startup_probe.as_ref(), container.readiness_probe.as_ref());
        let Some(course) = Course::new(startup, readiness, self.floor) else { return };
        let course = if has_passed { course.resumed() } else { course };
        self.starts += 1;
        let since = now();
        let port = container.probe_port(course.probe());
        let lane = Lane {
            container: container.clone(),
            course,
            since,
            start: self.starts,
            busy: false,
            port,
            ask_at: port.map(|_| since),
            hastened: false,
            confirming: None,
        };
        self.lanes.insert(container.name.clone(), lane);
    }

    /// Asks once more, now, whether a container passes, and again until it does; it is probed already.
    pub(crate) fn confirm(&mut self, container: &str) {
        let here = now();
        if let Some(lane) = self.lanes.get_mut(container) {
            lane.confirming.get_or_insert(Confirming { since: here, due: here });
        }
    }

    /// Whether something listens now where the container's probe would ask, or at least on this port for the pod's own
    /// containers; no, if the kernel can't be asked.
    pub(crate) fn listens(&mut self, container: &Container) -> bool {
        let ports: Vec<u16> = container.probes().filter_map(|probe| container.probe_port(probe)).collect();
        let ips = [self.ip, Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let mut addresses = ports.into_iter().flat_map(|port| ips.map(|ip| SocketAddr::new(ip, port)));
        addresses.any(|address| self.listening.ask(address).unwrap_or(false))
    }

    pub(crate) fn stop(&mut self, container: &str) {
        self.lanes.remove(container);
    }

    pub(crate) fn clear(&mut self) {
        self.lanes.clear();
        self.attempts = FuturesUnordered::new();
    }

    /// The next finding; never returns while nothing is probed. Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Found {
        loop {
            let here = now();
            if let Some(found) = self.listen(here) {
                return found;
            }
            self.launch(here);
            let next = self.lanes.values().filter_map(|lane| lane.due().into_iter().chain(lane.ask_at).min()).min();
            tokio::select! {
                Some(ended) = self.attempts.next() => {
                    if let Some(found) = self.settle(ended) {
                        return found;
                    }
                }
                () = self.alarm.until(next.unwrap_or(here)), if next.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Asks the kernel for those ports whose turn it is.
    fn listen(&mut self, here: Instant) -> Option<Found> {
        for (name, lane) in &mut self.lanes {
            let (Some(port), Some(at)) = (lane.port, lane.ask_at) else { continue };
            if at > here {
                continue;
            }
            match self.listening.ask((self.ip, port).into()) {
                Ok(true) => {
                    lane.ask_at = None;
                    lane.hastened = true;
                    return Some(Found::Listens(name.clone()));
                }
                Ok(false) => {
                    let elapsed = here.saturating_duration_since(lane.since);
                    lane.ask_at = Some(here + if elapsed < LISTEN_CLOSELY { LISTEN_EVERY } else { elapsed / 100 });
                }
                Err(error) => {
                    // It only hastens: without it the intervals do.
                    debug!(%error, "can't ask who listens");
                    lane.ask_at = None;
                }
            }
        }
        None
    }

    fn launch(&mut self, here: Instant) {
        for (name, lane) in &mut self.lanes {
            if lane.due().is_none_or(|due| due > here) {
                continue;
            }
            (lane.busy, lane.hastened) = (true, false);
            let (name, start, ip) = (name.clone(), lane.start, self.ip);
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
                    Ended { container: name, start, outcome, began: here, took: here.elapsed() }
                }
                .boxed_local(),
            );
        }
    }

    fn settle(&mut self, ended: Ended) -> Option<Found> {
        let Ended { container, start, outcome, began, took } = ended;
        let lane = self.lanes.get_mut(&container).filter(|lane| lane.start == start)?;
        lane.busy = false;
        if let Some(confirming) = &mut lane.confirming
            && confirming.since <= began
        {
            let here = now();
            let elapsed = here.saturating_duration_since(confirming.since);
            confirming.due = here + interval(elapsed, LONGEST_CONFIRMING, self.floor);
            if outcome.success {
                lane.confirming = None;
            }
        }
        let before = lane.course.probe().clone();
        lane.course.record(now().saturating_duration_since(lane.since), outcome.success);
        if *lane.course.probe() != before {
            // The next stage may ask another port.
            lane.port = lane.container.probe_port(lane.course.probe());
        }
        if lane.course.word() == Word::Passed {
            lane.ask_at = None;
        }
        if let Some(warning) = &outcome.warning {
            warn!(%container, %warning, "the probe succeeds doubtfully");
        }
        debug!(%container, success = outcome.success, detail = %outcome.detail, "probed");
        Some(Found::Attempt { word: lane.course.word(), container, outcome, began, took })
    }
}
