//! The kubelet's word on a container, which may be late, and may be of another incarnation.

use super::{CLOSES_EARLY, End, Kubelet, Tether, Track};
use podgate::core::report::Report;
use std::time::Instant;

impl Track {
    /// Takes in the kubelet's word.
    pub(crate) fn hear_kubelet(&mut self, word: &Kubelet, now: Instant) {
        let before = self.kubelet.replace(word.clone()).and_then(|word| word.running);
        let is_gate = self.ticket.is_some();
        match (&word.ended, &word.running) {
            (Some((id, _)), _) if self.outlived.as_ref() == Some(id) => {}
            // An end that was never seen running, while somebody lives there, is an earlier one's.
            (Some((id, _)), _) if self.tether == Tether::Held && before.as_ref() != Some(id) => {
                self.outlived = Some(id.clone());
            }
            (Some((id, code)), _) => match &mut self.ended {
                Some(end) if end.id.as_ref().is_none_or(|known| known == id) => {
                    (end.id, end.code) = (Some(id.clone()), Some(*code));
                }
                _ => {
                    self.tether = Tether::Free;
                    self.end(End { id: Some(id.clone()), code: Some(*code), own: false });
                }
            },
            (None, Some(id)) => {
                match &mut self.ended {
                    // The kubelet is late, for as long as something holds it up, and all the more while the pod ends.
                    Some(end) if end.own && end.id.as_ref().is_none_or(|gone| gone == id) => end.id = Some(id.clone()),
                    // The end was an earlier one's. A new gate says so itself; if this one's has said so before that end was
                    // heard of, and its program holds no tether, it counts again once it has been shown running for a while.
                    Some(end) if is_gate && !end.own && end.id.as_ref() != Some(id) => self.ended = None,
                    _ if is_gate => {}
                    _ => {
                        let is_new = before.is_some_and(|old| old != *id && Some(&old) != self.outlived.as_ref());
                        if self.ended.take().is_some() || is_new {
                            self.begin_anew();
                        }
                    }
                }
            }
            _ => {}
        }
        self.linger(now);
    }

    /// A program that holds no tether, found by a controller that has started since its gate has opened, or that was taken for
    /// ended: its report counts once the kubelet has shown it running for a while in which no new gate has reported.
    fn linger(&mut self, now: Instant) {
        let has_opened = self.raw.as_ref().is_some_and(Report::has_opened);
        let candidate = self.tether == Tether::Free && self.ended.is_none() && has_opened;
        let Some(id) = self.running_id().filter(|_| candidate) else {
            self.lingers = None;
            return;
        };
        match &self.lingers {
            Some((_, known)) if *known == id => {}
            _ => self.lingers = Some((now, id)),
        }
    }

    /// When [`tick`](Track::tick) has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lingers.as_ref().map(|(since, _)| *since + CLOSES_EARLY)
    }

    pub(crate) fn tick(&mut self, epoch: &str, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.lingers = None;
            self.tether = Tether::Untethered;
            self.report = self.raw.clone().filter(|report| self.counts(report, epoch));
        }
    }
}
