//! Makes the sidecar idle while only a change in a folder can change a state, and wakes the sidecar up again.

use super::Controller;
use crate::clock::now;
use crate::model::pod::Urgency;
use std::time::Duration;
use tracing::info;

/// Shortest and longest interval between two wake-ups.
pub(super) const MIN_WAKE_UP_INTERVAL: Duration = Duration::from_secs(2);
const MAX_WAKE_UP_INTERVAL: Duration = Duration::from_secs(60);
/// Lower bound for the interval while a gate or hook waits (`Urgency::Soon`). That interval is a quarter of the normal
/// interval.
const URGENT_WAKE_UP_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for the API server's answer after a wake-up.
const API_TIMEOUT: Duration = Duration::from_secs(5);

impl Controller {
    /// Closes connections and stops timers. Only a change in a folder wakes the sidecar up.
    pub(super) fn go_idle(&mut self) {
        if self.is_idle {
            return;
        }
        info!("all containers started; going idle");
        self.is_idle = true;
        self.prober.clear();
        self.ready_filters.clear();
        // The watch stays open if only the kubelet can report that other containers have ended.
        if let Some(api) = self.api.as_mut().filter(|_| !self.must_end_with_others && !self.pod.needs_pod_watch()) {
            api.stop_watching();
            self.outdated_facts = None;
            self.pod.mark_pod_stale();
        }
    }

    /// Ends idling, now or when enough time has passed since the last wake-up. A container can cause any number of
    /// wake-ups, so a rate limit protects the API server. The limit does not apply to `Urgency::Now`, because each
    /// container stops only once.
    pub(super) fn wake_up(&mut self, urgency: Urgency) {
        if !self.is_idle {
            return;
        }
        let here = now();
        let interval = match urgency {
            Urgency::Now => Duration::ZERO,
            Urgency::Soon => (self.wake_up_interval / 4).max(URGENT_WAKE_UP_INTERVAL),
            Urgency::Later => self.wake_up_interval,
        };
        let due = self.last_wake_up.map_or(here, |last| last + interval);
        if due > here {
            self.wake_up_at = Some(self.wake_up_at.map_or(due, |at| at.min(due)));
            return;
        }
        let long_ago = self.last_wake_up.is_none_or(|last| here > last + MAX_WAKE_UP_INTERVAL * 2);
        self.wake_up_interval =
            if long_ago { MIN_WAKE_UP_INTERVAL } else { (self.wake_up_interval * 2).min(MAX_WAKE_UP_INTERVAL) };
        (self.last_wake_up, self.wake_up_at, self.is_idle) = (Some(here), None, false);
        if let Some(api) = &mut self.api {
            api.watch();
            // Stay awake until the API has answered or the time limit is over.
            self.api_wait_until = Some(here + API_TIMEOUT);
        }
    }
}
