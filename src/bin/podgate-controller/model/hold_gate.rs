//! Gate of one held container. The kubelet does not create the container while the gate is closed. No I/O.

use crate::model::pending_ack::PendingAck;
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
/// kubelet has read the file, but the runtime still creates the container.
const CREATION_TIME: Duration = Duration::from_secs(15);
/// Shortest pause between two release patches. A gate whose condition flaps must not flood the API server.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct HoldGate {
    pub(super) is_open: bool,
    /// Time of the last opening or closing, by the wall clock, to compare with the kubelet's times.
    changed_at: SystemTime,
    pub(super) opened_at: Instant,
    /// Time since which the container does not run, or the time at which the gate was closed.
    pub(super) waiting_since: Instant,
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
            has_timed_out: false,
            is_skipped: false,
            was_open: false,
            has_passed: false,
            confirmation: None,
            last_request_at: None,
            retry_at: None,
        }
    }

    /// Records that the gate file was written or removed.
    pub(crate) fn set_open(&mut self, is_open: bool, now: Instant, wall_clock: SystemTime) {
        *self = HoldGate {
            is_open,
            has_timed_out: self.has_timed_out && !is_open,
            is_skipped: self.is_skipped,
            was_open: true,
            has_passed: self.has_passed,
            last_request_at: self.last_request_at,
            ..HoldGate::new(now, wall_clock)
        };
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
        if last < self.opened_at {
            return Some(self.opened_at.max(last + MIN_INTERVAL));
        }
        let after = ended_at.map_or(last, |ended_at| ended_at.max(last));
        let bases = [Some(self.opened_at), ended_at].into_iter().flatten();
        let planned = bases.flat_map(|base| REQUEST_TIMES.map(|pause| base + pause)).filter(|at| *at > after).min();
        Some(planned.unwrap_or(last + LATER_INTERVAL))
    }

    pub(super) fn note_request(&mut self, now: Instant) {
        self.last_request_at = Some(now);
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
        assert_eq!([(); 5].map(|()| next(None)), [0.0, 1.2, 3.0, 10.1, 20.1]);
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

    #[test]
    fn flapping_gate_makes_at_most_one_request_a_second() {
        let start = now();
        let mut gate = HoldGate::new(start, SystemTime::UNIX_EPOCH);
        gate.set_open(true, start, SystemTime::UNIX_EPOCH);
        gate.note_request(start);
        let later = start + Duration::from_millis(100);
        gate.set_open(false, later, SystemTime::UNIX_EPOCH);
        gate.set_open(true, later, SystemTime::UNIX_EPOCH);
        assert_eq!(gate.next_request(None), Some(start + MIN_INTERVAL));
    }
}
