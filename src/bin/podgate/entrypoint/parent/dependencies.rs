//! What the parent goes on watching of the pod: those whose exit ends the command, and those whose restart does. Decided from
//! what is believed of the pod alone.

use super::verdict::EndReason;
use crate::args::{Entrypoint, OnProviderRestart};
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::{PodView, Source};
use podgate::core::state::{Phase, State};
use podgate::core::until::{ConditionStatus, WaitCondition, WantedState};
use std::time::{Duration, Instant};

/// How long one that has failed is given to be started again, where nobody says that it will not be.
const RESTART_WINDOW: Duration = Duration::from_secs(10);

/// The containers that the command depends on.
#[derive(Debug)]
pub(super) struct Dependencies {
    /// When all of these have exited, so shall the command.
    stop_after: Vec<String>,
    /// Since when all of them have ended, though not all are known to have ended for good.
    ended_at: Option<Instant>,
    providers: Vec<Provider>,
}

/// A container that the gate has waited for.
#[derive(Debug)]
struct Provider {
    until: WaitCondition,
    /// The epoch in which its condition was seen to hold, and how often it had been restarted then.
    baseline: Option<(String, u64)>,
}

impl Dependencies {
    pub(super) fn new(args: &Entrypoint) -> Dependencies {
        let untils: &[WaitCondition] = match args.on_provider_restart {
            OnProviderRestart::Restart => &args.waits.until,
            OnProviderRestart::Ignore => &[],
        };
        Dependencies {
            stop_after: args.stop_after.clone(),
            ended_at: None,
            providers: untils.iter().map(|until| Provider { until: until.clone(), baseline: None }).collect(),
        }
    }

