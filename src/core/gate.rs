//! A gate's decision: a function of what is believed of the pod, what the container has looked at by itself, and how long the
//! gate has waited. The reason is part of the result, so that the user can be told what the gate waits for.

use crate::core::exit::Exit;
use crate::core::snapshot::Snapshot;
use crate::core::sources::{Absence, Source, View};
use crate::core::state::{Phase, State};
use crate::core::until::{Standing, Until};
use std::fmt;
use std::time::Duration;

/// How long a board may lack a container, or speak of another sandbox, before that is named.
pub const SETTLING: Duration = Duration::from_secs(2);

/// What a gate waits for, and under which rules.
#[derive(Debug, Clone)]
pub struct Terms<'a> {
    /// Where the gate stands.
    pub kind: Kind<'a>,
    /// Conditions on containers; all must hold.
    pub untils: &'a [Until],
    /// End as soon as a condition can't be met without help.
    pub fail_fast: bool,
}

/// Where a gate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// In the postStart hook of this container: while it waits, the kubelet does nothing else for the pod.
    Hook(&'a str),
    /// In front of a container's command, with this ticket.
    Entrypoint(&'a str),
}

/// What the gate itself has seen, beside the sources.
#[derive(Debug, Clone, Default)]
pub struct Waiter {
    /// Checks that have not passed, each with what it last gave.
    pub pending_checks: Vec<String>,
    /// A check that can never pass.
    pub hopeless: Option<String>,
    /// Whether the controller lives.
    pub controller: Controller,
    /// How long the gate has waited.
    pub waited: Duration,
}

/// What the gate has found of the controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Controller {
    /// It lives, or nothing says that it does not.
    #[default]
    Lives,
    /// It has died. Under a hook it can't come back, so the gate judges by its fallback check, if it has one: what that last
    /// gave, or `Ok` once it has passed.
    Dead(Option<Result<(), String>>),
}

/// Why a gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// All conditions hold.
    Met,
    /// The pod had started before: this is the restart of one container, which must not freeze the others.
    AlreadyStarted,
    /// The pod is being deleted.
    Terminating,
    /// The controller is dead, and the fallback check has passed.
    Fallback,
}

/// One reason why a gate is closed, in the words that its user reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The container is in a state that does not meet the condition.
    #[error("{0} (now {1})")]
    State(Until, State),
    /// The same, and it can't leave that state by itself, for this reason.
    #[error("{0} (now {1}, {2})")]
    Stuck(Until, State, String),
    /// The source does not know the condition's container.
    #[error("{0} (unknown so far)")]
    Unknown(Until),
    /// There is no source that could say whether the condition holds.
    #[error("{0}")]
    Unseen(Until),
    /// What each source gives in place of a snapshot.
    #[error("the board {0}, the downward-API volume {1}")]
    NoSource(Absence, Absence),
    /// The conditions hold by a board that was written before the controller heard of this gate. A board at rest shows what the
    /// controller saw last, which may be long ago.
    #[error("the controller to look at them once more")]
    Unheard,
    /// The downward-API volume, which is frozen under a hook, is the only source.
    #[error("no board: under a hook the downward-API volume shows only what was published before")]
    FrozenVolume,
    /// The controller is dead, and the fallback check gives this.
    #[error("the controller is dead; fallback check {0}")]
    Fallback(String),
    /// The controller is dead, and the hook has no fallback check.
    #[error("the controller is dead and can't come back under this hook; give --fallback-check")]
    NoFallback,
    /// The controller is dead.
    #[error("the controller is dead")]
    NoController,
    /// A check has not passed.
    #[error("{0}")]
    Check(String),
    /// The report, which the controller needs, can't be written.
    #[error("can't report to the controller ({0}); mount this container's own folder there")]
    Unreported(String),
}

/// Why a gate ends without its conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// A container before this one has ended, and the kubelet restarts it only when the hook returns.
    #[error("{0} is {1}, and the kubelet restarts it only when this hook returns")]
    Predecessor(String, State),
    /// The condition's container has ended and will not be started again.
    #[error("can never be met: {0}: it is {1} for good")]
    Ended(Until, State),
    /// The condition's container can't go on by itself, for this reason.
    #[error("can never be met: {0}: it is stuck in {1}")]
    Stuck(Until, String),
    /// A check can never pass.
    #[error("can never be met: {0}")]
    Hopeless(String),
    /// A condition names a container that the pod does not have; it has these.
    #[error("no such container: {0}; the pod has {list}", list = .1.join(", "))]
    NoSuchContainer(String, Vec<String>),
    /// The pod is being deleted, and the command that stands behind the gate is never run.
    #[error("the pod is being deleted")]
    Deleted,
}

