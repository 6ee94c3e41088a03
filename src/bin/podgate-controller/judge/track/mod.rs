//! One container: what has been heard of it, and what that makes of it. Pure: evidence goes in, with the time at which it came.

mod folder;
mod kubelet;

use crate::input::observe::Word as Kubelet;
use podgate::core::authority::{Evidence, Inside};
use podgate::core::container::{Container, Mode};
use podgate::core::probe;
use podgate::core::report::{Gate, Report, Stopping};
use podgate::core::state::State;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A tether that drops so soon after the gate has opened was let go by a program that closes what it inherits.
const CLOSES_EARLY: Duration = Duration::from_secs(2);

/// What is known of one container.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) declared: Container,
    /// As it lies in the folder, whatever it is worth.
    raw: Option<Report>,
    /// The same, if it counts.
    pub(super) report: Option<Report>,
    pub(super) tether: Tether,
    /// When its gate was first seen open.
    opened_at: Option<Instant>,
    /// Which start of its gate this is.
    ticket: Option<String>,
    /// What its gate still waits for before it is heard.
    pub(super) hearing: Option<Hearing>,
    pub(super) kubelet: Option<Kubelet>,
    pub(super) ended: Option<End>,
    /// An incarnation whose end counts no more, since its successor has reported.
    outlived: Option<String>,
    /// Since when the kubelet shows it running though its report is of an earlier epoch and its tether is gone.
    lingers: Option<(Instant, String)>,
    pub(super) probed: Option<probe::Word>,
    pub(super) listens: bool,
    pub(super) vetted: Option<bool>,
    pub(super) forced: Option<State>,
    pub(super) was_ready: bool,
    pub(super) has_started: bool,
    pub(super) state: State,
    pub(super) restarts: u64,
    /// Its probing belongs to an incarnation that is over.
    probing_is_old: bool,
}

/// The lock that a container's process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tether {
    /// Nobody holds it.
    Free,
    /// Somebody of the container does, so it lives.
    Held,
    /// Its program has let go of it and runs: only the kubelet knows when it ends.
    Untethered,
}

/// How a container has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) id: Option<String>,
    pub(crate) code: Option<i32>,
    /// It was found out by its tether or its parent, and not by the kubelet's word.
    own: bool,
}

/// A gate that has reported, and what must be looked at once more before it is told so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hearing {
    pub(super) since: Instant,
    /// Containers to be probed once more.
    pub(super) unconfirmed: BTreeSet<String>,
    /// The API's word is old.
    pub(super) wants_facts: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Folder {
    pub(crate) report: Option<Report>,
    /// It is another file than before.
    pub(crate) rewritten: bool,
    /// Somebody holds the tether.
    pub(crate) held: bool,
    /// Something listens on the container's port now; asked only where a tether has dropped.
    pub(crate) listens: bool,
}

impl Track {
    pub(super) fn new(declared: Container) -> Track {
        Track {
            declared,
            raw: None,
            report: None,
            tether: Tether::Free,
            opened_at: None,
            ticket: None,
            hearing: None,
            kubelet: None,
            ended: None,
            outlived: None,
            lingers: None,
            probed: None,
            listens: false,
            vetted: None,
            forced: None,
            was_ready: false,
            has_started: false,
            state: State::Waiting,
            restarts: 0,
            probing_is_old: false,
        }
    }

    /// Its readiness depends on what only the container or the kubelet can run.
    pub(crate) fn needs_kubelet(&self) -> bool {
        self.declared.probes().any(|probe| probe.is_exec())
    }

    pub(super) fn reports_start(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.started)
    }

    pub(super) fn gate_closed(&self) -> bool {
        self.declared.mode == Mode::Entrypoint && !self.report.as_ref().is_some_and(Report::has_opened)
    }

    /// Its gate waits, and says so to this controller.
    pub(super) fn gate_waits(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.gate == Some(Gate::Waiting))
    }

    pub(super) fn runs_by_kubelet(&self) -> bool {
        self.kubelet.as_ref().is_some_and(|word| word.running.is_some())
    }

    pub(super) fn runs_by_hook_or_kubelet(&self) -> bool {
        self.reports_start() || self.runs_by_kubelet()
    }

    pub(crate) fn kubelet(&self) -> Option<&Kubelet> {
        self.kubelet.as_ref()
    }

    /// Whether it has passed its probes, in this incarnation.
    pub(crate) fn has_passed(&self) -> bool {
        self.probed == Some(probe::Word::Passed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether nobody will start it again, by what is declared of it: where no API says so.
    pub(super) fn ended_for_good_as_declared(&self) -> bool {
        let Some(end) = &self.ended else { return false };
        match self.declared.restart_policy.as_deref() {
            Some("Never") => true,
            Some("OnFailure") => end.code == Some(0),
            _ => false,
        }
    }

    /// The ticket of its gate, where that waits and has been heard.
    pub(super) fn heard(&self) -> Option<&str> {
        let done = self.hearing.as_ref().is_some_and(|h| h.unconfirmed.is_empty() && !h.wants_facts);
        self.ticket.as_deref().filter(|_| done && self.gate_waits())
    }

    pub(crate) fn stopping(&self) -> Stopping {
        self.report.as_ref().map_or(Stopping::No, |report| report.stopping)
    }

    /// Whether the drop of its tether now would be taken for its end.
    pub(crate) fn would_end(&self) -> bool {
        self.tether == Tether::Held && self.raw.as_ref().is_some_and(Report::has_opened)
    }

    /// Whether its probing has to begin anew; asked once.
    pub(super) fn take_old_probing(&mut self) -> bool {
        std::mem::take(&mut self.probing_is_old)
    }

    /// Forgets what belonged to an incarnation that is over.
    fn renew(&mut self) {
        (self.probed, self.listens, self.vetted, self.was_ready) = (None, false, None, false);
        self.probing_is_old = true;
    }

    /// Another incarnation has begun.
    fn begin_anew(&mut self) {
        self.restarts += 1;
        self.renew();
        for report in [&mut self.report, &mut self.raw].into_iter().flatten() {
            report.stopping = Stopping::No;
        }
    }

    fn outlive(&mut self) {
        let id = self.ended.take().and_then(|end| end.id).or_else(|| self.running_id());
        self.outlived = id;
        self.begin_anew();
    }

    fn running_id(&self) -> Option<String> {
        self.kubelet.as_ref().and_then(|word| word.running.clone())
    }

    fn end(&mut self, end: End) {
        self.ended = Some(end);
        self.report = None;
        self.renew();
    }

    pub(super) fn evidence(&self, resumed: bool) -> Evidence {
        let answers = self.listens || self.probed.is_some_and(|word| word != probe::Word::NotYet);
        // A hook reports before anything can be Ready; only where hooks may be over already is an answer enough. A container
        // with neither hook nor gate can show itself by no other sign under a frozen kubelet.
        let by_answer = answers && (resumed || self.declared.mode != Mode::PostStart);
        let has_outside = self.declared.probes().any(|probe| !probe.is_exec());
        Evidence {
            // How it ended may be known only a little later: until then, not well.
            exit_code: self.ended.as_ref().map(|end| end.code.unwrap_or(-1)),
            gate_closed: self.gate_closed(),
            started: self.runs_by_hook_or_kubelet() || by_answer,
            probed: has_outside.then(|| self.probed.unwrap_or(probe::Word::NotYet)),
            exec: self.needs_kubelet().then(|| Inside {
                reported: self.report.as_ref().is_some_and(|report| report.check_passed),
                kubelet_ready: self.vetted,
            }),
            was_ready: self.was_ready,
        }
    }
}
