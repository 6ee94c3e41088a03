//! When the kubelet's `ready` can be trusted. For seconds after its restart it calls containers ready that never were
//! (kubernetes#135795), and takes startup probes for passed for good (kubernetes#142305). So its word must have stood for a
//! second in which `kubernetes.io/config.seen`, which a restart changes, has stayed the same. Pure.

use crate::input::pod_facts::KubeletStatus;
use std::time::{Duration, Instant};

/// How long the word must have stood.
pub(crate) const STABLE_FOR: Duration = Duration::from_secs(1);
/// How long after its restart the kubelet may be wrong (seen: 0.1 to 5 s), unless it has said "not ready" since.
const DISTRUST_AFTER_RESTART: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct ReadyFilter {
    pending_status: Option<PendingStatus>,
    accepted_ready: Option<bool>,
    /// The incarnation whose startup probe is known to have passed.
    startup_passed_id: Option<String>,
    /// `config.seen`, as last read.
    config_seen: Option<String>,
    /// When the kubelet was found to have restarted.
    restarted_at: Option<Instant>,
    /// It has said "not ready" since.
    has_been_not_ready: bool,
    /// The container has a startup probe.
    has_startup_probe: bool,
}

#[derive(Debug)]
struct PendingStatus {
    id: String,
    is_ready: bool,
    has_started: bool,
    since: Instant,
    config_seen: String,
}

impl ReadyFilter {
    pub(crate) fn new(has_startup: bool) -> ReadyFilter {
        ReadyFilter { has_startup_probe: has_startup, ..ReadyFilter::default() }
    }

    /// Takes in the kubelet's word, together with what `config.seen` is now.
    pub(crate) fn on_kubelet_status(&mut self, word: &KubeletStatus, config_seen: Option<&str>, now: Instant) {
        let (Some(id), Some(config_seen)) = (&word.running_id, config_seen) else {
            (self.pending_status, self.accepted_ready) = (None, None);
            return;
        };
        self.note_config_seen(config_seen, now);
        self.has_been_not_ready |= !word.is_ready;
        let same = self.pending_status.as_ref().is_some_and(|pending| {
            pending.id == *id
                && pending.is_ready == word.is_ready
                && pending.has_started == word.has_started
                && pending.config_seen == config_seen
        });
        if !same {
            let id = id.clone();
            let config_seen = config_seen.to_owned();
            self.pending_status = Some(PendingStatus {
                id,
                is_ready: word.is_ready,
                has_started: word.has_started,
                since: now,
                config_seen,
            });
        }
    }

    fn note_config_seen(&mut self, config_seen: &str, now: Instant) {
        let before = self.config_seen.replace(config_seen.to_owned());
        if before.is_some_and(|before| before != config_seen) {
            (self.restarted_at, self.has_been_not_ready) = (Some(now), false);
        }
    }

