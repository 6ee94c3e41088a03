//! Publishes states: on the board, in the log and as metrics. Prepares the annotations for the API.

use crate::clock::wall_clock;
use crate::model::milestones::MilestoneRecorder;
use crate::model::pod::PodModel;
use crate::output::board::Board;
use crate::output::metrics::Metrics;
use podgate::core::annotations::{self, Annotations};
use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use std::rc::Rc;
use tracing::{error, info};

pub(crate) struct Publisher {
    pub(crate) board: Board,
    pub(crate) metrics: Rc<Metrics>,
    pub(crate) milestones: MilestoneRecorder,
    last: Option<Snapshot>,
    /// Annotations last returned for the API, without those that change with every publication, such as the revision.
    last_api_annotations: Annotations,
}

impl Publisher {
    pub(crate) fn new(board: Board, metrics: Rc<Metrics>, milestones: MilestoneRecorder) -> Publisher {
        Publisher { board, metrics, milestones, last: None, last_api_annotations: Annotations::new() }
    }

    /// Publishes the Pod's changed snapshot on the board, in the log and as metrics.
    pub(crate) fn publish_new_snapshot(&mut self, pod: &PodModel) {
        self.write_board(pod);
        let Some(snapshot) = &pod.published else { return };
        let last = self.last.replace(snapshot.clone());
        for (name, state) in &snapshot.states {
            let before = last.as_ref().and_then(|last| last.states.get(name)).copied();
            if before == Some(*state) {
                continue;
            }
            self.metrics.record_transition(name, before, *state);
            if *state == State::Violated {
                error!(container = %name, "the container was created although its gate is closed; the order is not kept");
            } else if let Some(before) = before {
                info!(container = %name, was = %before, state = %state, revision = snapshot.revision, "state changed");
            }
        }
        if last.is_none_or(|last| last.stage != snapshot.stage) {
            info!(stage = %snapshot.stage, revision = snapshot.revision, "stage changed");
        }
    }

    /// Writes the Pod's snapshot on the board. `Board` logs failures and sets the time of the next attempt.
    pub(crate) fn write_board(&mut self, pod: &PodModel) {
        let Some(snapshot) = &pod.published else { return };
        let mut annotations = self.annotations(snapshot);
        if let Some(since) = pod.sandbox_started_at {
            annotations
                .insert(names::SANDBOX_SINCE_KEY.to_owned(), humantime::format_rfc3339_seconds(since).to_string());
        }
        self.board.write(&annotations);
    }

    /// Returns the Pod's annotations for the API, as the admission policy allows them; `None` if they have not changed
    /// since the last call. A patch with a new number of releases triggers a Pod sync, in which the kubelet creates a
    /// released container or repeats a lost probe.
    pub(crate) fn take_api_annotations(&mut self, pod: &PodModel) -> Option<Annotations> {
        let snapshot = pod.published.as_ref()?;
        let mut annotations = self.annotations(snapshot);
        for key in
            [names::CONFIRMED_TICKETS_KEY, names::STARTUP_RESULTS_KEY, names::POD_IP_KEY, names::WILL_RESTART_KEY]
        {
            annotations.remove(key);
        }
        if let Some(count) = pod.sync_request_count() {
            // Include the epoch, so that a restarted sidecar never repeats a value that the Pod already has.
            annotations.insert(names::RELEASE_COUNT_KEY.to_owned(), format!("{}.{count}", snapshot.epoch));
        }
        annotations.values_mut().for_each(annotations::drop_items_over_max);
        let volatile = [names::REVISION_KEY, names::LAST_SEEN_TIME_KEY, names::MILESTONE_TIMES_KEY];
        let lasting = annotations.iter().filter(|(key, _)| !volatile.contains(&key.as_str()));
        let lasting: Annotations = lasting.map(|(key, value)| (key.clone(), value.clone())).collect();
        let before = std::mem::replace(&mut self.last_api_annotations, lasting);
        (before != self.last_api_annotations).then_some(annotations)
    }

    fn annotations(&self, snapshot: &Snapshot) -> Annotations {
        let mut annotations = snapshot.to_annotations();
        if let Some(times) = self.milestones.annotation_value() {
            annotations.insert(names::MILESTONE_TIMES_KEY.to_owned(), times);
        }
        annotations
            .insert(names::LAST_SEEN_TIME_KEY.to_owned(), humantime::format_rfc3339_seconds(wall_clock()).to_string());
        annotations
    }
}
