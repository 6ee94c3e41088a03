//! A gate's decision: a function of what is believed of the pod, what the container has looked at by itself, and how long the
//! gate has waited. The reason is part of the result, so that whoever waits can be told for what.

use crate::core::sources::{Source, View};
use crate::core::state::Phase;
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

impl Kind<'_> {
    fn is_hook(self) -> bool {
        matches!(self, Kind::Hook(_))
    }
}

/// What the gate itself has seen, beside the sources.
#[derive(Debug, Clone, Default)]
pub struct Own {
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

/// Why a gate ends without its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// A container before this one has ended, and the kubelet restarts it only when the hook returns.
    Predecessor(String),
    /// A condition can't be met.
    Never(String),
    /// A condition names a container that the pod does not have.
    NoSuchContainer(String),
    /// The pod is being deleted, and the command that stands behind the gate is never run.
    Deleted,
}

/// Where a gate stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It lets go.
    Open(Opening),
    /// It waits, for these things.
    Closed(Vec<String>),
    /// It gives up.
    Over(Ending),
}

/// Decides.
pub fn decide(view: &View, terms: &Terms<'_>, own: &Own) -> Decision {
    let mut waiting = Vec::new();
    match view {
        View::Word(snapshot, source) => {
            match (snapshot.phase, terms.kind) {
                (Phase::Terminating, Kind::Hook(_)) => return Decision::Open(Opening::Terminating),
                (Phase::Terminating, Kind::Entrypoint(_)) => return Decision::Over(Ending::Deleted),
                (Phase::Started, Kind::Hook(_)) => return Decision::Open(Opening::AlreadyStarted),
                (Phase::Starting | Phase::Started, _) => {}
            }
            for until in terms.untils {
                let state = snapshot.states.get(&until.container);
                let stuck = snapshot.stuck.get(&until.container);
                match until.judge(snapshot) {
                    Standing::Met => continue,
                    Standing::Never if terms.fail_fast => {
                        let state = state.map_or("gone", |s| s.as_str());
                        return Decision::Over(Ending::Never(format!("{until}: it is {state} for good")));
                    }
                    Standing::NotYet if terms.fail_fast && stuck.is_some() => {
                        let stuck = stuck.map_or("", String::as_str);
                        return Decision::Over(Ending::Never(format!("{until}: it is stuck in {stuck}")));
                    }
                    Standing::NotYet | Standing::Never => {}
                }
                match (state, source) {
                    (None, Source::Board) if own.waited >= SETTLING && !snapshot.states.is_empty() => {
                        let known: Vec<&str> = snapshot.states.keys().map(String::as_str).collect();
                        let text = format!("{}; the pod has {}", until.container, known.join(", "));
                        return Decision::Over(Ending::NoSuchContainer(text));
                    }
                    (None, _) => waiting.push(format!("{until} (unknown so far)")),
                    (Some(state), _) => waiting.push(match stuck {
                        Some(stuck) => format!("{until} (now {state}, {stuck})"),
                        None => format!("{until} (now {state})"),
                    }),
                }
            }
            if let (Kind::Entrypoint(ticket), Source::Board) = (terms.kind, source)
                && waiting.is_empty()
                && !terms.untils.is_empty()
                && !snapshot.has_heard(ticket)
            {
                // A board at rest shows what the controller saw last, which may be long ago.
                waiting.push("the controller to look at them once more".to_owned());
            }
            if let (Kind::Hook(own_name), false) = (terms.kind, waiting.is_empty())
                && let Some(ended) = ended_before(snapshot, own_name)
            {
                return Decision::Over(Ending::Predecessor(ended));
            }
            if *source == Source::Volume && terms.kind.is_hook() && !waiting.is_empty() {
                waiting.push(
                    "no board: under a hook the downward-API volume shows only what was published before".to_owned(),
                );
            }
        }
        View::None { board, volume } => {
            waiting.extend(terms.untils.iter().map(Until::to_string));
            if !terms.untils.is_empty() {
                waiting.push(format!("the board {board}, the downward-API volume {volume}"));
            }
        }
    }
    if let Some(what) = &own.hopeless {
        return Decision::Over(Ending::Never(what.clone()));
    }
    match &own.controller {
        Controller::Dead(Some(Ok(()))) if own.pending_checks.is_empty() => return Decision::Open(Opening::Fallback),
        Controller::Dead(Some(Err(why))) if !waiting.is_empty() => {
            waiting.push(format!("the controller is dead; fallback check {why}"));
        }
        Controller::Dead(None) if !waiting.is_empty() => waiting.push(match terms.kind {
            Kind::Hook(_) => {
                "the controller is dead and can't come back under this hook; give --fallback-check".to_owned()
            }
            Kind::Entrypoint(_) => "the controller is dead".to_owned(),
        }),
        _ => {}
    }
    waiting.extend(own.pending_checks.iter().cloned());
    if waiting.is_empty() { Decision::Open(Opening::Met) } else { Decision::Closed(waiting) }
}

