//! Gate of one held container. The kubelet does not create the container while the gate is closed. No I/O.

use crate::model::pending_ack::PendingAck;
use crate::model::rate_limit::TokenBucket;
use std::time::{Duration, Instant, SystemTime};

/// Times of the release patches after the first one, from the opening of the gate or from the container's last end. The
/// kubelet syncs a new Pod at most once a second. The later times are just after each back-off of the kubelet.
const REQUEST_TIMES: [Duration; 8] = [
    Duration::from_millis(1200),
    Duration::from_secs(3),
    Duration::from_millis(10_100),
    Duration::from_millis(20_100),
    Duration::from_millis(40_100),
    Duration::from_millis(80_100),
    Duration::from_millis(160_100),
    Duration::from_millis(300_100),
];
/// Interval between later patches.
const LATER_INTERVAL: Duration = Duration::from_secs(300);
/// Pause before the next attempt to write or remove a gate file.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest expected time from the closing of a gate to the start of a container that has passed the open gate: the
/// kubelet has read the file, but the runtime still creates the container. A shorter opening does not stop the time
/// limit: the kubelet may not have had the time to create the container.
const CREATION_TIME: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(crate) struct HoldGate {
    pub(super) is_open: bool,
    /// Time of the last opening or closing, by the wall clock, to compare with the kubelet's times.
    changed_at: SystemTime,
    pub(super) opened_at: Instant,
    /// Time since which the container does not run, or the time of the last opening or closing.
    waiting_since: Instant,
    /// Earlier parts of this wait. Time with an open gate does not count, unless shorter than `CREATION_TIME`.
    waited: Duration,
    pub(super) has_timed_out: bool,
    /// True if the gate opens without its conditions, because the wait has timed out.
    pub(super) is_skipped: bool,
    /// True if the gate was open before.
    was_open: bool,
    /// True if the current incarnation of the container started while the gate was open.
    pub(super) has_passed: bool,
    /// Checks that are still needed before the gate opens.
    pub(super) confirmation: Option<PendingAck>,
    last_request_at: Option<Instant>,
    /// Limits the release patches, because a condition that flaps must not flood the API server.
    requests: TokenBucket,
    /// Time of the next attempt to write or remove the gate file, after a failure.
    pub(super) retry_at: Option<Instant>,
}

impl HoldGate {
    /// Returns a closed gate.
    pub(crate) fn new(now: Instant, wall_clock: SystemTime) -> HoldGate {
        HoldGate {
            is_open: false,
            changed_at: wall_clock,
            opened_at: now,
            waiting_since: now,
            waited: Duration::ZERO,
            has_timed_out: false,
            is_skipped: false,
            was_open: false,
            has_passed: false,
            confirmation: None,
            last_request_at: None,
            requests: TokenBucket::default(),
            retry_at: None,
        }
    }

    /// Records that the gate file was written or removed.
    pub(crate) fn set_open(&mut self, is_open: bool, now: Instant, wall_clock: SystemTime) {
        if !self.is_open || now.saturating_duration_since(self.opened_at) < CREATION_TIME {
            self.waited += now.saturating_duration_since(self.waiting_since);
        }
        (self.is_open, self.was_open, self.changed_at) = (is_open, true, wall_clock);
        (self.opened_at, self.waiting_since) = (now, now);
        (self.confirmation, self.retry_at) = (None, None);
        self.has_timed_out &= !is_open;
    }

    /// Begins a new wait, because the container runs or has run.
    pub(super) fn restart_wait(&mut self, now: Instant) {
        (self.waiting_since, self.waited) = (now, Duration::ZERO);
        (self.has_timed_out, self.is_skipped) = (false, false);
    }

    /// Returns the time at which a wait with this time limit ends; `None` if no time limit is pending.
    pub(super) fn deadline(&self, limit: Duration) -> Option<Instant> {
        let is_pending = !self.is_open && !self.has_timed_out && !self.is_skipped;
        is_pending.then(|| self.waiting_since + limit.saturating_sub(self.waited))
    }

    /// Records that the gate file could not be written or removed.
    pub(crate) fn retry_later(&mut self, now: Instant) {
        self.retry_at = Some(now + RETRY_DELAY);
    }

    /// Returns the time of the next release patch; `None` while the gate is closed. `ended_at` is the time at which the
    /// container's last end was observed.
    pub(super) fn next_request(&self, ended_at: Option<Instant>) -> Option<Instant> {
        if !self.is_open {
            return None;
        }
        let Some(last) = self.last_request_at else { return Some(self.opened_at) };
        let next = if last < self.opened_at {
            self.opened_at
        } else {
            let after = ended_at.map_or(last, |ended_at| ended_at.max(last));
            let bases = [Some(self.opened_at), ended_at].into_iter().flatten();
            let planned = bases.flat_map(|base| REQUEST_TIMES.map(|pause| base + pause)).filter(|at| *at > after).min();
            planned.unwrap_or(last + LATER_INTERVAL)
        };
        Some(self.requests.ready_at().map_or(next, |at| at.max(next)))
    }

    pub(super) fn note_request(&mut self, now: Instant) {
        self.last_request_at = Some(now);
        self.requests.reserve(now);
    }

    /// Returns true if a container with this start time cannot have passed the gate while the gate was open. `resumed`
    /// means that an earlier run of the sidecar may have opened the gate.
    pub(super) fn is_violated_by(&self, started_at: SystemTime, resumed: bool) -> bool {
        let was_open = self.was_open || resumed;
        !self.is_open && (!was_open || started_at > self.changed_at + CREATION_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn requests_follow_the_back_off_of_the_kubelet() {
        let start = now() + Duration::from_secs(1000);
        let mut gate = HoldGate::new(start, SystemTime::UNIX_EPOCH);
        assert_eq!(gate.next_request(None), None);
        gate.set_open(true, start, SystemTime::UNIX_EPOCH);
        let mut next = |ended_at| {
            let at = gate.next_request(ended_at).unwrap();
            gate.note_request(at);
            at.duration_since(start).as_secs_f64()
        };
        let times = [0.0, 1.2, 3.0, 10.1, 20.1, 40.1, 80.1, 160.1, 300.1];
        assert_eq!([(); 9].map(|()| next(None)), times, "the rate limit delays none of them");
        let ended_at = Some(start + Duration::from_secs(600));
        assert_eq!([(); 4].map(|()| next(ended_at)), [601.2, 603.0, 610.1, 620.1]);
        // A back-off of 300 s that began 200 s before the opening.
        let mut late = HoldGate::new(start, SystemTime::UNIX_EPOCH);
        late.set_open(true, start, SystemTime::UNIX_EPOCH);
        late.note_request(start + Duration::from_secs(90));
        let ended_at = start - Duration::from_secs(200);
        assert_eq!(late.next_request(Some(ended_at)), Some(ended_at + Duration::from_millis(300_100)));
        gate.note_request(start + Duration::from_secs(1000));
        assert_eq!(gate.next_request(None), Some(start + Duration::from_secs(1300)));
    }

    #[test]
    fn only_a_start_long_after_the_closing_is_a_violation() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut gate = HoldGate::new(now(), at(100));
        for (started_at, resumed, is_violated) in
            [(90, true, false), (114, true, false), (116, true, true), (101, false, true)]
        {
            assert_eq!(gate.is_violated_by(at(started_at), resumed), is_violated, "{started_at}");
        }
        gate.set_open(true, now(), at(200));
        assert!(!gate.is_violated_by(at(300), false));
        gate.set_open(false, now(), at(400));
        assert!(!gate.is_violated_by(at(401), false));
    }
}
