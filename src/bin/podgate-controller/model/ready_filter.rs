//! Filters the kubelet's `ready` status. For seconds after its own restart, the kubelet can report unready containers
//! as ready (kubernetes#135795). It can also treat startup probes as passed forever (kubernetes#142305). A status
//! therefore counts only after it has been stable for a second. The annotation `kubernetes.io/config.seen` changes when
//! the kubelet restarts and must be stable for the same time. A container that the kubelet has replaced can inherit the
//! status of the one before it for one period of its startup probe (kubernetes#141155). This module does no I/O.

use crate::input::pod_facts::KubeletStatus;
use std::time::{Duration, Instant};

/// Time for which a status must be unchanged before it counts.
pub(crate) const STABLE_FOR: Duration = Duration::from_secs(1);
/// Time after a kubelet restart in which the status "ready" may be wrong (observed: 0.1 to 5 s). When the kubelet has
/// reported "not ready" in this time, the status "ready" is trusted again.
const DISTRUST_AFTER_RESTART: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct KubeletReadyFilter {
    /// Status that is not accepted yet, and the time since which the status is unchanged.
    pending_status: Option<(PendingStatus, Instant)>,
    /// Last accepted `ready` status.
    pub(crate) accepted_ready: Option<bool>,
    /// Container id of the incarnation whose startup probe has certainly passed.
    startup_passed_id: Option<String>,
    /// Last value of the annotation `kubernetes.io/config.seen`.
    config_seen: Option<String>,
    /// True if a kubelet restart was detected.
    has_kubelet_restarted: bool,
    /// End of the time in which the status "ready" may be wrong.
    distrusted_until: Option<Instant>,
    /// True if the kubelet has reported "not ready" since the last kubelet restart.
    has_been_not_ready: bool,
    startup_period: Option<Duration>,
    /// Container id in the last status.
    known_id: Option<String>,
    /// True if the status of this incarnation may be inherited.
    may_inherit: bool,
}

#[derive(Debug, PartialEq)]
struct PendingStatus {
    id: String,
    is_ready: bool,
    config_seen: String,
}

impl KubeletReadyFilter {
    /// Creates a filter. `startup_period` is the period of the startup probe, if the container has one. `resumed_at` is
    /// the time of the sidecar's own restart, which may hide a kubelet restart.
    pub(crate) fn new(startup_period: Option<Duration>, resumed_at: Option<Instant>) -> KubeletReadyFilter {
        let distrusted_until = resumed_at.map(|at| at + DISTRUST_AFTER_RESTART);
        KubeletReadyFilter { startup_period, distrusted_until, ..KubeletReadyFilter::default() }
    }

    /// Forgets the status while the sidecar is idle, but not the container's id. Ignores a kubelet restart in this time,
    /// because the sidecar does not know which containers existed then.
    pub(crate) fn on_idle(&mut self) {
        self.forget_status();
        (self.config_seen, self.has_kubelet_restarted) = (None, false);
    }

    fn forget_status(&mut self) {
        (self.pending_status, self.accepted_ready) = (None, None);
    }

    /// Stores the kubelet's status together with the current `config.seen`.
    pub(crate) fn on_kubelet_status(&mut self, status: &KubeletStatus, config_seen: Option<&str>, now: Instant) {
        config_seen.into_iter().for_each(|seen| self.note_config_seen(seen, now));
        let (Some(id), Some(config_seen)) = (&status.running_id, config_seen) else {
            self.forget_status();
            return;
        };
        self.has_been_not_ready |= !status.is_ready;
        if self.known_id.as_ref() != Some(id) {
            let is_replaced = self.known_id.replace(id.clone()).is_some();
            self.may_inherit = is_replaced || self.distrusted_until.is_some();
            // The restart concerns only containers that existed at that time.
            self.has_kubelet_restarted &= !is_replaced;
            self.accepted_ready = None;
        }
        self.may_inherit &= status.has_started;
        let is_ready = status.is_ready && status.has_started;
        let found = PendingStatus { id: id.clone(), is_ready, config_seen: config_seen.to_owned() };
        if self.pending_status.as_ref().is_none_or(|(known, _)| *known != found) {
            self.pending_status = Some((found, now));
        }
    }