/// The first container before `own` in the order that has ended and that the kubelet would start again.
fn ended_before(snapshot: &crate::core::snapshot::Snapshot, own: &str) -> Option<String> {
    let before = snapshot.order.iter().take_while(|name| *name != own);
    before
        .filter(|name| !snapshot.ended_for_good(name))
        .find_map(|name| snapshot.states.get(name).filter(|s| s.has_ended()).map(|state| format!("{name} is {state}")))
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

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Predecessor(what) => {
                write!(f, "{what}, and the kubelet restarts it only when this hook returns")
            }
            Ending::Never(what) => write!(f, "can never be met: {what}"),
            Ending::NoSuchContainer(what) => write!(f, "no such container: {what}"),
            Ending::Deleted => f.write_str("the pod is being deleted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::snapshot::{ENDED, NoWord, Snapshot};
    use crate::core::sources::Absence;
    use crate::core::state::State;

    fn snapshot(phase: Phase, states: &[(&str, State)]) -> Snapshot {
        Snapshot {
            sandbox: "0-0-0".parse().unwrap(),
            epoch: "e".to_owned(),
            revision: 1,
            phase,
            states: states.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect(),
            order: vec!["db".to_owned(), "api".to_owned(), "web".to_owned()],
            stuck: [].into(),
            heard: [].into(),
            stopping: [].into(),
            restarts: [].into(),
        }
    }

    fn board(snapshot: Snapshot) -> View {
        View::Word(snapshot, Source::Board)
    }

    fn api_hook(untils: &[Until]) -> Terms<'_> {
        Terms { kind: Kind::Hook("api"), untils, fail_fast: false }
    }

    fn untils() -> Vec<Until> {
        vec!["api".parse().unwrap()]
    }

    #[test]
    fn opens_when_all_conditions_hold() {
        let untils = untils();
        let starting = |state| board(snapshot(Phase::Starting, &[("db", State::Ready), ("api", state)]));
        let decide = |view, own: &Own| decide(&view, &api_hook(&untils), own);
        assert_eq!(decide(starting(State::Ready), &Own::default()), Decision::Open(Opening::Met));
        let closed = decide(starting(State::Started), &Own::default());
        assert_eq!(closed, Decision::Closed(vec!["api=Ready (now Started)".to_owned()]));
        let pending = Own { pending_checks: vec!["tcp://h:1 refused".to_owned()], ..Own::default() };
        assert_eq!(decide(starting(State::Ready), &pending), Decision::Closed(pending.pending_checks.clone()));
    }

    #[test]
    fn a_started_pod_opens_hooks_and_never_an_entrypoint_gate() {
        let untils = untils();
        let view = board(snapshot(Phase::Started, &[("api", State::Started)]));
        assert_eq!(decide(&view, &api_hook(&untils), &Own::default()), Decision::Open(Opening::AlreadyStarted));
        let gate = Terms { kind: Kind::Entrypoint("t1"), ..api_hook(&untils) };
        assert!(matches!(decide(&view, &gate, &Own::default()), Decision::Closed(_)));
    }

    #[test]
    fn deletion_opens_a_hook_and_ends_an_entrypoint_gate() {
        let untils = untils();
        let view = board(snapshot(Phase::Terminating, &[("api", State::Ready)]));
        assert_eq!(decide(&view, &api_hook(&untils), &Own::default()), Decision::Open(Opening::Terminating));
        let gate = Terms { kind: Kind::Entrypoint("t1"), ..api_hook(&untils) };
        assert_eq!(decide(&view, &gate, &Own::default()), Decision::Over(Ending::Deleted));
    }

    #[test]
    fn an_entrypoint_gate_opens_only_on_what_was_judged_since_it_was_heard() {
        let untils = untils();
        let gate = Terms { kind: Kind::Entrypoint("t2"), ..api_hook(&untils) };
        for phase in [Phase::Starting, Phase::Started] {
            let mut s = snapshot(phase, &[("api", State::Ready)]);
            s.heard.insert("web".to_owned(), "t1".to_owned());
            assert!(matches!(decide(&board(s.clone()), &gate, &Own::default()), Decision::Closed(_)));
            // The volume alone has no such word, and its guarantee is weaker.
            let volume = View::Word(s.clone(), Source::Volume);
            assert_eq!(decide(&volume, &gate, &Own::default()), Decision::Open(Opening::Met));
            s.heard.insert("web".to_owned(), "t2".to_owned());
            assert_eq!(decide(&board(s), &gate, &Own::default()), Decision::Open(Opening::Met));
        }
    }

    #[test]
    fn a_check_that_can_never_pass_ends_the_wait() {
        let own = Own { hopeless: Some("file:///run/1.err is there".to_owned()), ..Own::default() };
        let gate = Terms { kind: Kind::Entrypoint("t1"), untils: &[], fail_fast: false };
        let view = View::None { board: Absence::OtherSandbox, volume: Absence::OtherSandbox };
        assert!(matches!(decide(&view, &gate, &own), Decision::Over(Ending::Never(_))));
    }

    #[test]
    fn a_hook_ends_when_a_container_before_it_has_ended_but_not_when_that_is_for_good() {
        let untils = untils();
        let mut s =
            snapshot(Phase::Starting, &[("db", State::Failed), ("api", State::Started), ("web", State::Failed)]);
        let over = decide(&board(s.clone()), &api_hook(&untils), &Own::default());
        assert_eq!(over, Decision::Over(Ending::Predecessor("db is Failed".to_owned())));
        s.stuck.insert("db".to_owned(), ENDED.to_owned());
        assert!(matches!(decide(&board(s.clone()), &api_hook(&untils), &Own::default()), Decision::Closed(_)));
        s.states.insert("api".to_owned(), State::Ready);
        assert_eq!(decide(&board(s), &api_hook(&untils), &Own::default()), Decision::Open(Opening::Met));
    }

    #[test]
    fn fails_fast_only_when_asked() {
        let untils = vec!["db".parse().unwrap()];
        let gate = |fail_fast| Terms { kind: Kind::Entrypoint("t1"), untils: &untils, fail_fast };
        let mut s = snapshot(Phase::Starting, &[("db", State::Failed)]);
        s.stuck.insert("db".to_owned(), ENDED.to_owned());
        assert!(matches!(decide(&board(s.clone()), &gate(false), &Own::default()), Decision::Closed(_)));
        assert!(matches!(decide(&board(s.clone()), &gate(true), &Own::default()), Decision::Over(Ending::Never(_))));
        s.states.insert("db".to_owned(), State::Waiting);
        s.stuck.insert("db".to_owned(), "ImagePullBackOff".to_owned());
        assert!(matches!(decide(&board(s), &gate(true), &Own::default()), Decision::Over(Ending::Never(_))));
    }

    #[test]
    fn an_unknown_container_is_a_wrong_set_up_after_a_moment_and_on_the_board_alone() {
        let untils = vec!["nobody".parse().unwrap()];
        let s = snapshot(Phase::Starting, &[("db", State::Ready)]);
        let late = Own { waited: SETTLING, ..Own::default() };
        assert!(matches!(decide(&board(s.clone()), &api_hook(&untils), &Own::default()), Decision::Closed(_)));
        let over = decide(&board(s.clone()), &api_hook(&untils), &late);
        assert_eq!(over, Decision::Over(Ending::NoSuchContainer("nobody; the pod has db".to_owned())));
        assert!(matches!(decide(&View::Word(s, Source::Volume), &api_hook(&untils), &late), Decision::Closed(_)));
    }

    #[test]
    fn without_any_word_the_reason_says_what_each_source_gave() {
        let untils = untils();
        let view = View::None { board: Absence::OtherSandbox, volume: Absence::NoWord(NoWord::Missing) };
        let Decision::Closed(why) = decide(&view, &api_hook(&untils), &Own::default()) else { panic!("open") };
        assert_eq!(why[1], "the board speaks of another sandbox, the downward-API volume is not there");
        assert_eq!(decide(&view, &api_hook(&[]), &Own::default()), Decision::Open(Opening::Met));
    }

    #[test]
    fn the_fallback_check_stands_in_for_a_dead_controller() {
        let untils = untils();
        let view = board(snapshot(Phase::Starting, &[("api", State::Started)]));
        let dead = |fallback| Own { controller: Controller::Dead(fallback), ..Own::default() };
        let passed = dead(Some(Ok(())));
        assert_eq!(decide(&view, &api_hook(&untils), &passed), Decision::Open(Opening::Fallback));
        for (own, says) in
            [(dead(Some(Err("tcp://h:1 refused".to_owned()))), "refused"), (dead(None), "give --fallback-check")]
        {
            let Decision::Closed(why) = decide(&view, &api_hook(&untils), &own) else { panic!("open") };
            assert!(why[1].contains("the controller is dead") && why[1].contains(says), "{why:?}");
        }
    }
}
