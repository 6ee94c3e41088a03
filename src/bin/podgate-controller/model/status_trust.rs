//! Decides whether the kubelet's status of the Pod is current. No I/O.
//!
//! After the sidecar restarts or the Pod gets a new sandbox, the API can still show an outdated status. The sidecar
//! could then treat a container that completed in the previous sandbox as completed in the current one. The sidecar
//! cannot read its own container id, so it uses the status of its own container as evidence. The Pod's status is
//! current if at least one of these conditions is met:
//!
//! - The kubelet reports a start time of the sidecar's container that is not earlier than the start of this process.
//! - The status has changed during this run: the container was not running before, or the restart count has grown. This
//!   condition compares no times, because the clocks of the kubelet and of a sandbox in a virtual machine can differ.
//! - The status has not changed for `STABLE_FOR`. The kubelet reports a restart of the sidecar within seconds.
//!
//! If a later status has a lower restart count, the API server sent it from an outdated cache.

use crate::input::pod_facts::PodFacts;
use std::time::{Duration, Instant, SystemTime};

/// Time after which an unchanged status is assumed to be current.
const STABLE_FOR: Duration = Duration::from_secs(10);
/// Tolerance for start times. The kubelet reports them in whole seconds, rounded down.
const START_TIME_RESOLUTION: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Outdated,
    Current,
    /// The status is assumed to be current, only because it has not changed for `STABLE_FOR`. This value is returned
    /// once; later calls return `Current`.
    Assumed,
}

pub(crate) struct StatusTrust {
    process_started_at: SystemTime,
    /// Restart count and arrival time of the first status. The count is `None` if the sidecar's container was not
    /// running.
    first: Option<(Option<u32>, Instant)>,
    /// Restart count in the last status that was current; `None` before the first such status.
    current: Option<u32>,
    /// Facts that are treated as outdated, but count as current once they have not changed for `STABLE_FOR`.
    pub(crate) outdated: Option<PodFacts>,
}

impl StatusTrust {
    pub(crate) fn new(process_started_at: SystemTime) -> StatusTrust {
        StatusTrust { process_started_at, first: None, current: None, outdated: None }
    }

    pub(crate) fn on_pod_update(&mut self, facts: &PodFacts, now: Instant) -> Trust {
        let trust = self.decide(facts, now);
        let may_become_current = self.current.is_none() && facts.own_started_at.is_some();
        self.outdated = may_become_current.then(|| facts.clone());
        trust
    }

    fn decide(&mut self, facts: &PodFacts, now: Instant) -> Trust {
        let (first, since) = *self.first.get_or_insert((facts.own_started_at.map(|_| facts.own_restarts), now));
        let (Some(started_at), restarts) = (facts.own_started_at, facts.own_restarts) else { return Trust::Outdated };
        if let Some(current) = self.current.filter(|current| restarts <= *current) {
            return if restarts == current { Trust::Current } else { Trust::Outdated };
        }
        let is_fresh = started_at + START_TIME_RESOLUTION >= self.process_started_at;
        let trust = if self.current.is_some() || is_fresh || first.is_none_or(|first| restarts > first) {
            Trust::Current
        } else if since + STABLE_FOR <= now {
            Trust::Assumed
        } else {
            return Trust::Outdated;
        };
        self.current = Some(restarts);
        trust
    }

    /// Returns the time at which outdated facts become `Assumed`; `None` without such facts.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.first.filter(|_| self.outdated.is_some()).map(|(_, since)| since + STABLE_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    /// Passes a status with the restart count `restarts` to `trust`, `seconds` after the first status. The status shows
    /// a start time 10 s before the start time of the sidecar's process.
    fn update(trust: &mut StatusTrust, restarts: Option<u32>, seconds: u64) -> Trust {
        let since = trust.first.map_or_else(now, |(_, since)| since);
        let own_started_at = restarts.map(|_| START);
        let facts = PodFacts { own_started_at, own_restarts: restarts.unwrap_or(0), ..PodFacts::default() };
        trust.on_pod_update(&facts, since + Duration::from_secs(seconds))
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
            let mut trust = StatusTrust::new(START + Duration::from_secs(10));
            let found = steps.iter().map(|(restarts, seconds)| update(&mut trust, *restarts, *seconds)).last();
            assert_eq!(found, Some(expected), "{steps:?}");
            let waits = expected == Trust::Outdated && trust.current.is_none() && steps.last().unwrap().0.is_some();
            assert_eq!(trust.due().is_some(), waits, "{steps:?}");
        }
    }
}