impl Ending {
    /// The exit code that it leads to.
    pub fn exit(&self) -> Exit {
        match self {
            Ending::NoSuchContainer(..) => Exit::SetUp,
            Ending::Deleted => Exit::Terminated,
            Ending::Predecessor(..) | Ending::Ended(..) | Ending::Stuck(..) | Ending::Hopeless(_) => Exit::Never,
        }
    }
}

/// What a gate does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It lets go.
    Open(Opening),
    /// It waits, for these reasons.
    Closed(Vec<Obstacle>),
    /// It gives up.
    Over(Ending),
}

/// Decides.
pub fn decide(view: &View, terms: &Terms<'_>, waiter: &Waiter) -> Decision {
    let mut obstacles = Vec::new();
    match view {
        View::Word(snapshot, source) => {
            match (snapshot.phase, terms.kind) {
                (Phase::Terminating, Kind::Hook(_)) => return Decision::Open(Opening::Terminating),
                (Phase::Terminating, Kind::Entrypoint(_)) => return Decision::Over(Ending::Deleted),
                (Phase::Started, Kind::Hook(_)) => return Decision::Open(Opening::AlreadyStarted),
                (Phase::Starting | Phase::Started, _) => {}
            }
            let knows_all = *source == Source::Board && waiter.waited >= SETTLING && !snapshot.states.is_empty();
            for until in terms.untils {
                let state = snapshot.states.get(&until.container).copied();
                let stuck = snapshot.stuck.get(&until.container).cloned();
                obstacles.push(match (until.judge(snapshot), state, stuck) {
                    (Standing::Met, ..) => continue,
                    (Standing::Never, Some(state), _) if terms.fail_fast => {
                        return Decision::Over(Ending::Ended(until.clone(), state));
                    }
                    (Standing::NotYet, _, Some(stuck)) if terms.fail_fast => {
                        return Decision::Over(Ending::Stuck(until.clone(), stuck));
                    }
                    (_, None, _) if knows_all => {
                        let known = snapshot.states.keys().cloned().collect();
                        return Decision::Over(Ending::NoSuchContainer(until.container.clone(), known));
                    }
                    (_, None, _) => Obstacle::Unknown(until.clone()),
                    (_, Some(state), Some(stuck)) => Obstacle::Stuck(until.clone(), state, stuck),
                    (_, Some(state), None) => Obstacle::State(until.clone(), state),
                });
            }
            match (terms.kind, source) {
                (Kind::Entrypoint(ticket), Source::Board)
                    if obstacles.is_empty() && !terms.untils.is_empty() && !snapshot.has_heard(ticket) =>
                {
                    obstacles.push(Obstacle::Unheard);
                }
                (Kind::Hook(own), _) if !obstacles.is_empty() => {
                    if let Some((name, state)) = ended_before(snapshot, own) {
                        return Decision::Over(Ending::Predecessor(name, state));
                    }
                    if *source == Source::Volume {
                        obstacles.push(Obstacle::FrozenVolume);
                    }
                }
                _ => {}
            }
        }
        View::None { board, volume } => {
            obstacles.extend(terms.untils.iter().cloned().map(Obstacle::Unseen));
            if !terms.untils.is_empty() {
                obstacles.push(Obstacle::NoSource(board.clone(), volume.clone()));
            }
        }
    }
    if let Some(what) = &waiter.hopeless {
        return Decision::Over(Ending::Hopeless(what.clone()));
    }
    match (&waiter.controller, terms.kind) {
        (Controller::Dead(Some(Ok(()))), _) if waiter.pending_checks.is_empty() => {
            return Decision::Open(Opening::Fallback);
        }
        // Checks alone need no controller.
        _ if obstacles.is_empty() => {}
        (Controller::Dead(Some(Err(why))), _) => obstacles.push(Obstacle::Fallback(why.clone())),
        (Controller::Dead(None), Kind::Hook(_)) => obstacles.push(Obstacle::NoFallback),
        (Controller::Dead(None), Kind::Entrypoint(_)) => obstacles.push(Obstacle::NoController),
        (Controller::Dead(Some(Ok(()))) | Controller::Lives, _) => {}
    }
    obstacles.extend(waiter.pending_checks.iter().cloned().map(Obstacle::Check));
    if obstacles.is_empty() { Decision::Open(Opening::Met) } else { Decision::Closed(obstacles) }
}