    /// When to look again; `None` if nothing is pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pending_status.as_ref().map(|pending| self.trusted_at(pending))
    }

    fn trusted_at(&self, pending: &PendingStatus) -> Instant {
        let stood = pending.since + STABLE_FOR;
        match self.restarted_at {
            Some(at) if pending.is_ready && !self.has_been_not_ready && !self.has_passed_startup(&pending.id) => {
                stood.max(at + DISTRUST_AFTER_RESTART)
            }
            _ => stood,
        }
    }

    fn has_passed_startup(&self, id: &str) -> bool {
        self.startup_passed_id.as_deref() == Some(id)
    }

    /// Looks again at `now`, with what `config.seen` is by then.
    pub(crate) fn recheck(&mut self, config_seen: Option<&str>, now: Instant) {
        let Some(pending) = self.pending_status.take() else { return };
        let Some(seen) = config_seen.filter(|_| self.trusted_at(&pending) <= now) else {
            self.pending_status = Some(pending);
            return;
        };
        self.note_config_seen(seen, now);
        if seen != pending.config_seen {
            let config_seen = seen.to_owned();
            self.pending_status = Some(PendingStatus { since: now, config_seen, ..pending });
            return;
        }
        if self.restarted_at.is_some()
            && self.has_startup_probe
            && pending.is_ready
            && !self.has_passed_startup(&pending.id)
        {
            // This incarnation's startup may have been taken for passed: its word stays doubtful for good.
            return;
        }
        if pending.has_started && pending.is_ready {
            self.startup_passed_id = Some(pending.id);
        }
        self.accepted_ready = Some(pending.is_ready);
    }

    /// The word, if it can be trusted.
    pub(crate) fn trusted_ready(&self) -> Option<bool> {
        self.accepted_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    fn status(ready: bool) -> KubeletStatus {
        KubeletStatus {
            running_id: Some("c1".to_owned()),
            is_ready: ready,
            has_started: true,
            ..KubeletStatus::default()
        }
    }

    #[test]
    fn a_word_counts_once_it_has_stood_for_a_second() {
        let (mut vet, start) = (ReadyFilter::default(), now());
        vet.on_kubelet_status(&status(true), Some("s1"), start);
        vet.recheck(Some("s1"), start + STABLE_FOR / 2);
        assert_eq!(vet.trusted_ready(), None);
        vet.recheck(Some("s1"), start + STABLE_FOR);
        assert_eq!((vet.trusted_ready(), vet.due()), (Some(true), None));
    }

    #[test]
    fn a_word_that_changes_meanwhile_starts_anew() {
        let (mut vet, start) = (ReadyFilter::default(), now());
        vet.on_kubelet_status(&status(true), Some("s1"), start);
        vet.on_kubelet_status(&status(false), Some("s1"), start + STABLE_FOR / 2);
        vet.recheck(Some("s1"), start + STABLE_FOR);
        assert_eq!(vet.trusted_ready(), None);
        vet.recheck(Some("s1"), start + STABLE_FOR * 2);
        assert_eq!(vet.trusted_ready(), Some(false));
    }

    #[test]
    fn after_a_restart_of_the_kubelet_a_startup_that_was_not_seen_to_pass_is_never_believed() {
        let (mut vet, start) = (ReadyFilter::new(true), now());
        vet.on_kubelet_status(&status(false), Some("s1"), start);
        vet.recheck(Some("s1"), start + STABLE_FOR);
        vet.on_kubelet_status(&status(true), Some("s1"), start + STABLE_FOR * 2);
        vet.recheck(Some("s2"), start + STABLE_FOR * 3);
        vet.recheck(Some("s2"), start + STABLE_FOR * 60);
        assert_eq!(vet.trusted_ready(), Some(false), "never ready before");
        let mut known = ReadyFilter::new(true);
        known.on_kubelet_status(&status(true), Some("s1"), start);
        known.recheck(Some("s1"), start + STABLE_FOR);
        known.on_kubelet_status(&status(true), Some("s2"), start + STABLE_FOR * 2);
        known.recheck(Some("s2"), start + STABLE_FOR * 3);
        assert_eq!(known.trusted_ready(), Some(true));
    }

    #[test]
    fn after_a_restart_a_ready_counts_once_a_no_has_been_heard_or_the_doubt_is_over() {
        let (mut vet, start) = (ReadyFilter::new(false), now());
        vet.on_kubelet_status(&status(false), Some("s1"), start);
        vet.on_kubelet_status(&status(true), Some("s2"), start);
        vet.recheck(Some("s2"), start + STABLE_FOR * 2);
        assert_eq!((vet.trusted_ready(), vet.due()), (None, Some(start + DISTRUST_AFTER_RESTART)));
        let mut denied = ReadyFilter::new(false);
        denied.on_kubelet_status(&status(false), Some("s1"), start);
        denied.on_kubelet_status(&status(true), Some("s2"), start);
        denied.on_kubelet_status(&status(false), Some("s2"), start + STABLE_FOR);
        denied.on_kubelet_status(&status(true), Some("s2"), start + STABLE_FOR * 2);
        denied.recheck(Some("s2"), start + STABLE_FOR * 3);
        assert_eq!(denied.trusted_ready(), Some(true));
        vet.recheck(Some("s2"), start + DISTRUST_AFTER_RESTART);
        assert_eq!(vet.trusted_ready(), Some(true));
    }

    #[test]
    fn without_config_seen_nothing_is_believed() {
        let (mut vet, start) = (ReadyFilter::default(), now());
        vet.on_kubelet_status(&status(true), None, start);
        assert_eq!((vet.due(), vet.trusted_ready()), (None, None));
    }
}
