//! Gate of one held container. The kubelet does not create the container while the gate is closed. No I/O.

use crate::rate_limit::TokenBucket;
use std::time::{Duration, Instant, SystemTime};

/// Times at which the sidecar repeats the release patch, in milliseconds from the gate's opening or the container's
/// last end. The kubelet syncs a new Pod at most once a second. The later times are just after each back-off of the
/// kubelet.
const REQUEST_TIMES_MS: [u64; 8] = [1200, 3000, 10_100, 20_100, 40_100, 80_100, 160_100, 300_100];
/// Interval between the release patches after the last of `REQUEST_TIMES_MS`.
const LATER_INTERVAL: Duration = Duration::from_secs(300);
/// Pause before the next attempt to write or remove a gate file.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest expected time from the closing of a gate to the start of a container that passed the open gate. The kubelet
/// reads the gate file before the runtime creates the container. If a gate is open for less than this time, the kubelet
/// may not have created the container. The open time then counts toward the time limit of the wait.
const CREATION_TIME: Duration = Duration::from_secs(15);

/// State of a gate in hold mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldState {
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

impl HoldState {
    /// Returns the time since which the gate is open; `None` while the gate is closed.
    pub(super) fn open_since(self) -> Option<Instant> {
        if let HoldState::Open(since) | HoldState::Skipped(since) = self { Some(since) } else { None }
    }

    pub(super) fn is_open(self) -> bool {
        self.open_since().is_some()
    }
}

#[derive(Debug)]
pub(crate) struct HoldGate {
    pub(super) state: HoldState,
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

    /// Returns the state that the gate must have. `is_met` means that all conditions are met, and `is_confirmed` that
    /// the sidecar has observed the containers again since then. After a wait of `skip_after`, the container starts
    /// even if its conditions are not met. A gate in the state `Open` closes if its conditions are no longer met; a gate
    /// in the state `Skipped` stays as it is.
    pub(super) fn wanted_state(
        &self,
        is_met: bool,
        is_confirmed: bool,
        skip_after: Option<Duration>,
        now: Instant,
    ) -> HoldState {
        let deadline = skip_after.and_then(|limit| self.deadline(limit));
        match self.state {
            HoldState::Open(_) if !is_met => HoldState::Waiting,
            HoldState::Open(_) | HoldState::Skipped(_) => self.state,
            _ if deadline.is_some_and(|at| at <= now) => HoldState::Skipped(now),
            _ if is_met && is_confirmed => HoldState::Open(now),
            closed => closed,
        }
    }

