//! Makes the sidecar idle while only a change in a directory can change a state, and wakes the sidecar up again.

use super::Controller;
use crate::clock::now;
use crate::model::ready_filter::KubeletReadyFilter;
use crate::rate_limit::TokenBucket;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::info;

/// Time limit for the API server's answer after a wake-up.
const API_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the sidecar is idle, and what wakes it up. Exists also while the sidecar is not idle.
#[derive(Debug, Default)]
pub(super) struct IdleState {
    pub(super) is_idle: bool,
    /// Limits how often each container can wake the sidecar up. Each wake-up opens a watch on the API server, and a
    /// container can write any number of reports.
    limits: BTreeMap<String, TokenBucket>,
    /// Next wake-up that a rate limit has delayed: its time and container.
    pub(super) delayed: Option<(Instant, String)>,
    /// End of the wait for the API server's answer. The sidecar does not go idle during this wait.
    pub(super) api_wait_until: Option<Instant>,
}

impl Controller {
    /// Closes connections and stops timers. Only a change in a directory wakes the sidecar up.
    pub(super) fn go_idle(&mut self) {
        if std::mem::replace(&mut self.idle_state.is_idle, true) {
            return;
        }
        info!("all containers started; going idle");
        self.prober.stop_all();
        self.ready_filters.values_mut().for_each(KubeletReadyFilter::on_idle);
        // The watch stays open if only the kubelet can report that other containers have ended.
        if let Some(api) = self.api.as_mut().filter(|_| !self.pod.needs_watch_while_idle()) {
            api.stop_watching();
            self.status_trust.outdated = None;
            self.pod.is_pod_stale = true;
        }
    }

    /// Wakes the sidecar up after a change in the directory of `container`. If that container's rate limit is reached,
    /// the sidecar wakes up later.
    pub(super) fn wake_up(&mut self, container: String) {
        let idle_state = &mut self.idle_state;
        if !idle_state.is_idle {
            return;
        }
        if let Err(at) = idle_state.limits.entry(container.clone()).or_default().take(now()) {
            if idle_state.delayed.as_ref().is_none_or(|(known, _)| at < *known) {
                idle_state.delayed = Some((at, container));
            }
            return;
        }
        (idle_state.delayed, idle_state.is_idle) = (None, false);
        if let Some(api) = &mut self.api {
            api.start_watching();
            // Stay awake until the API has answered or the time limit is over.
            idle_state.api_wait_until = Some(now() + API_TIMEOUT);
        }
    }

    pub(super) fn retry_wake_up(&mut self) {
        if let Some((_, container)) = self.idle_state.delayed.take() {
            self.wake_up(container);
        }
    }
}
