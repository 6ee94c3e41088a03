//! Gate of one held container. The kubelet does not create the container while the gate is closed. No I/O.

use crate::model::rate_limit::TokenBucket;
use podgate::core::gate::{Decision, HoldFacts, OpenReason};
use std::time::{Duration, Instant, SystemTime};

/// Times at which the sidecar repeats the release patch, measured from the gate's opening or the container's last end.
/// The kubelet syncs a new Pod at most once a second. The later times are just after each back-off of the kubelet.
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
/// Interval between the release patches after the last of `REQUEST_TIMES`.
const LATER_INTERVAL: Duration = Duration::from_secs(300);
/// Pause before the next attempt to write or remove a gate file.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest expected time from the closing of a gate to the start of a container that passed the open gate. The kubelet
/// reads the gate file before the runtime creates the container. If a gate is open for less than this time, the kubelet
/// may not have created the container. The open time then counts toward the time limit of the wait.
const CREATION_TIME: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldState {
    /// The gate is closed.
    Waiting,
    /// The gate is closed, and the time limit has passed. The gate still opens when its conditions are met.
    TimedOut,
    /// The gate has been open since this time, because its conditions were met.
    Open(Instant),
    /// The gate has been open since this time, because the time limit has passed. Its conditions are not met. The gate
    /// stays open until the container runs.
    Skipped(Instant),
}

#[derive(Debug)]
pub(crate) struct HoldGate {
    state: HoldState,
    /// Start of the current part of the wait. `waited` contains the earlier parts.
    waiting_since: Instant,
    /// Length of the earlier parts of this wait. Does not include the time with an open gate, unless that time was
    /// shorter than `CREATION_TIME`.
    waited: Duration,
    /// Wall-clock time of the last closing, for comparison with the kubelet's times; `None` if the gate was never open.
    closed_at: Option<SystemTime>,
    last_request_at: Option<Instant>,
    /// Rate limit for the release patches, because a condition that flaps must not flood the API server.
    requests: TokenBucket,
    /// Time of the next attempt to write or remove the gate file, after a failure.
    pub(super) retry_at: Option<Instant>,
}

impl HoldGate {
    /// Returns a closed gate. `resumed` means that an earlier run of the sidecar may have opened the gate.
    pub(crate) fn new(now: Instant, wall_clock: SystemTime, resumed: bool) -> HoldGate {
        HoldGate {
            state: HoldState::Waiting,
            waiting_since: now,
            waited: Duration::ZERO,
            closed_at: resumed.then_some(wall_clock),
            last_request_at: None,
            requests: TokenBucket::default(),
            retry_at: None,
        }
    }

    /// Returns the time since which the gate is open; `None` while the gate is closed.
    pub(super) fn open_since(&self) -> Option<Instant> {
        if let HoldState::Open(since) | HoldState::Skipped(since) = self.state { Some(since) } else { None }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open_since().is_some()
    }

    pub(super) fn has_timed_out(&self) -> bool {
        self.state == HoldState::TimedOut
    }

    /// Returns the facts for [`decide_hold`](podgate::core::gate::decide_hold). After the time `limit`, if set, the
    /// container starts even if its conditions are not met.
    pub(super) fn facts(&self, limit: Option<Duration>, is_confirmed: bool, now: Instant) -> HoldFacts {
        match self.state {
            HoldState::Open(_) => HoldFacts::Open,
            HoldState::Skipped(_) => HoldFacts::Expired,
            _ if limit.and_then(|limit| self.deadline(limit)).is_some_and(|at| at <= now) => HoldFacts::Expired,
            _ if is_confirmed => HoldFacts::Confirmed,
            _ => HoldFacts::Unconfirmed,
        }
    }

