//! Schedule of the probes of one container: attempts at the times of [`ProbeProgress`], at once when a socket begins to
//! listen on the probe's port, and until one passes while a gate waits for a confirmation.
//!
//! The sidecar has a schedule for each container. A gate without a sidecar has one for each predecessor.

use crate::core::container::{Container, Probe};
use crate::core::probe::{ProbeProgress, ProbeVerdict, interval};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Longest interval between attempts while a gate waits for a confirmation.
const MAX_CONFIRM_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the time until the next check for a listening socket: 0.1 % of the time since the start of probing, but at
/// least 1 ms. If the process wakes up over 0.2 ms late, the node is busy, so the time is at least 30 times the delay
/// beyond 0.2 ms. Because a single wake-up can be late, or on time, by chance, this second part is at least half of
/// `last`, the previous result, and at most the longer of `late` and twice `last`. The result is at most 100 ms.
fn listen_check_interval(elapsed: Duration, late: Duration, last: Duration) -> Duration {
    let busy = late.saturating_sub(Duration::from_micros(200)) * 30;
    let idle = (elapsed / 1000).max(Duration::from_millis(1));
    busy.clamp(last / 2, late.max(last * 2)).max(idle).min(Duration::from_millis(100))
}

/// Schedule of the probes of one container.
pub struct ProbeSchedule {
    /// The container, with the probes to run.
    pub container: Container,
    /// Results of the attempts so far.
    pub progress: ProbeProgress,
    /// Start of probing, which can be in the future.
    pub since: Instant,
    /// Time of the next check for a listening socket; `None` if no further check is needed, the check has failed, or
    /// the schedule has no address to check.
    pub listen_check_at: Option<Instant>,
    /// Planned time from the last check for a listening socket to the next; zero before the first check.
    listen_interval: Duration,
    min_interval: Duration,
    /// True if a socket has begun to listen, so that the next attempt is due at once.
    is_expedited: bool,
    /// While a gate waits for one more success: the start of that wait, and the time of the next attempt.
    confirmation: Option<(Instant, Instant)>,
}

impl ProbeSchedule {
    /// Creates a schedule for the network probes of `container`; `None` if the container has no such probe.
    /// `passes_all` means that the container already passes all its probes in this incarnation.
    pub fn new(container: Container, since: Instant, min_interval: Duration, passes_all: bool) -> Option<Self> {
        let (startup, readiness) = (container.startup_probe.as_ref(), container.readiness_probe.as_ref());
        let progress = ProbeProgress::for_network(startup, readiness, min_interval)?;
        let progress = if passes_all { progress.assume_passed() } else { progress };
        Some(ProbeSchedule {
            container,
            progress,
            since,
            listen_check_at: Some(since),
            listen_interval: Duration::ZERO,
            min_interval,
            is_expedited: false,
            confirmation: None,
        })
    }

    /// Starts again for another incarnation of the container, whose probing starts at `since`.
    pub fn restart(&mut self, since: Instant) {
        if let Some(new) = ProbeSchedule::new(self.container.clone(), since, self.min_interval, false) {
            *self = new;
        }
    }

    /// Returns the addresses in the Pod to which the next attempt may connect. The list is empty if the port is unknown
    /// or the host may be outside the Pod.
    pub fn addresses(&self, pod_ip: IpAddr) -> Vec<SocketAddr> {
        let probe = self.progress.next_probe();
        let Some(port) = self.container.probe_port(probe) else { return Vec::new() };
        let ips = match probe.handler.host() {
            None => vec![pod_ip],
            Some("localhost") => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Some(host) => host.parse().into_iter().filter(|ip: &IpAddr| ip.is_loopback() || *ip == pod_ip).collect(),
        };
        ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// Returns the time of the next attempt; `None` if no attempt is needed. The caller runs one attempt at a time.
    pub fn attempt_due(&self) -> Option<Instant> {
        if self.progress.has_passed_for_good() && self.confirmation.is_none() {
            return None;
        }
        let is_listening = self.listen_check_at.is_none();
        let wait =
            if self.is_expedited { self.progress.initial_delay_end() } else { self.progress.next_due(is_listening) };
        let regular = self.since + wait;
        Some(self.confirmation.map_or(regular, |(_, due)| due.max(self.since).min(regular)))
    }

    /// Plans an attempt now, and again until an attempt succeeds.
    pub fn plan_confirmation(&mut self, now: Instant) {
        self.confirmation.get_or_insert((now, now));
    }

    /// Returns true if no attempt has succeeded since [`plan_confirmation`](ProbeSchedule::plan_confirmation).
    pub fn is_confirming(&self) -> bool {
        self.confirmation.is_some()
    }

    /// Plans an attempt at once, because a socket has begun to listen.
    pub fn on_listening(&mut self) {
        (self.listen_check_at, self.is_expedited) = (None, true);
    }

    /// Plans the next check for a listening socket, after a check at `now` has found none. `late` is the delay of the
    /// caller's last wake-up.
    pub fn on_not_listening(&mut self, now: Instant, late: Duration) {
        let elapsed = now.saturating_duration_since(self.since);
        self.listen_interval = listen_check_interval(elapsed, late, self.listen_interval);
        self.listen_check_at = Some(now + self.listen_interval);
    }

    /// Returns the probe to attempt now.
    pub fn begin_attempt(&mut self) -> &Probe {
        self.is_expedited = false;
        self.progress.next_probe()
    }

    /// Records an attempt from `started` to `now`. `success` is `None` if the kubelet would discard the result. Returns
    /// the new verdict on the container.
    pub fn end_attempt(&mut self, started: Instant, now: Instant, success: Option<bool>) -> ProbeVerdict {
        if let Some((since, due)) = &mut self.confirmation
            && *since <= started
        {
            let elapsed = now.saturating_duration_since(*since);
            *due = now + interval(elapsed, MAX_CONFIRM_INTERVAL, self.min_interval);
            if success == Some(true) {
                self.confirmation = None;
            }
        }
        let elapsed = |at: Instant| at.saturating_duration_since(self.since);
        self.progress.record(elapsed(started), elapsed(now), success);
        // If no check has found a socket, the connection was redirected, so further checks would find nothing.
        if self.progress.verdict().proves_start() {
            self.listen_check_at = None;
        }
        self.progress.verdict()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_for_a_listening_socket_become_rare() {
        let ms = Duration::from_millis;
        let at = |elapsed, late_us, last| listen_check_interval(elapsed, Duration::from_micros(late_us), last);
        let (zero, hour) = (Duration::ZERO, Duration::from_hours(1));
        assert_eq!([zero, ms(500), ms(5_000), hour].map(|elapsed| at(elapsed, 90, zero)), [1, 1, 5, 100].map(ms));
        let busy = [zero, ms(1), ms(2), ms(10), ms(60), ms(90)].map(|last| at(zero, 3_000, last));
        assert_eq!(busy, [3, 3, 4, 20, 84, 84].map(ms));
        assert_eq!([at(zero, 50_000, zero), at(zero, 3_000_000, zero)], [50, 100].map(ms), "long delays");
        assert_eq!([at(zero, 90, ms(90)), at(zero, 90, ms(2))], [45, 1].map(ms));
    }
}