/// The first container before `own` in the order that has ended and that the kubelet would start again.
fn ended_before(snapshot: &Snapshot, own: &str) -> Option<(String, State)> {
    let before = snapshot.order.iter().take_while(|name| *name != own);
    let restarts = before.filter(|name| !snapshot.ended_for_good(name));
    restarts.filter_map(|name| Some((name.clone(), *snapshot.states.get(name)?))).find(|(_, state)| state.has_ended())
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Opening::Met => "all conditions hold",
            Opening::AlreadyStarted => "the pod has started before, and a restart waits for nobody",
            Opening::Terminating => "the pod is being deleted",
            Opening::Fallback => "the controller is dead, and the fallback check has passed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::snapshot::{ENDED, NoWord};

    fn snapshot(phase: Phase, states: &[(&str, State)]) -> Snapshot {
        let order = ["db", "api", "web"].map(str::to_owned).into();
        Snapshot { phase, order, ..Snapshot::new("0-0-0".parse().unwrap(), "e", states) }
    }

    fn board(snapshot: Snapshot) -> View {
        View::Word(snapshot, Source::Board)
    }

    const HOOK: Kind<'_> = Kind::Hook("api");
    const GATE: Kind<'_> = Kind::Entrypoint("t1");

    fn until(text: &str) -> Until {
        text.parse().unwrap()
    }

    /// Decides for a gate or hook that waits for `on`.
    fn decided(kind: Kind<'_>, on: &str, view: &View, waiter: &Waiter) -> Decision {
        decide(view, &Terms { kind, untils: &[until(on)], fail_fast: false }, waiter)
    }

    /// Decides for one that has just begun to wait for `api`.
    fn early(kind: Kind<'_>, view: &View) -> Decision {
        decided(kind, "api", view, &Waiter::default())
    }

    fn is_closed(decision: &Decision) -> bool {
        matches!(decision, Decision::Closed(_))
    }

    #[test]
    fn opens_when_all_conditions_hold() {
        let starting = |state| board(snapshot(Phase::Starting, &[("db", State::Ready), ("api", state)]));
        assert_eq!(early(HOOK, &starting(State::Ready)), Decision::Open(Opening::Met));
        let closed = Decision::Closed(vec![Obstacle::State(until("api"), State::Started)]);
        assert_eq!(early(HOOK, &starting(State::Started)), closed);
        let refused = "tcp://h:1 refused".to_owned();
        let pending = Waiter { pending_checks: vec![refused.clone()], ..Waiter::default() };
        let closed = Decision::Closed(vec![Obstacle::Check(refused)]);
        assert_eq!(decided(HOOK, "api", &starting(State::Ready), &pending), closed);
    }

    #[test]
    fn the_pods_phase_opens_hooks_and_never_an_entrypoint_gate() {
        let started = board(snapshot(Phase::Started, &[("api", State::Started)]));
        assert_eq!(early(HOOK, &started), Decision::Open(Opening::AlreadyStarted));
        assert!(is_closed(&early(GATE, &started)));
        let deleted = board(snapshot(Phase::Terminating, &[("api", State::Ready)]));
        assert_eq!(early(HOOK, &deleted), Decision::Open(Opening::Terminating));
        assert_eq!(early(GATE, &deleted), Decision::Over(Ending::Deleted));
    }

    #[test]
    fn an_entrypoint_gate_opens_only_on_what_was_judged_since_it_was_heard() {
        for phase in [Phase::Starting, Phase::Started] {
            let mut s = snapshot(phase, &[("api", State::Ready)]);
            s.heard.insert("web".to_owned(), "t0".to_owned());
            assert!(is_closed(&early(GATE, &board(s.clone()))));
            // The volume alone has no such word, and its guarantee is weaker.
            assert_eq!(early(GATE, &View::Word(s.clone(), Source::Volume)), Decision::Open(Opening::Met));
            s.heard.insert("web".to_owned(), "t1".to_owned());
            assert_eq!(early(GATE, &board(s)), Decision::Open(Opening::Met));
        }
    }

    #[test]
    fn a_check_that_can_never_pass_ends_the_wait() {
        let waiter = Waiter { hopeless: Some("file:///run/1.err is there".to_owned()), ..Waiter::default() };
        let terms = Terms { kind: GATE, untils: &[], fail_fast: false };
        let view = View::None { board: Absence::OtherSandbox, volume: Absence::OtherSandbox };
        assert!(matches!(decide(&view, &terms, &waiter), Decision::Over(Ending::Hopeless(_))));
    }

    #[test]
    fn a_hook_ends_when_a_container_before_it_has_ended_but_not_when_that_is_for_good() {
        let mut s =
            snapshot(Phase::Starting, &[("db", State::Failed), ("api", State::Started), ("web", State::Failed)]);
        let over = Decision::Over(Ending::Predecessor("db".to_owned(), State::Failed));
        assert_eq!(early(HOOK, &board(s.clone())), over);
        s.stuck.insert("db".to_owned(), ENDED.to_owned());
        assert!(is_closed(&early(HOOK, &board(s.clone()))));
        s.states.insert("api".to_owned(), State::Ready);
        assert_eq!(early(HOOK, &board(s)), Decision::Open(Opening::Met));
    }

    #[test]
    fn fails_fast_only_when_asked() {
        for (state, stuck, ending) in [
            (State::Failed, ENDED, Ending::Ended(until("db"), State::Failed)),
            (State::Waiting, "ImagePullBackOff", Ending::Stuck(until("db"), "ImagePullBackOff".to_owned())),
        ] {
            let mut s = snapshot(Phase::Starting, &[("db", state)]);
            s.stuck.insert("db".to_owned(), stuck.to_owned());
            let view = board(s);
            assert!(is_closed(&decided(GATE, "db", &view, &Waiter::default())));
            let fast = Terms { kind: GATE, untils: &[until("db")], fail_fast: true };
            assert_eq!(decide(&view, &fast, &Waiter::default()), Decision::Over(ending));
        }
    }

    #[test]
    fn an_unknown_container_is_a_wrong_set_up_after_a_moment_and_on_the_board_alone() {
        let s = snapshot(Phase::Starting, &[("db", State::Ready)]);
        let late = Waiter { waited: SETTLING, ..Waiter::default() };
        assert!(is_closed(&decided(HOOK, "nobody", &board(s.clone()), &Waiter::default())));
        let over = Decision::Over(Ending::NoSuchContainer("nobody".to_owned(), vec!["db".to_owned()]));
        assert_eq!(decided(HOOK, "nobody", &board(s.clone()), &late), over);
        assert!(is_closed(&decided(HOOK, "nobody", &View::Word(s, Source::Volume), &late)));
    }

    #[test]
    fn without_any_word_the_reason_says_what_each_source_gave() {
        let view = View::None { board: Absence::OtherSandbox, volume: Absence::NoWord(NoWord::Missing) };
        let Decision::Closed(why) = early(HOOK, &view) else { panic!("open") };
        assert_eq!(why[1].to_string(), "the board speaks of another sandbox, the downward-API volume is not there");
        let terms = Terms { kind: HOOK, untils: &[], fail_fast: false };
        assert_eq!(decide(&view, &terms, &Waiter::default()), Decision::Open(Opening::Met));
    }

    #[test]
    fn the_fallback_check_stands_in_for_a_dead_controller() {
        let view = board(snapshot(Phase::Starting, &[("api", State::Started)]));
        let dead = |fallback| {
            decided(HOOK, "api", &view, &Waiter { controller: Controller::Dead(fallback), ..Waiter::default() })
        };
        assert_eq!(dead(Some(Ok(()))), Decision::Open(Opening::Fallback));
        let refused = "tcp://h:1 refused".to_owned();
        for (fallback, obstacle) in
            [(Some(Err(refused.clone())), Obstacle::Fallback(refused)), (None, Obstacle::NoFallback)]
        {
            let Decision::Closed(why) = dead(fallback) else { panic!("open") };
            assert_eq!(why[1], obstacle);
        }
    }
}
