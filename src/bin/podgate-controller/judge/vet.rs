//! When the kubelet's `ready` can be trusted. For seconds after its restart it calls containers ready that never were
//! (kubernetes#135795), and takes startup probes for passed for good (kubernetes#142305). So its word must have stood for a
//! second in which `kubernetes.io/config.seen`, which a restart changes, has stayed the same. Pure.

use crate::input::observe::Word;
use std::time::{Duration, Instant};

/// How long the word must have stood.
pub(crate) const STANDS: Duration = Duration::from_secs(1);
/// How long after its restart the kubelet may be wrong (seen: 0.1 to 5 s), unless it has said "not ready" since.
const DOUBT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Vet {
    pending: Option<Pending>,
    accepted: Option<bool>,
    /// The incarnation whose startup probe is known to have passed.
    started: Option<String>,
    /// `config.seen`, as last read.
    seen: Option<String>,
    /// When the kubelet was found to have restarted.
    restarted_at: Option<Instant>,
    /// It has said "not ready" since.
    has_denied: bool,
    /// The container has a startup probe.
    has_startup: bool,
}

#[derive(Debug)]
struct Pending {
    id: String,
    ready: bool,
    started: bool,
    since: Instant,
    config_seen: String,
}

impl Vet {
    pub(crate) fn new(has_startup: bool) -> Vet {
        Vet { has_startup, ..Vet::default() }
    }

    /// Takes in the kubelet's word, together with what `config.seen` is now.
    pub(crate) fn hear(&mut self, word: &Word, config_seen: Option<&str>, now: Instant) {
        let (Some(id), Some(config_seen)) = (&word.running, config_seen) else {
            (self.pending, self.accepted) = (None, None);
            return;
        };
        self.note(config_seen, now);
        self.has_denied |= !word.ready;
        let same = self.pending.as_ref().is_some_and(|pending| {
            pending.id == *id
                && pending.ready == word.ready
                && pending.started == word.started
                && pending.config_seen == config_seen
        });
        if !same {
            let id = id.clone();
            let config_seen = config_seen.to_owned();
            self.pending = Some(Pending { id, ready: word.ready, started: word.started, since: now, config_seen });
        }
    }

    fn note(&mut self, config_seen: &str, now: Instant) {
        let before = self.seen.replace(config_seen.to_owned());
        if before.is_some_and(|before| before != config_seen) {
            (self.restarted_at, self.has_denied) = (Some(now), false);
        }
    }

    /// When to look again; `None` if nothing is pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| self.stands_until(pending))
    }

    fn stands_until(&self, pending: &Pending) -> Instant {
        let stood = pending.since + STANDS;
        match self.restarted_at {
            Some(at) if pending.ready && !self.has_denied && !self.is_known(&pending.id) => stood.max(at + DOUBT),
            _ => stood,
        }
    }

    fn is_known(&self, id: &str) -> bool {
        self.started.as_deref() == Some(id)
    }

    /// Looks again at `now`, with what `config.seen` is by then.
    pub(crate) fn look(&mut self, config_seen: Option<&str>, now: Instant) {
        let Some(pending) = self.pending.take() else { return };
        let Some(seen) = config_seen.filter(|_| self.stands_until(&pending) <= now) else {
            self.pending = Some(pending);
            return;
        };
        self.note(seen, now);
        if seen != pending.config_seen {
            let config_seen = seen.to_owned();
            self.pending = Some(Pending { since: now, config_seen, ..pending });
            return;
        }
        if self.restarted_at.is_some() && self.has_startup && pending.ready && !self.is_known(&pending.id) {
            // This incarnation's startup may have been taken for passed: its word stays doubtful for good.
            return;
        }
        if pending.started && pending.ready {
            self.started = Some(pending.id);
        }
        self.accepted = Some(pending.ready);
    }

    /// The word, if it can be trusted.
    pub(crate) fn word(&self) -> Option<bool> {
        self.accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    fn word(ready: bool) -> Word {
        Word { running: Some("c1".to_owned()), ready, started: true, ..Word::default() }
    }

    #[test]
    fn a_word_counts_once_it_has_stood_for_a_second() {
        let (mut vet, start) = (Vet::default(), now());
        vet.hear(&word(true), Some("s1"), start);
        vet.look(Some("s1"), start + STANDS / 2);
        assert_eq!(vet.word(), None);
        vet.look(Some("s1"), start + STANDS);
        assert_eq!((vet.word(), vet.due()), (Some(true), None));
    }

    #[test]
    fn a_word_that_changes_meanwhile_starts_anew() {
        let (mut vet, start) = (Vet::default(), now());
        vet.hear(&word(true), Some("s1"), start);
        vet.hear(&word(false), Some("s1"), start + STANDS / 2);
        vet.look(Some("s1"), start + STANDS);
        assert_eq!(vet.word(), None);
        vet.look(Some("s1"), start + STANDS * 2);
        assert_eq!(vet.word(), Some(false));
    }

    #[test]
    fn after_a_restart_of_the_kubelet_a_startup_that_was_not_seen_to_pass_is_never_believed() {
        let (mut vet, start) = (Vet::new(true), now());
        vet.hear(&word(false), Some("s1"), start);
        vet.look(Some("s1"), start + STANDS);
        vet.hear(&word(true), Some("s1"), start + STANDS * 2);
        vet.look(Some("s2"), start + STANDS * 3);
        vet.look(Some("s2"), start + STANDS * 60);
        assert_eq!(vet.word(), Some(false), "never ready before");
        let mut known = Vet::new(true);
        known.hear(&word(true), Some("s1"), start);
        known.look(Some("s1"), start + STANDS);
        known.hear(&word(true), Some("s2"), start + STANDS * 2);
        known.look(Some("s2"), start + STANDS * 3);
        assert_eq!(known.word(), Some(true));
    }

    #[test]
    fn after_a_restart_a_ready_counts_once_a_no_has_been_heard_or_the_doubt_is_over() {
        let (mut vet, start) = (Vet::new(false), now());
        vet.hear(&word(false), Some("s1"), start);
        vet.hear(&word(true), Some("s2"), start);
        vet.look(Some("s2"), start + STANDS * 2);
        assert_eq!((vet.word(), vet.due()), (None, Some(start + DOUBT)));
        let mut denied = Vet::new(false);
        denied.hear(&word(false), Some("s1"), start);
        denied.hear(&word(true), Some("s2"), start);
        denied.hear(&word(false), Some("s2"), start + STANDS);
        denied.hear(&word(true), Some("s2"), start + STANDS * 2);
        denied.look(Some("s2"), start + STANDS * 3);
        assert_eq!(denied.word(), Some(true));
        vet.look(Some("s2"), start + DOUBT);
        assert_eq!(vet.word(), Some(true));
    }

    #[test]
    fn without_config_seen_nothing_is_believed() {
        let (mut vet, start) = (Vet::default(), now());
        vet.hear(&word(true), None, start);
        assert_eq!((vet.due(), vet.word()), (None, None));
    }
}