    /// Returns true if the gate file must be written or removed now.
    pub(super) fn must_change(&mut self, decision: &Decision, now: Instant) -> bool {
        let must_open = matches!(decision, Decision::Open(_));
        if must_open == self.is_open() {
            self.retry_at = None;
            return false;
        }
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// Records that the gate file was written or removed, as `decision` says.
    pub(crate) fn apply(&mut self, decision: &Decision, now: Instant, wall_clock: SystemTime) {
        if self.open_since().is_none_or(|since| now.saturating_duration_since(since) < CREATION_TIME) {
            self.waited += now.saturating_duration_since(self.waiting_since);
        }
        (self.waiting_since, self.retry_at) = (now, None);
        self.state = match decision {
            Decision::Open(OpenReason::TimedOut) => HoldState::Skipped(now),
            Decision::Open(_) => HoldState::Open(now),
            Decision::Closed(_) | Decision::GiveUp(_) => {
                self.closed_at = Some(wall_clock);
                HoldState::Waiting
            }
        };
    }

    /// Records that the gate file could not be written or removed.
    pub(crate) fn retry_later(&mut self, now: Instant) {
        self.retry_at = Some(now + RETRY_DELAY);
    }

    /// Begins a new wait. Call this when the container runs or has run.
    pub(super) fn restart_wait(&mut self, now: Instant) {
        (self.waiting_since, self.waited) = (now, Duration::ZERO);
        self.state = match self.state {
            HoldState::TimedOut => HoldState::Waiting,
            HoldState::Skipped(since) => HoldState::Open(since),
            other => other,
        };
    }

    /// Ends the wait at its [`deadline`](HoldGate::deadline). The container stays held.
    pub(super) fn time_out(&mut self) {
        self.state = HoldState::TimedOut;
    }

    /// Returns the time at which a wait with this time limit ends; `None` if no time limit is pending.
    pub(super) fn deadline(&self, limit: Duration) -> Option<Instant> {
        (self.state == HoldState::Waiting).then(|| self.waiting_since + limit.saturating_sub(self.waited))
    }

    /// Returns the time of the next action for a container that may be held. The action is an attempt to write the gate
    /// file, the end of a wait with this time limit, or a release patch. `ended_at` is the time at which the
    /// container's last end was observed.
    pub(super) fn due(&self, limit: Option<Duration>, ended_at: Option<Instant>) -> Option<Instant> {
        let deadline = limit.and_then(|limit| self.deadline(limit));
        // When the wait ends, the gate file may have to be written. That is not possible before `retry_at`.
        let deadline = deadline.map(|at| self.retry_at.map_or(at, |retry_at| retry_at.max(at)));
        deadline.into_iter().chain(self.retry_at).chain(self.next_request(ended_at)).min()
    }

    /// Returns the time of the next release patch; `None` while the gate is closed. `ended_at` is the time at which the
    /// container's last end was observed.
    pub(super) fn next_request(&self, ended_at: Option<Instant>) -> Option<Instant> {
        let opened_at = self.open_since()?;
        let Some(last) = self.last_request_at else { return Some(opened_at) };
        let next = if last < opened_at {
            opened_at
        } else {
            let after = ended_at.map_or(last, |ended_at| ended_at.max(last));
            let bases = [Some(opened_at), ended_at].into_iter().flatten();
            let planned = bases.flat_map(|base| REQUEST_TIMES.map(|pause| base + pause)).filter(|at| *at > after).min();
            planned.unwrap_or(last + LATER_INTERVAL)
        };
        Some(self.requests.ready_at().map_or(next, |at| at.max(next)))
    }

    pub(super) fn note_request(&mut self, now: Instant) {
        self.last_request_at = Some(now);
        self.requests.reserve(now);
    }

    /// Returns true if the gate is closed, and also was closed when a container with this start time was created.
    pub(super) fn is_violated_by(&self, started_at: SystemTime) -> bool {
        !self.is_open() && self.closed_at.is_none_or(|at| started_at > at + CREATION_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const OPEN: Decision = Decision::Open(OpenReason::ConditionsMet);
    const CLOSED: Decision = Decision::Closed(Vec::new());

    #[test]
    fn requests_follow_the_back_off_of_the_kubelet() {
        let start = now() + Duration::from_secs(1000);
        let mut gate = HoldGate::new(start, SystemTime::UNIX_EPOCH, false);
        assert_eq!(gate.next_request(None), None);
        gate.apply(&OPEN, start, SystemTime::UNIX_EPOCH);
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
        let mut late = HoldGate::new(start, SystemTime::UNIX_EPOCH, false);
        late.apply(&OPEN, start, SystemTime::UNIX_EPOCH);
        late.note_request(start + Duration::from_secs(90));
        let ended_at = start - Duration::from_secs(200);
        assert_eq!(late.next_request(Some(ended_at)), Some(ended_at + Duration::from_millis(300_100)));
        gate.note_request(start + Duration::from_secs(1000));
        assert_eq!(gate.next_request(None), Some(start + Duration::from_secs(1300)));
    }

    #[test]
    fn only_a_start_long_after_the_closing_is_a_violation() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (started_at, resumed, is_violated) in
            [(90, true, false), (114, true, false), (116, true, true), (101, false, true)]
        {
            let gate = HoldGate::new(now(), at(100), resumed);
            assert_eq!(gate.is_violated_by(at(started_at)), is_violated, "{started_at}");
        }
        let mut gate = HoldGate::new(now(), at(100), false);
        gate.apply(&OPEN, now(), at(200));
        assert!(!gate.is_violated_by(at(300)));
        gate.apply(&CLOSED, now(), at(400));
        assert!(!gate.is_violated_by(at(401)));
    }

    #[test]
    fn failed_write_at_the_time_limit_is_retried_after_a_pause() {
        let (start, limit) = (now(), Some(Duration::from_secs(60)));
        let mut gate = HoldGate::new(start, SystemTime::UNIX_EPOCH, false);
        let end = start + Duration::from_secs(60);
        assert_eq!(gate.due(limit, None), Some(end));
        assert_eq!(gate.facts(limit, false, end - Duration::from_millis(1)), HoldFacts::Unconfirmed);
        assert_eq!(gate.facts(limit, false, end), HoldFacts::Expired);
        gate.retry_later(end);
        assert_eq!(gate.due(limit, None), Some(end + RETRY_DELAY), "the loop must not spin");
    }
}