    fn note_config_seen(&mut self, config_seen: &str, now: Instant) {
        let before = self.config_seen.replace(config_seen.to_owned());
        if before.is_some_and(|before| before != config_seen) {
            (self.has_kubelet_restarted, self.has_been_not_ready, self.known_id) = (true, false, None);
            self.distrusted_until = Some(now + DISTRUST_AFTER_RESTART);
        }
    }

    /// Returns the time for the next `recheck`; `None` if no status is pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pending_status.as_ref().map(|(pending, since)| self.trusted_at(pending, *since))
    }

    fn trusted_at(&self, pending: &PendingStatus, since: Instant) -> Instant {
        let may_inherit = self.may_inherit && pending.is_ready && !self.has_passed_startup(&pending.id);
        let inherited = self.startup_period.filter(|_| may_inherit).unwrap_or_default();
        let stable_at = since + STABLE_FOR + inherited;
        match self.distrusted_until {
            Some(at) if pending.is_ready && !self.has_been_not_ready && !self.has_passed_startup(&pending.id) => {
                stable_at.max(at)
            }
            _ => stable_at,
        }
    }

    fn has_passed_startup(&self, id: &str) -> bool {
        self.startup_passed_id.as_deref() == Some(id)
    }

    /// Accepts the pending status if it is trusted at `now` and `config_seen` has not changed. Returns true if no
    /// status is pending any more.
    pub(crate) fn recheck(&mut self, config_seen: Option<&str>, now: Instant) -> bool {
        if self.due().is_none_or(|at| at > now) {
            return false;
        }
        config_seen.into_iter().for_each(|seen| self.note_config_seen(seen, now));
        let Some((pending, _)) = self.pending_status.take() else { return false };
        if config_seen != Some(&pending.config_seen) {
            let config_seen = config_seen.map_or(pending.config_seen, str::to_owned);
            self.pending_status = Some((PendingStatus { config_seen, ..pending }, now));
            return false;
        }
        if self.has_kubelet_restarted
            && self.startup_period.is_some()
            && pending.is_ready
            && !self.has_passed_startup(&pending.id)
        {
            // The kubelet may wrongly treat this incarnation's startup probe as passed, so never trust this status.
            return true;
        }
        if pending.is_ready {
            self.startup_passed_id = Some(pending.id);
        }
        self.accepted_ready = Some(pending.is_ready);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    /// Each step consists of a time in seconds, the kubelet's `ready` status, and `config.seen`. A step without a
    /// `ready` status is a call of `recheck`. The startup probe has a period of 5 s.
    #[test]
    fn status_counts_when_it_is_stable_and_certain() {
        let (ready, unready, check) = (Some(true), Some(false), None);
        for (what, has_startup, steps, expected) in [
            ("resumed", false, &[(0.0, ready, "s1"), (9.9, check, "s1")][..], None),
            ("resumed long ago", false, &[(0.0, ready, "s1"), (10.0, check, "s1")], Some(true)),
            ("too early", false, &[(0.0, ready, "s1"), (0.5, check, "s1")], None),
            ("stable", false, &[(0.0, ready, "s1"), (1.0, check, "s1")], Some(true)),
            ("no config.seen", false, &[(0.0, ready, ""), (1.0, check, "s1")], None),
            ("unreadable config.seen", false, &[(0.0, ready, "s1"), (1.0, check, ""), (1.5, check, "s1")], None),
            ("changed too late", false, &[(0.0, ready, "s1"), (0.5, unready, "s1"), (1.0, check, "s1")], None),
            ("changed", false, &[(0.0, ready, "s1"), (0.5, unready, "s1"), (1.5, check, "s1")], Some(false)),
            ("restart", false, &[(0.0, unready, "s1"), (0.0, ready, "s2"), (9.9, check, "s2")], None),
            ("restart long ago", false, &[(0.0, unready, "s1"), (0.0, ready, "s2"), (10.0, check, "s2")], Some(true)),
            (
                "not ready after the restart",
                false,
                &[
                    (0.0, unready, "s1"),
                    (0.0, ready, "s2"),
                    (1.0, unready, "s2"),
                    (2.0, ready, "s2"),
                    (3.0, check, "s2"),
                ],
                Some(true),
            ),
            (
                "unseen startup before the restart",
                true,
                &[
                    (0.0, unready, "s1"),
                    (1.0, check, "s1"),
                    (2.0, ready, "s1"),
                    (3.0, check, "s2"),
                    (60.0, check, "s2"),
                ],
                Some(false),
            ),
            (
                "seen startup before the restart",
                true,
                &[(0.0, ready, "s1"), (1.0, check, "s1"), (2.0, ready, "s2"), (3.0, check, "s2")],
                Some(true),
            ),
        ] {
            let start = now();
            let period = has_startup.then(|| STABLE_FOR * 5);
            let mut filter = KubeletReadyFilter::new(period, what.starts_with("resumed").then_some(start));
            for (seconds, is_ready, seen) in steps {
                let (at, seen) = (start + STABLE_FOR.mul_f64(*seconds), Some(*seen).filter(|seen| !seen.is_empty()));
                let Some(is_ready) = *is_ready else {
                    filter.recheck(seen, at);
                    assert!(filter.due().is_none_or(|due| due > at), "{what}: a check must not repeat at once");
                    continue;
                };
                let running_id = Some("c1".to_owned());
                let status = KubeletStatus { running_id, is_ready, has_started: true, ..KubeletStatus::default() };
                filter.on_kubelet_status(&status, seen, at);
            }
            assert_eq!(filter.accepted_ready, expected, "{what}");
        }
    }

    fn status(id: &str, has_started: bool) -> KubeletStatus {
        let running_id = Some(id.to_owned());
        KubeletStatus { running_id, is_ready: has_started, has_started, ..KubeletStatus::default() }
    }

    /// A replaced container is shown as started and ready until its startup probe has run once.
    #[test]
    fn inherited_status_does_not_count() {
        for (what, period, changes, expected) in [
            ("the probe fails", Some(5), &[(3, false)][..], false),
            ("the probe passes later", Some(5), &[(2, false), (3, true)], true),
            ("the probe passes at once", Some(5), &[], true),
            ("no startup probe", None, &[], true),
        ] {
            let at = |second: u32| now() + STABLE_FOR * second;
            let mut filter = KubeletReadyFilter::new(period.map(|period| STABLE_FOR * period), None);
            filter.on_kubelet_status(&status("c1", true), Some("s"), at(0));
            filter.recheck(Some("s"), at(2));
            assert_eq!(filter.accepted_ready, Some(true), "{what}");
            filter.on_idle();
            filter.on_kubelet_status(&status("c2", true), Some("s"), at(0));
            filter.recheck(Some("s"), at(2));
            assert_eq!(filter.accepted_ready.is_none(), period.is_some(), "{what}");
            for (second, has_started) in changes {
                filter.on_kubelet_status(&status("c2", *has_started), Some("s"), at(*second));
                filter.recheck(Some("s"), at(second + 2));
            }
            filter.recheck(Some("s"), at(7));
            assert_eq!(filter.accepted_ready, Some(expected), "{what}");
        }
    }

    /// A kubelet restart makes the status of an existing container uncertain, but not that of each later one.
    #[test]
    fn container_after_a_kubelet_restart_becomes_ready_again() {
        for is_idle in [false, true] {
            let at = |second: u32| now() + STABLE_FOR * second;
            let mut filter = KubeletReadyFilter::new(Some(STABLE_FOR), None);
            filter.on_kubelet_status(&status("c1", false), Some("s1"), at(0));
            filter.on_kubelet_status(&status("c1", true), Some("s2"), at(1));
            filter.recheck(Some("s2"), at(20));
            assert_eq!(filter.accepted_ready, None, "its startup probe may not have passed");
            if is_idle {
                filter.on_idle();
            }
            filter.on_kubelet_status(&status("c2", false), Some("s2"), at(21));
            filter.on_kubelet_status(&status("c2", true), Some("s2"), at(22));
            filter.recheck(Some("s2"), at(34));
            assert_eq!(filter.accepted_ready, Some(true), "{is_idle}");
        }
    }
}