    /// Returns true if the gate file must be written or removed now, so that the gate gets the state `wanted`.
    pub(super) fn must_change(&mut self, wanted: HoldState, now: Instant) -> bool {
        if wanted.is_open() == self.state.is_open() {
            self.retry_at = None;
            return false;
        }
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// Repeats a failed write of the gate file after a pause.
    pub(super) fn retry_later(&mut self, now: Instant) {
        self.retry_at = Some(now + RETRY_DELAY);
    }

    /// Records that the gate file was written or removed, so that the gate now has this state.
    pub(crate) fn record_state(&mut self, state: HoldState, now: Instant, wall_clock: SystemTime) {
        if self.state.open_since().is_none_or(|since| now.saturating_duration_since(since) < CREATION_TIME) {
            self.waited += now.saturating_duration_since(self.waiting_since);
        }
        (self.state, self.waiting_since, self.retry_at) = (state, now, None);
        if !self.state.is_open() {
            self.closed_at = Some(wall_clock);
        }
    }

    /// Restarts the time limit of the gate. Call this when the container runs or has run.
    pub(super) fn reset_time_limit(&mut self, now: Instant) {
        (self.waiting_since, self.waited) = (now, Duration::ZERO);
        self.state = match self.state {
            HoldState::TimedOut => HoldState::Waiting,
            HoldState::Skipped(since) => HoldState::Open(since),
            other => other,
        };
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
        deadline.into_iter().chain(self.retry_at).chain(self.next_release_request(ended_at)).min()
    }

    /// Returns the time of the next release patch; `None` while the gate is closed. `ended_at` is the time at which the
    /// container's last end was observed.
    pub(super) fn next_release_request(&self, ended_at: Option<Instant>) -> Option<Instant> {
        let opened_at = self.state.open_since()?;
        let Some(last) = self.last_request_at else { return Some(opened_at) };
        let next = if last < opened_at {
            opened_at
        } else {
            let after = ended_at.map_or(last, |ended_at| ended_at.max(last));
            let bases = [Some(opened_at), ended_at].into_iter().flatten();
            let times = bases.flat_map(|base| REQUEST_TIMES_MS.map(|pause| base + Duration::from_millis(pause)));
            times.filter(|at| *at > after).min().unwrap_or(last + LATER_INTERVAL)
        };
        Some(self.requests.ready_from().map_or(next, |at| at.max(next)))
    }

    pub(super) fn note_release_request(&mut self, now: Instant) {
        self.last_request_at = Some(now);
        self.requests.reserve(now);
    }

    /// Returns true if the gate is closed, and also was closed when a container with this start time was created.
    pub(super) fn is_closed_since(&self, started_at: SystemTime) -> bool {
        !self.state.is_open() && self.closed_at.is_none_or(|at| started_at > at + CREATION_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn requests_follow_the_back_off_of_the_kubelet() {
        let start = now() + Duration::from_secs(1000);
        let mut gate = HoldGate::new(start, SystemTime::UNIX_EPOCH, false);
        assert_eq!(gate.next_release_request(None), None);
        gate.record_state(HoldState::Open(start), start, SystemTime::UNIX_EPOCH);
        let mut next = |ended_at| {
            let at = gate.next_release_request(ended_at).unwrap();
            gate.note_release_request(at);
            at.duration_since(start).as_secs_f64()
        };
        let times = [0.0, 1.2, 3.0, 10.1, 20.1, 40.1, 80.1, 160.1, 300.1];
        assert_eq!([(); 9].map(|()| next(None)), times, "the rate limit delays none of them");
        let ended_at = Some(start + Duration::from_secs(600));
        assert_eq!([(); 4].map(|()| next(ended_at)), [601.2, 603.0, 610.1, 620.1]);
        // A back-off of 300 s that began 200 s before the opening.
        let mut late = HoldGate::new(start, SystemTime::UNIX_EPOCH, false);
        late.record_state(HoldState::Open(start), start, SystemTime::UNIX_EPOCH);
        late.note_release_request(start + Duration::from_secs(90));
        let ended_at = start - Duration::from_secs(200);
        assert_eq!(late.next_release_request(Some(ended_at)), Some(ended_at + Duration::from_millis(300_100)));
        gate.note_release_request(start + Duration::from_secs(1000));
        assert_eq!(gate.next_release_request(None), Some(start + Duration::from_secs(1300)));
    }

    /// The column of gates at the kubelet in the table of rules (`core/gate.rs`).
    #[test]
    fn each_rule_holds() {
        let start = now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (waiting, open, skipped) = (HoldState::Waiting, HoldState::Open(start), HoldState::Skipped(start));
        for (rule, state, is_met, is_confirmed, skip_after, expected) in [
            ("all conditions are met", waiting, true, true, None, HoldState::Open(at(9))),
            ("a condition is not met", waiting, false, false, None, waiting),
            ("the conditions are not confirmed", waiting, true, false, None, waiting),
            ("open, and all conditions are still met", open, true, false, Some(9), open),
            ("open, and a condition is no longer met", open, false, false, Some(9), waiting),
            ("on-timeout is continue, before the time limit", waiting, false, false, Some(10), waiting),
            ("on-timeout is continue, at the time limit", waiting, false, false, Some(9), HoldState::Skipped(at(9))),
            ("both at once", waiting, true, true, Some(9), HoldState::Skipped(at(9))),
            ("open since the time limit", skipped, false, false, Some(9), skipped),
            ("on-timeout is fail, after the time limit", HoldState::TimedOut, false, false, None, HoldState::TimedOut),
            ("timed out, and all conditions are met", HoldState::TimedOut, true, true, None, HoldState::Open(at(9))),
        ] {
            let gate = HoldGate { state, ..HoldGate::new(start, SystemTime::UNIX_EPOCH, false) };
            let skip_after = skip_after.map(Duration::from_secs);
            assert_eq!(gate.wanted_state(is_met, is_confirmed, skip_after, at(9)), expected, "{rule}");
        }
    }

    #[test]
    fn only_a_start_long_after_the_closing_is_a_violation() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (started_at, resumed, is_violated) in
            [(90, true, false), (114, true, false), (116, true, true), (101, false, true)]
        {
            let gate = HoldGate::new(now(), at(100), resumed);
            assert_eq!(gate.is_closed_since(at(started_at)), is_violated, "{started_at}");
        }
        let mut gate = HoldGate::new(now(), at(100), false);
        gate.record_state(HoldState::Open(now()), now(), at(200));
        assert!(!gate.is_closed_since(at(300)));
        gate.record_state(HoldState::Waiting, now(), at(400));
        assert!(!gate.is_closed_since(at(401)));
    }

    #[test]
    fn failed_write_at_the_time_limit_is_retried_after_a_pause() {
        let (start, limit) = (now(), Some(Duration::from_secs(60)));
        let mut gate = HoldGate::new(start, SystemTime::UNIX_EPOCH, false);
        let end = start + Duration::from_secs(60);
        assert_eq!(gate.due(limit, None), Some(end));
        assert_eq!(gate.wanted_state(false, false, limit, end - Duration::from_millis(1)), HoldState::Waiting);
        assert_eq!(gate.wanted_state(false, false, limit, end), HoldState::Skipped(end));
        gate.retry_later(end);
        assert_eq!(gate.due(limit, None), Some(end + RETRY_DELAY), "the loop must not spin");
    }
}
