//! Rest, once nothing more is to be learnt, and what ends it.

use super::Controller;
use crate::clock::now;
use crate::model::pod::Urgency;
use std::time::Duration;
use tracing::info;

/// How long to rest between two looks after having settled, at first and at most.
pub(super) const MIN_WAKE_UP_INTERVAL: Duration = Duration::from_secs(2);
const MAX_WAKE_UP_INTERVAL: Duration = Duration::from_secs(60);
/// The same for what somebody waits for, at first; later a quarter of the other.
const URGENT_WAKE_UP_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait for the API's answer in such a look.
const API_TIMEOUT: Duration = Duration::from_secs(5);

impl Controller {
    /// Nothing more is to be learnt: lets go of connections and timers, and sleeps until a folder changes.
    pub(super) fn go_idle(&mut self) {
        if self.is_idle {
            return;
        }
        info!("all have started; settles");
        self.is_idle = true;
        self.prober.clear();
        self.ready_filters.clear();
        // Only the kubelet can say that the others have ended.
        if let Some(api) = self.api.as_mut().filter(|_| !self.must_end_with_others && !self.pod.needs_pod_watch()) {
            api.stop_watching();
            self.pod.mark_pod_stale();
        }
    }

    /// Something has come up: looks at the pod again, at once or when the last look is long enough ago. A container can cause
    /// this as often as it likes, and the API is to notice little of it; but each begins to stop only once.
    pub(super) fn wake_up(&mut self, urgency: Urgency) {
        if !self.is_idle {
            return;
        }
        let here = now();
        let rest = match urgency {
            Urgency::Now => Duration::ZERO,
            Urgency::Soon => (self.wake_up_interval / 4).max(URGENT_WAKE_UP_INTERVAL),
            Urgency::Later => self.wake_up_interval,
        };
        let due = self.last_wake_up.map_or(here, |last| last + rest);
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
            // What the API says is waited for, unless it says nothing.
            self.api_wait_until = Some(here + API_TIMEOUT);
        }
    }
}
