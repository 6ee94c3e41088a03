//! Containers that podgate watches while the command runs. The exit of all `--stop-after` containers or the restart of
//! a `--restart-with` container ends the command. The decisions depend only on the view of the pod and the time.

use super::EndReason;
use crate::args::EntrypointArgs;
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::PodView;
use podgate::core::state::{Stage, State};
use podgate::core::until::{WaitCondition, WantedState};
use std::time::{Duration, Instant};

/// Time to wait for the restart of a failed container, if it is unknown whether the kubelet restarts that container.
const RESTART_WINDOW: Duration = Duration::from_secs(10);

pub(super) struct Dependencies {
    /// Containers of `--stop-after`. The command ends when all of them have exited.
    stop_after: Vec<String>,
    /// Time at which [`RESTART_WINDOW`] began: all containers of `stop_after` had ended, but perhaps not for good.
    ended_at: Option<Instant>,
    providers: Vec<Provider>,
}

/// A container of `--restart-with`.
struct Provider {
    until: WaitCondition,
    /// Epoch in which `until` was met, and the container's number of restarts at that time. `None` before `until` was
    /// met.
    baseline: Option<(String, u64)>,
}

impl Dependencies {
    pub(super) fn new(args: &EntrypointArgs) -> Dependencies {
        let provider = |name: &String| {
            let until = args.waits.until.iter().find(|until| until.container == *name).cloned();
            let started = || WaitCondition { container: name.clone(), want: WantedState::Started };
            Provider { until: until.unwrap_or_else(started), baseline: None }
        };
        Dependencies {
            stop_after: args.stop_after.clone(),
            ended_at: None,
            providers: args.restart_with.iter().map(provider).collect(),
        }
    }

    pub(super) fn watched_containers(&self) -> Vec<String> {
        let providers = self.providers.iter().map(|provider| &provider.until.container);
        let mut names: Vec<String> = self.stop_after.iter().chain(providers).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the reason why the command must end now; `None` if it may continue, or if `view` has no snapshot.
    pub(super) fn end_reason(&mut self, view: &PodView, now: Instant) -> Option<EndReason> {
        let snapshot = view.chosen_snapshot()?;
        if !self.stop_after.is_empty() && self.have_exited(snapshot, now) {
            return Some(EndReason::AllExited);
        }
        // In a pod that is being deleted, containers end but are not restarted.
        if snapshot.stage == Stage::Terminating {
            return None;
        }
        let mut restarted = self.providers.iter_mut().filter_map(|provider| provider.detect_restart(snapshot));
        restarted.next().map(EndReason::Restarted)
    }

    /// Returns true if all of `stop_after` have exited and will not be restarted. Under `restartPolicy: OnFailure` the
    /// kubelet restarts a failed container, and that container still needs the command.
    fn have_exited(&mut self, snapshot: &Snapshot, now: Instant) -> bool {
        let state = |name: &String| snapshot.states.get(name).copied();
        // A container whose gate has ended for good is before its start.
        let may_be_over = |name: &String| {
            let has_ended = state(name).is_some_and(State::has_ended) || snapshot.has_ended_for_good(name);
            has_ended && !snapshot.restarting.contains(name)
        };
        if !self.stop_after.iter().all(may_be_over) {
            self.ended_at = None;
            return false;
        }
        let is_over = |name: &String| state(name) == Some(State::Completed) || snapshot.has_ended_for_good(name);
        let since = *self.ended_at.get_or_insert(now);
        self.stop_after.iter().all(is_over) || now.saturating_duration_since(since) >= RESTART_WINDOW
    }

    /// Returns the containers of --stop-after that this pod does not have.
    pub(super) fn unknown_stop_after(&self, view: &PodView) -> Vec<String> {
        let Some(snapshot) = view.chosen_snapshot().filter(|found| !found.states.is_empty()) else { return Vec::new() };
        self.stop_after.iter().filter(|name| !snapshot.states.contains_key(*name)).cloned().collect()
    }
}

impl Provider {
    /// Returns the provider's name if the provider was restarted, otherwise `None`. A restarted sidecar counts restarts
    /// from 0, and begins with all containers `Waiting`. So in each epoch, the new baseline is the restart count
    /// when the condition is first met.
    fn detect_restart(&mut self, snapshot: &Snapshot) -> Option<String> {
        let count = snapshot.restarts.get(&self.until.container).copied().unwrap_or(0);
        match &self.baseline {
            Some((epoch, before)) if *epoch == snapshot.epoch => {
                let state = snapshot.states.get(&self.until.container);
                let has_left = matches!(state, Some(State::Waiting | State::Completed | State::Failed));
                let regressed = has_left && !self.until.want.is_exit();
                (count > *before || regressed).then(|| self.until.container.clone())
            }
            _ => {
                if self.until.is_met(snapshot) {
                    self.baseline = Some((snapshot.epoch.clone(), count));
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use podgate::core::sources::Source;

    #[test]
    fn failed_container_may_restart_within_the_window() {
        let mut dependencies =
            Dependencies { stop_after: vec!["db".to_owned()], ended_at: None, providers: Vec::new() };
        let begin = now();
        let late = begin + RESTART_WINDOW;
        let mut look = |s: &Snapshot, at| dependencies.end_reason(&PodView::Snapshot(s.clone(), Source::Board), at);
        let snapshot = Snapshot::new("0-0-0".parse().unwrap(), "e1", &[("db", State::Failed)]);
        let failed = Snapshot { stage: Stage::Started, ..snapshot };
        assert_eq!(look(&failed, begin), None);
        let mut s = failed.clone();
        s.restarting.insert("db".to_owned());
        assert_eq!(look(&s, late), None);
        s.restarting.clear();
        s.states.insert("db".to_owned(), State::Started);
        assert_eq!(look(&s, late), None);
        // The kubelet may still restart the container until the window has passed.
        assert_eq!(look(&failed, late), None);
        assert_eq!(look(&failed, late + RESTART_WINDOW), Some(EndReason::AllExited));
    }
}
