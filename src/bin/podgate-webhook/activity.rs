//! Tracks the phase of a connection and enforces a time limit for each phase.
//!
//! hyper's `header_read_timeout` also runs between two requests. The API server keeps idle connections for 90 s
//! (`IdleConnTimeout`). If the webhook closes an idle connection earlier, a request that the API server is just sending
//! can fail. An idle connection therefore has a longer limit than the head of a request.

use crate::clock::now;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout_at;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the head of a request, from its first byte to its last.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an unfinished handshake or request is slow. If the webhook must evict a client, it evicts a slow
/// client before idle clients. The API server needs only milliseconds for a handshake or a request.
const OWED_MAX: Duration = Duration::from_millis(500);
/// Time limit before the first request and between two requests. Longer than the API server's limit of 90 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Handshake,
    Idle,
    Head,
    /// The head of a request has arrived, but not the whole body. `REQUEST_TIMEOUT` limits this phase and the review.
    Body,
    /// The webhook is reviewing a request.
    Busy,
}

/// Phase of a connection, with the start time of the phase.
pub(crate) struct ConnectionActivity(watch::Sender<(Phase, Instant)>);

impl ConnectionActivity {
    pub(crate) fn new() -> ConnectionActivity {
        ConnectionActivity(watch::Sender::new((Phase::Handshake, now())))
    }

    pub(crate) fn set(&self, phase: Phase) {
        self.0.send_replace((phase, now()));
    }

    pub(crate) fn phase(&self) -> Phase {
        self.0.borrow().0
    }

    /// Records the arrival of bytes. On an idle connection, the bytes start the head of a request.
    pub(crate) fn start_head_if_idle(&self) {
        if self.phase() == Phase::Idle {
            self.set(Phase::Head);
        }
    }

    /// Returns the rank for eviction, lowest first. Clients whose handshake, head or body has been unfinished for more
    /// than `OWED_MAX` come first, then the others. Each group is sorted by the start of the phase. Returns `None`
    /// during a review.
    pub(crate) fn eviction_rank(&self) -> Option<(bool, Instant)> {
        let (phase, since) = *self.0.borrow();
        let is_owing = phase != Phase::Idle && since.elapsed() > OWED_MAX;
        (phase != Phase::Busy).then_some((!is_owing, since))
    }

    /// Waits until a phase exceeds its limit; returns that phase.
    pub(crate) async fn wait_for_timeout(&self) -> Phase {
        let mut changes = self.0.subscribe();
        loop {
            let (phase, since) = *changes.borrow_and_update();
            let changed = changes.changed();
            let limit = match phase {
                Phase::Handshake => HANDSHAKE_TIMEOUT,
                Phase::Idle => IDLE_TIMEOUT,
                Phase::Head => HEAD_TIMEOUT,
                Phase::Body | Phase::Busy => {
                    let _ = changed.await;
                    continue;
                }
            };
            if timeout_at((since + limit).into(), changed).await.is_err() {
                return phase;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    #[tokio::test]
    async fn each_phase_has_its_time_limit() {
        let activity = ConnectionActivity::new();
        let limits = [(Phase::Handshake, HANDSHAKE_TIMEOUT), (Phase::Head, HEAD_TIMEOUT), (Phase::Idle, IDLE_TIMEOUT)];
        for (phase, limit) in limits {
            for (ago, expected) in [(limit, Some(phase)), (limit - Duration::from_secs(2), None)] {
                activity.0.send_replace((phase, now().checked_sub(ago).unwrap()));
                let timed_out = timeout(Duration::from_millis(100), activity.wait_for_timeout()).await.ok();
                assert_eq!(timed_out, expected, "{phase:?}, {ago:?}");
            }
        }
        activity.set(Phase::Busy);
        assert_eq!(activity.eviction_rank(), None);
    }
}