    /// Those that are watched, each once.
    pub(super) fn watched_containers(&self) -> Vec<String> {
        let providers = self.providers.iter().map(|provider| &provider.until.container);
        let mut names: Vec<String> = self.stop_after.iter().chain(providers).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether the command has to end, by what is believed now. No word is no reason.
    pub(super) fn end_reason(&mut self, view: &PodView, now: Instant) -> Option<EndReason> {
        let PodView::Snapshot(snapshot, _) = view else { return None };
        if !self.stop_after.is_empty() && self.have_exited(snapshot, now) {
            return Some(EndReason::AllExited);
        }
        // A pod that is being deleted loses its containers, and starts none of them again.
        if snapshot.phase == Phase::Terminating {
            return None;
        }
        let mut restarted = self.providers.iter_mut().filter_map(|provider| provider.detect_restart(snapshot));
        restarted.next().map(EndReason::Restarted)
    }

    /// Under `restartPolicy: OnFailure` one that has failed is started again: who serves it stays.
    fn have_exited(&mut self, snapshot: &Snapshot, now: Instant) -> bool {
        let state = |name: &String| snapshot.states.get(name).copied();
        let for_good = |name: &String| {
            state(name) == Some(State::Completed)
                || state(name).is_some_and(State::has_ended) && snapshot.has_ended_for_good(name)
        };
        if self.stop_after.iter().all(for_good) {
            return true;
        }
        let ended = |name: &String| {
            for_good(name) || state(name).is_some_and(State::has_ended) && !snapshot.stuck.contains_key(name)
        };
        if !self.stop_after.iter().all(ended) {
            self.ended_at = None;
            return false;
        }
        now.saturating_duration_since(*self.ended_at.get_or_insert(now)) >= RESTART_WINDOW
    }

    /// Those of --stop-after that this pod does not have, so that they will never exit.
    pub(super) fn unknown_containers(&self, view: &PodView) -> Vec<String> {
        match view {
            PodView::Snapshot(snapshot, Source::Board) if !snapshot.states.is_empty() => {
                self.stop_after.iter().filter(|name| !snapshot.states.contains_key(*name)).cloned().collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Provider {
    /// Its name, if it was started again. Counts are of one epoch: a controller that has begun anew has forgotten them, and takes
    /// every container for `Waiting` until it has looked. So they count again only once the condition has been seen to hold.
    fn detect_restart(&mut self, snapshot: &Snapshot) -> Option<String> {
        let count = snapshot.restarts.get(&self.until.container).copied().unwrap_or(0);
        match &self.baseline {
            Some((epoch, before)) if *epoch == snapshot.epoch => {
                let fell = match self.until.want {
                    WantedState::Started | WantedState::Ready => matches!(
                        snapshot.states.get(&self.until.container),
                        Some(State::Waiting | State::Completed | State::Failed)
                    ),
                    WantedState::Completed | WantedState::Exited => false,
                };
                (count > *before || fell).then(|| self.until.container.clone())
            }
            _ => {
                if self.until.status(snapshot) == ConditionStatus::Met {
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
    use podgate::core::snapshot::REASON_ENDED;

    fn snapshot(epoch: &str, state: State, restarts: u64) -> Snapshot {
        Snapshot {
            phase: Phase::Started,
            restarts: [("db".to_owned(), restarts)].into(),
            ..Snapshot::new("0-0-0".parse().unwrap(), epoch, &[("db", state), ("app", State::Ready)])
        }
    }

    fn view(snapshot: Snapshot) -> PodView {
        PodView::Snapshot(snapshot, Source::Board)
    }

    fn dependencies(until: Option<&str>, stop_after: &[&str]) -> Dependencies {
        let providers = until.map(|until| Provider { until: until.parse().unwrap(), baseline: None });
        let stop_after = stop_after.iter().map(|name| (*name).to_owned()).collect();
        Dependencies { stop_after, ended_at: None, providers: providers.into_iter().collect() }
    }

    /// Looks at epoch, state and count of restarts of `db`, one after the other; returns whether the last shows a restart.
    fn is_restart(until: &str, snapshots: &[(&str, State, u64)]) -> bool {
        let mut follow = dependencies(Some(until), &[]);
        let mut look = |(epoch, state, restarts)| follow.end_reason(&view(snapshot(epoch, state, restarts)), now());
        let (last, before) = snapshots.split_last().unwrap();
        for snapshot in before {
            assert_eq!(look(*snapshot), None, "{until} {snapshot:?}");
        }
        let found = look(*last);
        assert!(found.is_none() || found == Some(EndReason::Restarted("db".to_owned())));
        found.is_some()
    }

    #[test]
    fn a_count_that_grows_or_a_state_that_falls_is_a_restart() {
        for (state, count, is) in [
            (State::Ready, 1, false),
            (State::NotReady, 1, false),
            (State::Started, 1, false),
            (State::Ready, 2, true),
            (State::Waiting, 1, true),
            (State::Completed, 1, true),
            (State::Failed, 1, true),
        ] {
            assert_eq!(is_restart("db", &[("e1", State::Ready, 1), ("e1", state, count)]), is, "{state} {count}");
        }
    }

    #[test]
    fn a_condition_on_an_exit_is_not_undone_by_it() {
        let completed = ("e1", State::Completed, 0);
        assert!(is_restart("db=Completed", &[completed, completed, ("e1", State::Started, 1)]));
    }

    #[test]
    fn a_new_epoch_proves_nothing_until_the_condition_holds_in_it() {
        let anew = [State::Waiting, State::Started, State::Ready, State::Waiting].map(|state| ("e2", state, 0));
        assert!(is_restart("db", &[[("e1", State::Ready, 3)].as_slice(), &anew].concat()));
    }

    #[test]
    fn what_never_held_can_not_be_lost() {
        assert!(!is_restart("db", &[("e1", State::Waiting, 0), ("e1", State::Failed, 1)]));
    }

    #[test]
    fn the_pods_deletion_is_no_restart() {
        let mut follow = dependencies(Some("db"), &[]);
        assert_eq!(follow.end_reason(&view(snapshot("e1", State::Ready, 0)), now()), None);
        let deleted = Snapshot { phase: Phase::Terminating, ..snapshot("e1", State::Failed, 0) };
        assert_eq!(follow.end_reason(&view(deleted), now()), None);
    }

    #[test]
    fn it_ends_when_all_have_exited() {
        let mut follow = dependencies(None, &["db", "app"]);
        let mut look = |s: &Snapshot| follow.end_reason(&view(s.clone()), now());
        let mut s = snapshot("e1", State::Failed, 0);
        s.stuck.insert("db".to_owned(), REASON_ENDED.to_owned());
        assert_eq!(look(&s), None);
        s.states.insert("app".to_owned(), State::Completed);
        assert_eq!(look(&s), Some(EndReason::AllExited));
        s.states.remove("app");
        assert_eq!(look(&s), None);
        assert_eq!(follow.unknown_containers(&view(s)), ["app"]);
    }

    #[test]
    fn one_that_fails_and_is_started_again_has_not_exited() {
        let mut follow = dependencies(None, &["db"]);
        let begin = now();
        let late = begin + RESTART_WINDOW;
        let mut look = |s: &Snapshot, at| follow.end_reason(&view(s.clone()), at);
        let failed = snapshot("e1", State::Failed, 0);
        assert_eq!(look(&failed, begin), None);
        let mut s = failed.clone();
        s.stuck.insert("db".to_owned(), "CrashLoopBackOff".to_owned());
        assert_eq!(look(&s, late), None);
        s.states.insert("db".to_owned(), State::Started);
        assert_eq!(look(&s, late), None);
        // Nobody says what will be.
        assert_eq!(look(&failed, late), None);
        assert_eq!(look(&failed, late + RESTART_WINDOW), Some(EndReason::AllExited));
    }
}
