//! Decides if the kubelet's status of the Pod is current. No I/O.
//!
//! After a restart of the sidecar or a new sandbox, the API can still show the status from before. A container that
//! completed in the earlier sandbox would then count as completed in this one. The sidecar can't read its own container
//! id, so it uses the status of its own container as evidence. The status is current if one of these applies:
//!
//! - The kubelet reports a start that is not earlier than the start of this process.
//! - The status has changed during this run: the container was not running before, or the restart count has grown. This
//!   evidence needs no clock, because a sandbox or a virtual machine can have another clock than the kubelet.
//! - The status has not changed for `STABLE_FOR`. The kubelet reports a restart of the sidecar within seconds.
//!
//! A later status with a lower restart count comes from an outdated cache of the API server.

use crate::input::pod_facts::PodFacts;
use std::time::{Duration, Instant, SystemTime};

/// Time after which an unchanged status counts as current.
const STABLE_FOR: Duration = Duration::from_secs(10);
/// Tolerance for start times, which the kubelet reports in whole seconds.
const START_TIME_RESOLUTION: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Outdated,
    Current,
    /// The status counts as current for the first time, only because it has not changed for a long time.
    Assumed,
}

#[derive(Debug)]
pub(crate) struct StatusTrust {
    process_started_at: SystemTime,
    /// Restart count in the first status, `None` if the sidecar's container was not running; and the status's time.
    first: Option<(Option<u32>, Instant)>,
    /// Restart count in the statuses that are current.
    current: Option<u32>,
}

impl StatusTrust {
    pub(crate) fn new(process_started_at: SystemTime) -> StatusTrust {
        StatusTrust { process_started_at, first: None, current: None }
    }

    pub(crate) fn on_pod_update(&mut self, facts: &PodFacts, now: Instant) -> Trust {
        let (first, _) = *self.first.get_or_insert((facts.own_started_at.map(|_| facts.own_restarts), now));
        let (Some(started_at), restarts) = (facts.own_started_at, facts.own_restarts) else { return Trust::Outdated };
        if let Some(current) = self.current.filter(|current| restarts <= *current) {
            return if restarts == current { Trust::Current } else { Trust::Outdated };
        }
        let is_fresh = started_at + START_TIME_RESOLUTION >= self.process_started_at;
        let trust = if self.current.is_some() || is_fresh || first.is_none_or(|first| restarts > first) {
            Trust::Current
        } else if self.due().is_some_and(|due| due <= now) {
            Trust::Assumed
        } else {
            return Trust::Outdated;
        };
        self.current = Some(restarts);
        trust
    }

    /// Returns the time at which an unchanged status counts as current; `None` if no decision is pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.first.filter(|_| self.current.is_none()).map(|(_, since)| since + STABLE_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    /// Returns the trust in a status with this restart count, `seconds` after the first status. The status shows a start
    /// 10 s before the sidecar's.
    fn update(trust: &mut StatusTrust, restarts: Option<u32>, seconds: u64) -> Trust {
        let since = trust.first.map_or_else(now, |(_, since)| since);
        let own_started_at = restarts.map(|_| START);
        let facts = PodFacts { own_started_at, own_restarts: restarts.unwrap_or(0), ..PodFacts::default() };
        trust.on_pod_update(&facts, since + Duration::from_secs(seconds))
    }

    fn late() -> StatusTrust {
        StatusTrust::new(START + Duration::from_secs(10))
    }

    #[test]
    fn status_is_current_after_a_change_or_a_long_time() {
        for (steps, expected) in [
            (&[(Some(3), 0), (Some(3), 9)][..], Trust::Outdated),
            (&[(Some(3), 0), (Some(3), 10)], Trust::Assumed),
            (&[(Some(3), 0), (Some(3), 10), (Some(3), 11)], Trust::Current),
            (&[(Some(3), 0), (Some(4), 1)], Trust::Current),
            (&[(None, 0), (Some(0), 1)], Trust::Current),
            (&[(Some(3), 0), (None, 1), (Some(3), 2)], Trust::Outdated),
            (&[(Some(3), 0), (Some(4), 1), (Some(3), 20)], Trust::Outdated),
            (&[(Some(3), 0), (Some(3), 10), (Some(4), 11)], Trust::Current),
            (&[(Some(3), 0), (Some(2), 10), (Some(3), 11)], Trust::Current),
            (&[(None, 0), (None, 20)], Trust::Outdated),
        ] {
            let mut trust = late();
            let found = steps.iter().map(|(restarts, seconds)| update(&mut trust, *restarts, *seconds)).last();
            assert_eq!(found, Some(expected), "{steps:?}");
            assert_eq!(trust.due().is_none(), trust.current.is_some(), "no decision is pending");
        }
    }

    #[test]
    fn status_with_the_start_of_this_process_is_current_at_once() {
        for (started_at, expected) in [(900, Trust::Current), (1000, Trust::Current), (1001, Trust::Outdated)] {
            let mut trust = StatusTrust::new(START + Duration::from_millis(started_at));
            assert_eq!(update(&mut trust, Some(0), 0), expected, "{started_at}");
        }
    }
}
