//! Makes the sidecar idle while only a change in a folder can change a state, and wakes the sidecar up again.

use super::Controller;
use crate::clock::now;
use std::time::Duration;
use tracing::info;

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
        if let Some(api) =
            self.publisher.api.as_mut().filter(|_| !self.exit_rule.must_end_with_others && !self.pod.needs_pod_watch())
        {
            api.stop_watching();
            self.status_trust.take_outdated();
            self.pod.mark_pod_stale();
        }
    }

    /// Ends idling after a change in the folder of `container`. If the container's rate limit forbids this now, records
    /// the time to try again. The limit is needed because each wake-up opens a watch on the API server, and a container
    /// can write any number of reports.
    pub(super) fn wake_up(&mut self, container: String) {
        if !self.is_idle {
            return;
        }
        if let Err(at) = self.wake_up_limits.entry(container.clone()).or_default().take(now()) {
            if self.wake_up_at.as_ref().is_none_or(|(known, _)| at < *known) {
                self.wake_up_at = Some((at, container));
            }
            return;
        }
        (self.wake_up_at, self.is_idle) = (None, false);
        if let Some(api) = &mut self.publisher.api {
            api.watch();
            // Stay awake until the API has answered or the time limit is over.
            self.api_wait_until = Some(now() + API_TIMEOUT);
        }
    }

    pub(super) fn retry_wake_up(&mut self) {
        if let Some((_, container)) = self.wake_up_at.take() {
            self.wake_up(container);
        }
    }
}
